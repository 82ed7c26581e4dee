//! Images of executables and libraries in memory, and the ELF note that leads to the table.

use super::memory::Memory;
use super::table::{NOTE_OWNER, NOTE_TYPE};

/// The flag of a segment with code.
const EXECUTABLE: u32 = 1;
/// Bytes of an ELF header, and of a program header, of 64 bits.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Most program headers that are looked at.
const MOST_HEADERS: u64 = 128;
/// Most bytes of notes.
const MOST_NOTES: u64 = 1 << 16;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A segment of an image, by its program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The type.
    pub kind: u32,
    /// True if it is code.
    pub is_code: bool,
    /// The address in memory.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// An executable or a library, as it lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The distance from addresses in the file to those in memory.
    pub bias: u64,
    /// The segments, in the order of their headers.
    pub segments: Vec<Segment>,
}

impl Image {
    /// The type of a segment that is loaded.
    pub const LOAD: u32 = 1;
    /// The type of a segment with notes.
    pub const NOTE: u32 = 4;
    /// The type of the segment with the index of unwind information.
    pub const UNWIND: u32 = 0x6474_e550;

    /// Reads the image with its first byte, that of its ELF header, at `base`. `None`: it is none
    /// of 64 bits.
    pub fn read(memory: &impl Memory, base: u64) -> Option<Self> {
        let mut header = [0; HEADER];
        memory.read(base, &mut header).then_some(())?;
        // 64 bits, little endian.
        let is_known = header[..6] == *b"\x7fELF\x02\x01"
            && usize::from(u16_at(&header, 54)) == PROGRAM_HEADER;
        let first = is_known.then(|| base.checked_add(u64_at(&header, 32)))??;
        let count = u64::from(u16_at(&header, 56)).min(MOST_HEADERS);
        let headers = (0..count).map_while(|index| {
            let mut program = [0; PROGRAM_HEADER];
            let at = first.checked_add(index * PROGRAM_HEADER as u64)?;
            memory.read(at, &mut program).then_some(program)
        });
        let headers: Vec<_> = headers.collect();
        // The first segment that is loaded has the ELF header.
        let loaded = headers.iter().find(|program| u32_at(&program[..], 0) == Self::LOAD)?;
        let (offset, address) = (u64_at(loaded, 8), u64_at(loaded, 16));
        let bias = base.wrapping_sub(address.wrapping_sub(offset));
        let segment = |program: &[u8; PROGRAM_HEADER]| Segment {
            kind: u32_at(program, 0),
            is_code: u32_at(program, 4) & EXECUTABLE != 0,
            address: bias.wrapping_add(u64_at(program, 16)),
            bytes: u64_at(program, 40),
        };
        Some(Image { bias, segments: headers.iter().map(segment).collect() })
    }

    /// Returns the segments of this type.
    pub fn of(&self, kind: u32) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.kind == kind)
    }

    /// Returns the address of the table, if the image has one.
    pub fn table(&self, memory: &impl Memory) -> Option<u64> {
        self.notes(memory, &NOTE_OWNER, NOTE_TYPE).find_map(|(at, descriptor)| {
            let distance = <[u8; 8]>::try_from(descriptor.as_slice()).ok()?;
            Some(at.wrapping_add(u64::from_le_bytes(distance)))
        })
    }

    /// Returns the descriptors of the notes of this owner, which ends with a zero, and type, each
    /// with its address.
    pub fn notes(
        &self,
        memory: &impl Memory,
        owner: &[u8],
        kind: u32,
    ) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.of(Self::NOTE).flat_map(move |segment| {
            let mut bytes = vec![0; segment.bytes.min(MOST_NOTES) as usize];
            let is_read = memory.read(segment.address, &mut bytes);
            let found = if is_read { notes_in(&bytes, owner, kind) } else { Vec::new() };
            let start = segment.address;
            found.into_iter().map(move |(at, note)| (start.wrapping_add(at as u64), note))
        })
    }
}

/// Returns the descriptors of notes of this owner and type, each with its offset.
fn notes_in(bytes: &[u8], owner: &[u8], kind: u32) -> Vec<(usize, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), 0_usize);
    // Each is aligned to 4 bytes: lengths of owner and descriptor, type, owner, descriptor.
    while let Some(head) = bytes.get(at..at + 12) {
        let (owner_len, len) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let owner_at = at + 12;
        let descriptor_at = (owner_at + owner_len).next_multiple_of(4);
        let Some(descriptor) = bytes.get(descriptor_at..descriptor_at + len) else { break };
        if u32_at(head, 8) == kind && bytes[owner_at..owner_at + owner_len] == *owner {
            found.push((descriptor_at, descriptor.to_vec()));
        }
        at = (descriptor_at + len).next_multiple_of(4);
    }
    found
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, descriptor: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, descriptor.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [owner, descriptor] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn a_note_is_found_among_others() {
        let notes = [
            note(b"GNU\0", 3, b"12345"),
            note(&NOTE_OWNER, 7, b"12345678"),
            note(&NOTE_OWNER, NOTE_TYPE, b"abcdefgh"),
        ];
        let found = notes_in(&notes.concat(), &NOTE_OWNER, NOTE_TYPE);
        assert_eq!(found, [(notes[0].len() + notes[1].len() + 20, b"abcdefgh".to_vec())]);
    }

    #[test]
    fn malformed_notes_end_the_search() {
        let whole = note(&NOTE_OWNER, NOTE_TYPE, b"abcdefgh");
        for cut in 0..whole.len() {
            assert!(notes_in(&whole[..cut], &NOTE_OWNER, NOTE_TYPE).is_empty(), "{cut}");
        }
        assert!(notes_in(&[0xff; 64], &NOTE_OWNER, NOTE_TYPE).is_empty());
    }
}
