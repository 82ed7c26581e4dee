//! Backtraces of contexts that are off their stacks.

use std::ops::Range;

use daiko_core::inspect::{Context, Image, Memory, Span};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};

use crate::source::Subject;

/// Most frames of one stack.
const MOST_FRAMES: usize = 1024;
/// Most bytes of unwind information of one image.
const MOST_UNWIND: u64 = 256 << 20;
/// The encoding of an address in the index of unwind information that linkers use: 4 bytes, signed,
/// relative to its place.
const RELATIVE: u8 = 0x1b;

/// The unwinder for one process. It reads the unwind information in the memory of the process, so
/// it needs no file.
pub struct Backtracer {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Backtracer {
    /// Reads the unwind information of the process.
    pub fn new(subject: &Subject) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for file in subject.files() {
            if let Some(module) = module(&subject, &file.path, &file.image) {
                unwinder.add_module(module);
            }
        }
        Backtracer { unwinder, cache: CacheX86_64::new() }
    }

    /// Returns the addresses of the frames of a context, the innermost first: the address at which
    /// it goes on, then return addresses. `stack` is its stack.
    pub fn backtrace(&mut self, context: &Context, stack: &[u8]) -> Vec<u64> {
        let registers = UnwindRegsX86_64::new(
            context.instruction_pointer,
            context.stack_pointer,
            context.frame_pointer,
        );
        let mut read = |address: u64| {
            let at = address.checked_sub(context.stack_pointer).ok_or(())?;
            let at = usize::try_from(at).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            word.try_into().map(u64::from_le_bytes).map_err(|_| ())
        };
        let pointer = context.instruction_pointer;
        let mut frames = self.unwinder.iter_frames(pointer, registers, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while addresses.len() < MOST_FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            addresses.push(frame.address());
        }
        addresses
    }
}

fn module(memory: &impl Memory, path: &str, image: &Image) -> Option<Module<Vec<u8>>> {
    let index = image.of(Image::UNWIND).next()?;
    let mut head = [0; 8];
    memory.read(index.address, &mut head).then_some(())?;
    // Version 1, then the encodings of the address of the information, of the number of entries and
    // of the table.
    if head[..2] != [1, RELATIVE] {
        return None;
    }
    let distance = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let start = (index.address + 4).checked_add_signed(i64::from(distance))?;
    let within = image.of(Image::LOAD).find(|segment| {
        start.checked_sub(segment.address).is_some_and(|offset| offset < segment.bytes)
    })?;
    let end = within.address.checked_add(within.bytes)?;
    let read = |range: Range<u64>| {
        let len = (range.end - range.start).min(MOST_UNWIND) as usize;
        let bytes = memory.read_up_to(Span { start: range.start, len });
        (!bytes.is_empty()).then_some(bytes)
    };
    let index_range = index.address..index.address.checked_add(index.bytes)?;
    let in_file = |range: &Range<u64>| {
        range.start.wrapping_sub(image.bias)..range.end.wrapping_sub(image.bias)
    };
    let start_of_all = image.of(Image::LOAD).map(|segment| segment.address).min()?;
    let ends = image.of(Image::LOAD).map(|segment| segment.address.saturating_add(segment.bytes));
    let all = start_of_all..ends.max()?;
    let code = image.of(Image::LOAD).find(|segment| segment.is_code)?;
    let code = code.address..code.address.saturating_add(code.bytes);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: Some(in_file(&code)),
        eh_frame_svma: Some(in_file(&(start..end))),
        eh_frame: Some(read(start..end)?),
        eh_frame_hdr_svma: Some(in_file(&index_range)),
        eh_frame_hdr: Some(read(index_range)?),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(path.to_owned(), all, image.bias, sections))
}
