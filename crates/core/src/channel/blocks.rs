//! Values in blocks of memory, for one thread at a time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// Least number of values in a block.
const LEAST: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 64 };
/// Most bytes of values in a block with more than the least number.
const MOST_BYTES: usize = 4 << 20;

/// A list of values, oldest first, in blocks that are linked to each other.
///
/// It allocates and frees nothing by itself: a user that holds a lock meanwhile does so outside.
pub(super) struct Blocks<T> {
    /// The block with the oldest value; null if there is no block.
    first: *mut Header<T>,
    /// The block with room for the next value; null if there is no block.
    last: *mut Header<T>,
    /// Index in `first` of the oldest value.
    read: u32,
    /// Room in `first`; 0 if there is no block.
    read_end: u32,
    /// Index in `last` of the next value.
    written: u32,
    /// Room in `last`; 0 if there is no block.
    write_end: u32,
}

/// The begin of a block. The values lie behind it.
#[repr(C)]
struct Header<T> {
    next: *mut Header<T>,
    room: u32,
    values: [T; 0],
}

/// A block that is in no list. Its drop drops no value.
pub(super) struct Block<T>(NonNull<Header<T>>);

impl<T> Block<T> {
    /// Allocates a block for a list of so many values: as large as the list, so that a long list
    /// has few blocks.
    #[cold]
    #[inline(never)]
    pub(super) fn for_list_of(count: usize) -> Self {
        let most = (MOST_BYTES / size_of::<T>().max(1)).max(LEAST as usize);
        let room = count.clamp(LEAST as usize, most) as u32;
        let layout = Self::layout(room);
        // SAFETY: the layout has the size of a header at least.
        let header = unsafe { alloc(layout) }.cast::<Header<T>>();
        let Some(block) = NonNull::new(header) else { handle_alloc_error(layout) };
        // SAFETY: allocated with room for a header.
        unsafe { block.write(Header { next: ptr::null_mut(), room, values: [] }) };
        Block(block)
    }

    fn layout(room: u32) -> Layout {
        let values = Layout::array::<T>(room as usize);
        let both = values.and_then(|values| Layout::new::<Header<T>>().extend(values));
        both.expect("a value fits into memory 64 times").0.pad_to_align()
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `for_list_of` with this layout, and in no list.
        unsafe { dealloc(self.0.as_ptr().cast(), Self::layout(self.0.as_ref().room)) };
    }
}

impl<T> Blocks<T> {
    pub(super) const fn new() -> Self {
        let none = ptr::null_mut();
        Blocks { first: none, last: none, read: 0, read_end: 0, written: 0, write_end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.first == self.last && self.read == self.written
    }

    /// Returns the place of a value.
    ///
    /// # Safety
    ///
    /// The block is alive, and has more room than `index`.
    unsafe fn place(block: *mut Header<T>, index: u32) -> *mut T {
        // SAFETY: inside the block, by this function's contract and the layout.
        unsafe { (&raw mut (*block).values).cast::<T>().add(index as usize) }
    }

    /// Returns true if a value can be appended without a further block.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.written < self.write_end
    }

    /// Appends `value`.
    ///
    /// # Safety
    ///
    /// There [is room](Self::has_room).
    #[inline(always)]
    pub(super) unsafe fn push_within(&mut self, value: T) {
        // SAFETY: there is a last block, with room at this index, by this function's contract.
        unsafe { Self::place(self.last, self.written).write(value) };
        self.written += 1;
    }

    /// Appends `value`. If a block is needed, it is taken from `fresh`; if there is none, the error
    /// contains the value.
    pub(super) fn push(&mut self, value: T, fresh: &mut Option<Block<T>>) -> Result<(), T> {
        if !self.has_room() && !self.grow(fresh) {
            return Err(value);
        }
        // SAFETY: there is room, by the lines above.
        unsafe { self.push_within(value) };
        Ok(())
    }

    /// Appends a block; returns false if there is none in `fresh`.
    fn grow(&mut self, fresh: &mut Option<Block<T>>) -> bool {
        let Some(block) = fresh.take().map(std::mem::ManuallyDrop::new) else { return false };
        // SAFETY: the block is this caller's.
        let (block, room) = (block.0.as_ptr(), unsafe { block.0.as_ref() }.room);
        if self.last.is_null() {
            (self.first, self.read_end) = (block, room);
        } else {
            // SAFETY: blocks of the list are alive, and this list's alone.
            unsafe { (*self.last).next = block };
        }
        (self.last, self.written, self.write_end) = (block, 0, room);
        true
    }

    /// Takes the oldest value, and a block that has become empty, for the caller to free.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(T, Option<Block<T>>)> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the list is not empty, so that the first block has a value at this index, which
        // is not read again.
        let value = unsafe { Self::place(self.first, self.read).read() };
        self.read += 1;
        if self.first != self.last {
            let used = if self.read == self.read_end { Some(self.remove_first()) } else { None };
            return Some((value, used));
        }
        if self.read == self.written {
            // The next values come to the lines that the caller has just used.
            (self.read, self.written) = (0, 0);
        }
        Some((value, None))
    }

    /// Takes out the first block, all values of which were read and which is not the last.
    #[cold]
    #[inline(never)]
    fn remove_first(&mut self) -> Block<T> {
        let used = self.first;
        // SAFETY: the block is alive, and has a successor, which is alive as well.
        unsafe {
            self.first = (*used).next;
            (self.read, self.read_end) = (0, (*self.first).room);
            Block(NonNull::new_unchecked(used))
        }
    }

    fn clear(&mut self) {
        while let Some((value, _)) = self.pop() {
            drop(value);
        }
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        let left = Left(self);
        left.0.clear();
    }
}

/// Values that are dropped, and the last block, even if the destructor of a value panics.
struct Left<'b, T>(&'b mut Blocks<T>);

impl<T> Drop for Left<'_, T> {
    fn drop(&mut self) {
        self.0.clear();
        // The list has no value, so no other block.
        drop(NonNull::new(self.0.last).map(Block));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::scaled;

    proptest! {
        #[test]
        fn blocks_are_a_queue(steps in proptest::collection::vec(0usize..150, 0..scaled(40))) {
            let (mut blocks, mut queue, mut next) = (Blocks::new(), VecDeque::new(), 0);
            for (turn, count) in steps.into_iter().enumerate() {
                for _ in 0..count {
                    if turn % 2 == 0 {
                        queue.push_back(Box::new(next));
                        if let Err(value) = blocks.push(Box::new(next), &mut None) {
                            blocks.push(value, &mut Some(Block::for_list_of(queue.len()))).unwrap();
                        }
                        next += 1;
                    } else {
                        prop_assert_eq!(blocks.pop().map(|(value, _)| value), queue.pop_front());
                    }
                }
                prop_assert_eq!(blocks.is_empty(), queue.is_empty());
            }
        }
    }

    #[test]
    fn an_empty_list_has_one_block() {
        let mut blocks = Blocks::new();
        let mut made = 0;
        for value in 0..1_000 {
            let mut fresh = (blocks.written == blocks.write_end).then(|| Block::for_list_of(value));
            made += usize::from(fresh.is_some());
            assert_eq!(blocks.push(value, &mut fresh), Ok(()));
        }
        let freed = std::iter::from_fn(|| blocks.pop()).filter(|(_, used)| used.is_some()).count();
        assert_eq!((made, freed), (5, 4), "64, 64, 128, 256 and 512 values");
    }

    #[test]
    fn values_without_a_size_and_large_values_have_blocks() {
        let mut units = Blocks::new();
        assert_eq!(units.push((), &mut Some(Block::for_list_of(1 << 40))), Ok(()));
        assert_eq!(units.pop().map(|(value, _)| value), Some(()));
        let mut pages = Blocks::new();
        assert!(pages.push([1u8; 1 << 12], &mut Some(Block::for_list_of(1 << 40))).is_ok());
        assert_eq!(pages.write_end as usize, MOST_BYTES >> 12);
    }
}
