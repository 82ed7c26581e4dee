//! Where the program's objects lie, and those of a runtime, for all of its processes to see.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use daiko_sys::arena::{Arena, Heap};
use daiko_sys::memory::MemoryError;

/// Addresses that are reserved unless the program says otherwise: no memory yet.
const RESERVE: usize = 64 << 30;
/// Where not even so many are to be had, there is no use in asking for less.
const LEAST: usize = 64 << 20;

/// The program's one heap, once something was allocated.
static HEAP: AtomicPtr<Heap> = AtomicPtr::new(ptr::null_mut());

/// The global allocator of a program whose workers are processes: what one of them allocates all can use and free.
///
/// ```
/// #[global_allocator]
/// static HEAP: daiko::process::SharedHeap = daiko::process::SharedHeap::new();
/// # assert!(daiko::process::is_shared(&*Box::new(7)));
/// ```
///
/// It reserves addresses at its first use, before `main`, and commits pages as they are touched. What has been
/// committed stays with the program, except for objects above 32 KiB. In a program of one process it is an allocator
/// like any other, though a slow one: all threads share one lock.
#[derive(Debug)]
pub struct SharedHeap {
    reserve: usize,
}

impl Default for SharedHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedHeap {
    /// A heap of at most 64 GiB, or less where the limits of the process do not allow as many addresses.
    pub const fn new() -> Self {
        Self::with_reserve(RESERVE)
    }

    /// A heap of at most `bytes`, or less where the limits of the process do not allow as many addresses.
    pub const fn with_reserve(bytes: usize) -> Self {
        Self { reserve: bytes }
    }

    #[inline]
    fn heap(&self) -> Option<&'static Heap> {
        heap().or_else(|| self.reserve_slow())
    }

    #[cold]
    fn reserve_slow(&self) -> Option<&'static Heap> {
        let created = as_much(self.reserve, Heap::create).ok()?;
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
        let object = self.heap().and_then(|heap| heap.alloc(layout).ok());
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
pub(crate) fn heap() -> Option<&'static Heap> {
    // SAFETY: a heap is never unmapped. Acquire: pairs with the Release in `reserve_slow`.
    unsafe { HEAP.load(Ordering::Acquire).as_ref() }
}

/// Whether the value lies where all processes of the program see it: in the [`SharedHeap`].
pub fn is_shared<T: ?Sized>(value: *const T) -> bool {
    heap().is_some_and(|heap| heap.contains(value))
}

/// Memory for a runtime whose workers are processes.
pub(crate) fn arena() -> Result<Arena, MemoryError> {
    as_much(RESERVE, Arena::shared)
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
