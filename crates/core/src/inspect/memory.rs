//! Memory of a process, and values in it.

use super::table::{Field, Words};

/// Most bytes of a struct.
pub(super) const MOST_STRUCT: u64 = 1 << 20;
/// Most bytes of a list of words.
const MOST_WORDS: usize = 1 << 12;

/// Memory that can be read by its addresses.
pub trait Memory {
    /// Fills `into` from `address` on. Returns false if a byte cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// Returns the bytes of a range, or as many of them as can be read. Takes no more memory than
    /// about twice that: the length may be wrong.
    fn read_up_to(&self, range: Span) -> Vec<u8> {
        const AT_FIRST: usize = 16 << 10;
        let mut bytes = Vec::new();
        let mut step = AT_FIRST;
        while bytes.len() < range.len && step > 0 {
            let before = bytes.len();
            bytes.resize(range.len.min(before + step), 0);
            let Some(at) = range.start.checked_add(before as u64) else { break };
            // Where the memory ends, ever smaller steps find the end.
            if self.read(at, &mut bytes[before..]) {
                step = bytes.len().max(AT_FIRST);
            } else {
                step = (bytes.len() - before) / 2;
                bytes.truncate(before);
            }
        }
        bytes
    }

    /// Fills `into` with the bytes of the ranges, one after the other; so many there are in all.
    /// Returns the number of ranges before the first one that cannot be read.
    fn read_each(&self, ranges: &[Span], mut into: &mut [u8]) -> usize {
        for (count, range) in ranges.iter().enumerate() {
            let (now, later) = into.split_at_mut(range.len);
            if !self.read(range.start, now) {
                return count;
            }
            into = later;
        }
        ranges.len()
    }
}

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first address.
    pub start: u64,
    /// Number of bytes.
    pub len: usize,
}

pub(super) fn address<T>(pointer: *const T) -> u64 {
    pointer.addr() as u64
}

/// The bytes of a struct of the process, with fields taken out by their layout.
pub(super) struct Struct<B = Vec<u8>>(B);

impl Struct {
    pub(super) fn read(memory: &impl Memory, address: u64, bytes: u64) -> Option<Self> {
        if bytes > MOST_STRUCT {
            return None;
        }
        let mut all = vec![0; bytes as usize];
        memory.read(address, &mut all).then_some(Struct(all))
    }
}

impl<'b> Struct<&'b [u8]> {
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        Struct(bytes)
    }
}

impl<B: AsRef<[u8]>> Struct<B> {
    pub(super) fn as_ref(&self) -> Struct<&[u8]> {
        Struct(self.0.as_ref())
    }

    /// Returns the parts of this size, which is not 0.
    pub(super) fn chunks(&self, bytes: u64) -> impl Iterator<Item = Struct<&[u8]>> {
        self.0.as_ref().chunks(bytes as usize).map(Struct)
    }

    /// Returns the field, of at most 8 bytes; 0 if it lies outside.
    pub(super) fn get(&self, field: Field) -> u64 {
        let from = field.offset as usize;
        let to = from.saturating_add(field.bytes.min(8) as usize);
        let bytes = self.0.as_ref().get(from..to);
        let mut word = [0; 8];
        if let Some(bytes) = bytes {
            word[..bytes.len()].copy_from_slice(bytes);
        }
        u64::from_le_bytes(word)
    }
}

/// Reads one field of the struct at `base`.
pub(super) fn read_field(memory: &impl Memory, base: u64, field: Field) -> Option<u64> {
    let mut word = [0; 8];
    let into = word.get_mut(..field.bytes as usize)?;
    memory.read(base.checked_add(u64::from(field.offset))?, into).then_some(())?;
    Some(u64::from_le_bytes(word))
}

pub(super) fn read_text(memory: &impl Memory, start: u64, len: u64) -> Option<String> {
    let mut bytes = vec![0; len as usize];
    memory.read(start, &mut bytes).then(|| plain_text(&bytes))
}

/// Returns text for a terminal, or a reader of lines: each control character becomes `?`.
pub fn plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

pub(super) fn read_words(memory: &impl Memory, words: Words) -> Option<Vec<String>> {
    if words.len > MOST_WORDS {
        return None;
    }
    let text = read_text(memory, address(words.start), words.len as u64)?;
    Some(text.split(' ').map(str::to_owned).collect())
}
