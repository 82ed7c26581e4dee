//! Small objects: power-of-two classes, carved from chunks, on free lists under one lock.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::pages::Pages;
use crate::Scope;
use crate::lock::Lock;
use crate::memory::MemoryError;

/// The smallest object has 2^4 = 16 bytes: a free object holds a link.
const LEAST: u32 = 4;
/// The largest object has 2^15 = 32 KiB. Above that, rounding to pages wastes less.
const MOST: u32 = 15;
const CLASSES: usize = (MOST - LEAST + 1) as usize;
/// Bytes mapped at a time.
const CHUNK: usize = 256 * 1024;

/// The binary logarithm of the size that serves `layout`; `None` if it takes whole pages.
pub(super) fn class_of(layout: Layout) -> Option<u32> {
    let size = layout.size().max(layout.align()).max(1 << LEAST);
    let class = size.checked_next_power_of_two()?.trailing_zeros();
    (class <= MOST).then_some(class)
}

pub(super) struct Small {
    state: Lock<SmallState>,
}

impl Small {
    pub(super) fn new(scope: Scope) -> Self {
        let state = SmallState { free: [None; CLASSES], unused: None, left: 0, chunks: None };
        Self { state: Lock::new(scope, state) }
    }

    pub(super) fn alloc(&self, class: u32, pages: &Pages) -> Result<NonNull<u8>, MemoryError> {
        let mut state = self.state.lock();
        match state.pop(class) {
            Some(object) => Ok(object),
            None => state.carve(class, pages),
        }
    }

    /// # Safety
    ///
    /// `object` came from [`Small::alloc`] with the same class, and is free.
    pub(super) unsafe fn free(&self, object: NonNull<u8>, class: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.state.lock().push(object, class) };
    }

    /// Returns all chunks with their objects.
    pub(super) fn release(&mut self, pages: &Pages) {
        let state = self.state.get_mut();
        while let Some(chunk) = state.chunks {
            // SAFETY: a chunk is live until it is returned. The arena's last handle is gone, so no
            // object is in use.
            unsafe {
                state.chunks = chunk.read().next;
                pages.unmap(chunk.cast(), CHUNK);
            }
        }
    }
}

/// The first bytes of a free object and of every chunk.
#[derive(Clone, Copy)]
struct Link {
    next: Option<NonNull<Link>>,
}

struct SmallState {
    /// Free objects by class.
    free: [Option<NonNull<Link>>; CLASSES],
    /// The part of the newest chunk that has not been carved, with `left` bytes.
    unused: Option<NonNull<u8>>,
    left: usize,
    /// All chunks, newest first.
    chunks: Option<NonNull<Link>>,
}

// SAFETY: the pointers refer to memory of the process that is reached through this value only.
unsafe impl Send for SmallState {}

impl SmallState {
    fn pop(&mut self, class: u32) -> Option<NonNull<u8>> {
        let list = &mut self.free[(class - LEAST) as usize];
        let object = (*list)?;
        // SAFETY: objects on a free list are live and hold a link.
        *list = unsafe { object.read().next };
        Some(object.cast())
    }

    /// # Safety
    ///
    /// `object` has 2^`class` bytes with that alignment, in a chunk of this arena, and is unused.
    unsafe fn push(&mut self, object: NonNull<u8>, class: u32) {
        let list = &mut self.free[(class - LEAST) as usize];
        let object = object.cast::<Link>();
        // SAFETY: the caller gives up an object with room for a link.
        unsafe { object.write(Link { next: *list }) };
        *list = Some(object);
    }

    /// Cuts an object off the newest chunk. Pieces skipped for alignment or at the end go to the
    /// free lists of smaller classes.
    #[cold]
    fn carve(&mut self, class: u32, pages: &Pages) -> Result<NonNull<u8>, MemoryError> {
        loop {
            while let Some(piece) = self.next_piece(class) {
                if piece == class {
                    return Ok(self.cut(class));
                }
                let skipped = self.cut(piece);
                // SAFETY: the piece was just cut off and is not used yet.
                unsafe { self.push(skipped, piece) };
            }
            let (chunk, left) = pages.map(CHUNK, 1 << MOST)?;
            let link = chunk.cast::<Link>();
            // SAFETY: the chunk is fresh and larger than its link.
            unsafe {
                link.write(Link { next: self.chunks });
                self.unused = Some(chunk.add(1 << LEAST));
            }
            self.left = left - (1 << LEAST);
            self.chunks = Some(link);
        }
    }

    /// The largest class up to `class` that the unused part can start with; `None` if nothing is
    /// left.
    fn next_piece(&self, class: u32) -> Option<u32> {
        let aligned = self.unused?.addr().trailing_zeros();
        let fitting = self.left.checked_ilog2()?;
        Some(class.min(aligned).min(fitting))
    }

    fn cut(&mut self, class: u32) -> NonNull<u8> {
        let object = self.unused.expect("`next_piece` found one");
        // The count goes first: a process that dies in between leaves too little behind, not too
        // much.
        self.left -= 1 << class;
        // SAFETY: `next_piece` saw at least 2^`class` bytes here.
        self.unused = Some(unsafe { object.add(1 << class) });
        object
    }
}
