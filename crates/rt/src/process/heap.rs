//! Where the program's objects lie, and those of a runtime, for all of its processes to see.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use daiko_core::slab;
use daiko_sys::arena::Arena;
use daiko_sys::memory::MemoryError;

use super::segment::Segment;

/// Addresses that are reserved unless the program says otherwise: no memory yet.
const RESERVE: usize = 64 << 30;
/// Where not even so many are to be had, there is no use in asking for less.
const LEAST: usize = 64 << 20;

/// The program's one heap, once something was allocated.
static HEAP: AtomicPtr<Segment> = AtomicPtr::new(ptr::null_mut());

/// The global allocator of a program whose workers are processes: what one of them allocates all can use and free.
///
/// ```
/// # use daiko_rt as daiko;
/// #[global_allocator]
/// static HEAP: daiko::process::SharedHeap = daiko::process::SharedHeap::new();
/// # assert!(daiko::process::is_shared(&*Box::new(7)));
/// ```
///
/// It reserves addresses at its first use, before `main`, and commits pages as they are touched. What has been
/// committed stays with the program, except for objects above 32 KiB. In a program of one process it is an allocator
/// like any other.
///
/// It has no lock, and to allocate or to free is one step: a process that is killed takes nothing with it but the
/// objects that nobody else knows of. Of the one that it was about to get or to give away when it died nobody can
/// say whether it had it. What it was putting together is [swept](Self::sweep).
///
/// To free what is not allocated ends the program, where that is found.
#[derive(Debug)]
pub struct SharedHeap {
    reserve: usize,
}

/// What the memory of the [`SharedHeap`] is used for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Of objects, each as long as its size was rounded up to.
    pub in_use: usize,
    /// Of what somebody puts together or takes apart, or died doing so: at most one object for each thread, or the
    /// pages of a few small ones.
    pub in_flight: usize,
    /// Of what may be allocated, though not all at once in one object. Most of it may be addresses without memory.
    pub free: usize,
}

impl Default for SharedHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedHeap {
    /// A heap of at most 64 GiB, stacks of fibers and all, or less where the limits of the process do not allow as many addresses.
    pub const fn new() -> Self {
        Self::with_reserve(RESERVE)
    }

    /// A heap of at most `bytes`, stacks of fibers and all, or less where the limits of the process do not allow as many addresses.
    pub const fn with_reserve(bytes: usize) -> Self {
        Self { reserve: bytes }
    }

    /// What the memory of the program's heap is used for; `None` if it has none. Exact while nobody allocates.
    ///
    /// Takes time by how much has been in use at most.
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

    /// The name by which the heap knows the calling process, and nobody else; `None` if the program has no heap.
    ///
    /// A process that may die tells it to others, who [sweep](Self::sweep) for it.
    pub fn user() -> Option<u32> {
        heap().map(Segment::user)
    }

    /// Gives back what a dead process was putting together or taking apart: how many bytes.
    ///
    /// Any number of processes may do so at once, and die of it. What the dead one had allocated stays so.
    /// Takes time by how much has been in use at most.
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
    /// // SAFETY: nobody goes by that name.
    /// assert_eq!(unsafe { SharedHeap::sweep(u32::MAX) }, 0);
    /// ```
    pub unsafe fn sweep(dead: u32) -> usize {
        // SAFETY: passed on to the caller.
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
        // Release: pairs with the Acquire in `heap`. Where another thread was faster, addresses are wasted.
        match HEAP.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Some(created),
            Err(_) => heap(),
        }
    }
}

// SAFETY: the heap gives memory out once, as the layout asks, until it is freed; it never unwinds.
unsafe impl GlobalAlloc for SharedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let object = self.heap().and_then(|heap| heap.alloc(layout));
        object.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if let (Some(heap), Some(object)) = (heap(), NonNull::new(object)) {
            // SAFETY: the caller's promise; there is one heap.
            unsafe { heap.free(object, layout) };
        }
    }
}

/// The program's heap, if it has one.
#[inline]
pub(crate) fn heap() -> Option<&'static Segment> {
    // SAFETY: a heap is never unmapped. Acquire: pairs with the Release in `reserve_slow`.
    unsafe { HEAP.load(Ordering::Acquire).as_ref() }
}

/// Whether the value lies where all processes of the program see it: in the [`SharedHeap`].
pub fn is_shared<T: ?Sized>(value: *const T) -> bool {
    heap().is_some_and(|heap| heap.contains(value))
}

/// Memory for a runtime whose workers are processes: the program's heap, which there is, as `build` has asked.
pub(crate) fn arena() -> Result<Arena, MemoryError> {
    heap().map(|heap| Arena::lent(heap)).ok_or(MemoryError::Reservation { bytes: LEAST })
}

/// What `make` makes of so many bytes, or of half as many, and so on.
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
