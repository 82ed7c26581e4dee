//! The slab allocator, over words that peers overwrite: all allocations lie inside, and each call
//! ends.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use daiko_core::slab::{ALIGN, Caller, Heap};

const LEN: usize = 96 << 10;
/// Words before the pages.
const WORDS: usize = ALIGN / 8;

/// Each twelve bytes are a step: operation, caller, a size or place, and the new value of a word.
pub(super) fn fuzz(data: &[u8]) {
    let memory = Memory::new();
    // SAFETY: valid for as long as the heap is used, and aligned; it is changed by whole words
    // below.
    let Ok(heap) = (unsafe { Heap::over(memory.0, LEN) }) else { panic!("zeros are a heap") };
    let mut callers = [1, 2].map(|id| Caller::new(heap, id));
    for &[what, by, low, high, word @ ..] in data.as_chunks::<12>().0 {
        let (caller, number) = (&mut callers[usize::from(by & 1)], u16::from_le_bytes([low, high]));
        let number = usize::from(number);
        match what % 6 {
            0 | 1 => {
                let align = 1 << ((by >> 1) % 13);
                if let Some(offset) = caller.alloc(number, align) {
                    assert!(offset >= ALIGN && offset + number <= LEN && offset % align == 0);
                }
            }
            2 => _ = caller.free(2 * number),
            3 => memory.word(number % WORDS).store(u64::from_le_bytes(word), Relaxed),
            4 => _ = (caller.reclaim(), caller.sweep(u32::from(low))),
            _ => {
                let room = heap.size_of(2 * number);
                assert!(room.is_err() || room.is_ok_and(|room| 2 * number + room <= LEN));
                let stats = heap.stats();
                let known = stats.in_use + stats.in_flight + stats.free + stats.waste;
                assert!(known >= LEN - 2 * ALIGN);
            }
        }
    }
}

fn layout() -> Layout {
    Layout::from_size_align(LEN, ALIGN).expect("a power of two")
}

struct Memory(NonNull<u8>);

impl Memory {
    fn new() -> Self {
        // SAFETY: not of size 0.
        Self(NonNull::new(unsafe { alloc_zeroed(layout()) }).expect("memory"))
    }

    fn word(&self, i: usize) -> &AtomicU64 {
        assert!(i < WORDS);
        // SAFETY: inside the memory, which is aligned, zeroed, and accessed atomically only.
        unsafe { self.0.cast::<AtomicU64>().add(i).as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not borrowed any more: the heap is dropped
        // before.
        unsafe { dealloc(self.0.as_ptr(), layout()) };
    }
}
