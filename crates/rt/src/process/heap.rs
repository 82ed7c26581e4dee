//! The shared heap: the memory of the program's objects and of a runtime, visible to all of its
//! processes.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

use daiko_core::slab;
use daiko_sys::arena::Arena;
use daiko_sys::memory::MemoryError;

use super::segment::Segment;
use crate::atomic::{AtomicPtr, Ordering};

/// Bytes of addresses that are reserved by default: no memory yet.
const RESERVE: usize = 64 << 30;
/// The minimum of bytes: it is no use to ask for less.
const LEAST: usize = 64 << 20;

/// The program's one heap, once an object was allocated.
static HEAP: AtomicPtr<Segment> = AtomicPtr::new(ptr::null_mut());

/// The global allocator of a program with worker processes: each process can use and free the
/// objects that another allocates.
///
/// ```
/// # use daiko_rt as daiko;
/// #[global_allocator]
/// static HEAP: daiko::process::SharedHeap = daiko::process::SharedHeap::new();
/// # assert!(daiko::process::is_shared(&*Box::new(7)));
/// ```
///
/// It reserves addresses at its first use, before `main`, and commits pages as they are touched.
/// Committed pages stay with the program, except for objects above 32 KiB. In a program of one
/// process it is an allocator like any other.
///
/// It has no lock, and to allocate or to free is one step. A process that is killed loses only the
/// objects that no other process knows of. Of an object that it was about to receive or to give
/// away, it cannot be told which side had it. Objects that it was putting together are
/// [swept](Self::sweep).
///
/// To free an object that is not allocated ends the program, where that is detected.
#[derive(Debug)]
pub struct SharedHeap {
    reserve: usize,
}

/// The use of the memory of the [`SharedHeap`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Bytes of objects, with sizes rounded up.
    pub in_use: usize,
    /// Bytes that a thread puts together or takes apart, or was when it died: at most one object
    /// for each thread, or the pages of a few small objects.
    pub in_flight: usize,
    /// Bytes that may be allocated, though not all at once in one object. Most of it may be
    /// addresses without memory.
    pub free: usize,
}

impl Default for SharedHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedHeap {
    /// Creates a heap of at most 64 GiB, including stacks of fibers, or less if the limits of the
    /// process do not allow that many addresses.
    pub const fn new() -> Self {
        Self::with_reserve(RESERVE)
    }

    /// Creates a heap of at most `bytes`, including stacks of fibers, or less if the limits of the
    /// process do not allow that many addresses.
    pub const fn with_reserve(bytes: usize) -> Self {
        Self { reserve: bytes }
    }

    /// Returns the use of the memory of the program's heap; `None` if it has none. Exact while no
    /// thread allocates.
    ///
    /// Takes time in proportion to the maximum that has been in use.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # use daiko::process::SharedHeap;
    /// # #[global_allocator] static HEAP: SharedHeap = SharedHeap::new();
    /// let before = SharedHeap::stats().unwrap();
    /// let kept = Box::new([0_u8; 1000]);
    /// let now = SharedHeap::stats().unwrap();
    /// assert_eq!(now.in_use, before.in_use + 1024);
    /// # drop(kept);
    /// ```
    pub fn stats() -> Option<HeapStats> {
        let slab::Stats { in_use, in_flight, free, .. } = heap()?.stats();
        Some(HeapStats { in_use, in_flight, free })
    }

    /// Returns the name by which the heap knows the calling process, and no other; `None` if the
    /// program has no heap.
    ///
    /// A process that may die publishes it to other processes, which [sweep](Self::sweep) for it.
    pub fn user() -> Option<u32> {
        heap().map(Segment::user)
    }

    /// Frees the objects that a dead process was putting together or taking apart; returns their
    /// bytes.
    ///
    /// Any number of processes may do so at once, and die of it. Objects that the dead process had
    /// allocated stay. Takes time in proportion to the maximum that has been in use.
    ///
    /// # Safety
    ///
    /// `dead` is the [name](Self::user) of a process that has ended, with all its threads.
    ///
    /// # Examples
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # use daiko::process::SharedHeap;
    /// # #[global_allocator] static HEAP: SharedHeap = SharedHeap::new();
    /// // SAFETY: no process has that name.
    /// assert_eq!(unsafe { SharedHeap::sweep(u32::MAX) }, 0);
    /// ```
    pub unsafe fn sweep(dead: u32) -> usize {
        // SAFETY: by this function's contract.
        heap().map_or(0, |heap| unsafe { heap.sweep(dead) })
    }

    #[inline]
    fn heap(&self) -> Option<&'static Segment> {
        heap().or_else(|| self.reserve_slow())
    }

    #[cold]
    fn reserve_slow(&self) -> Option<&'static Segment> {
        let created = as_much(self.reserve, Segment::create).ok()?;
        let new = ptr::from_ref(created).cast_mut();
        // Release: pairs with the Acquire in `heap`. If another thread was faster, the addresses
        // are wasted.
        match HEAP.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Some(created),
            Err(_) => heap(),
        }
    }
}

// SAFETY: the heap hands memory out once, in the layout asked for, until it is freed; it never
// unwinds.
unsafe impl GlobalAlloc for SharedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let object = self.heap().and_then(|heap| heap.alloc(layout));
        object.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if let (Some(heap), Some(object)) = (heap(), NonNull::new(object)) {
            // SAFETY: by this function's contract; there is one heap.
            unsafe { heap.free(object, layout) };
        }
    }
}

/// Returns the program's heap, if it has one.
#[inline]
pub(crate) fn heap() -> Option<&'static Segment> {
    // SAFETY: a heap is never unmapped. Acquire: pairs with the Release in `reserve_slow`.
    unsafe { HEAP.load(Ordering::Acquire).as_ref() }
}

/// Returns true if the value lies in the [`SharedHeap`], where all processes of the program see it.
pub fn is_shared<T: ?Sized>(value: *const T) -> bool {
    heap().is_some_and(|heap| heap.contains(value))
}

/// Returns the memory for a runtime with worker processes: the program's heap, which exists, as
/// `build` has checked.
pub(crate) fn arena() -> Result<Arena, MemoryError> {
    heap().map(|heap| Arena::lent(heap)).ok_or(MemoryError::Reservation { bytes: LEAST })
}

/// Calls `make` with `bytes`, then with half as many, and so on, until it succeeds.
fn as_much<T>(
    bytes: usize,
    make: impl Fn(usize) -> Result<T, MemoryError>,
) -> Result<T, MemoryError> {
    let mut bytes = bytes;
    loop {
        match make(bytes) {
            Err(_) if bytes / 2 >= LEAST => bytes /= 2,
            result => return result,
        }
    }
}
