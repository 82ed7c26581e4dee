//! An arena that lies in its own memory, with all that it knows of itself.

use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;

use super::{Inner, Pages};
use crate::Scope;
use crate::memory::{Mapping, MemoryError, whole_pages};

/// Memory for objects of any size in one shared mapping, which forked processes use together.
///
/// Nothing of it lies elsewhere, so that it may be the global allocator, and that who has the mapping has it all.
/// It is never unmapped.
///
/// # Examples
///
/// ```
/// use daiko_sys::arena::Heap;
/// use std::alloc::Layout;
///
/// let heap = Heap::create(1 << 30)?;
/// let layout = Layout::new::<[u64; 4]>();
/// let object = heap.alloc(layout)?;
/// assert!(heap.contains(object.as_ptr()));
/// // SAFETY: it comes from this heap, with this layout, and is freed once.
/// unsafe { heap.free(object, layout) };
/// # Ok::<(), daiko_sys::memory::MemoryError>(())
/// ```
pub struct Heap {
    inner: Inner,
    root: AtomicPtr<()>,
}

impl Heap {
    /// A heap in a new mapping of `reserve_bytes`.
    ///
    /// The reservation takes addresses only; pages are committed when touched.
    ///
    /// # Errors
    ///
    /// Which limit refused the reservation, or that the heap itself has no room in it.
    pub fn create(reserve_bytes: usize) -> Result<&'static Self, MemoryError> {
        let mapping = Mapping::new(reserve_bytes, Scope::Shared)?;
        let own = whole_pages(size_of::<Self>()).unwrap_or(usize::MAX);
        if mapping.len() <= own {
            return Err(MemoryError::Reservation { bytes: own });
        }
        let heap = mapping.start().cast::<Self>();
        // SAFETY: the mapping is fresh; its first pages are the heap's own, of which it has room for one, and
        // it is never unmapped.
        unsafe {
            let inner = Inner::new(Pages::over(mapping, own));
            heap.write(Heap { inner, root: AtomicPtr::new(ptr::null_mut()) });
            Ok(heap.as_ref())
        }
    }

    /// Allocates uninitialised memory for an object.
    ///
    /// # Errors
    ///
    /// That the reservation is used up.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, MemoryError> {
        self.inner.alloc(layout)
    }

    /// Takes an object's memory back, in whichever process it was allocated.
    ///
    /// # Safety
    ///
    /// `object` comes from [`Heap::alloc`] of this heap with the same `layout`, has not been freed, and is
    /// not used any more.
    pub unsafe fn free(&self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.inner.free(object, layout) };
    }

    /// Whether the address lies in this heap's mapping.
    pub fn contains<T: ?Sized>(&self, address: *const T) -> bool {
        let inside = |mapping: &Mapping| {
            let offset = address.addr().checked_sub(mapping.start().addr().get());
            offset.is_some_and(|offset| offset < mapping.len())
        };
        self.inner.pages.mapping().is_some_and(inside)
    }

    /// A word in the heap, null at first, from which its user finds what he has put there.
    pub fn root(&self) -> &AtomicPtr<()> {
        &self.root
    }

    /// Has this process map what small objects lie in now, so that it takes no page faults there.
    pub fn populate(&self) {
        self.inner.small.populate();
    }
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forked_child_allocates_is_there_and_can_be_freed() {
        let heap = Heap::create(64 << 20).unwrap();
        let link = heap.alloc(Layout::new::<usize>()).unwrap().cast::<usize>();
        let layouts = [Layout::new::<u64>(), Layout::from_size_align(100_000, 8).unwrap()];
        for layout in layouts {
            // SAFETY: the child allocates from the heap only, then leaves by `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let object = heap.alloc(layout).unwrap();
                // SAFETY: both are new, and large enough; the child ends here.
                unsafe {
                    object.write(7);
                    link.write(object.addr().get());
                    libc::_exit(0);
                }
            }
            let mut status = -1;
            // SAFETY: the status is a live local.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
            // SAFETY: the child has written the address of an object, which nobody else has.
            unsafe {
                let object = NonNull::new(link.read() as *mut u8).unwrap();
                assert!(heap.contains(object.as_ptr()));
                assert_eq!(object.read(), 7);
                heap.free(object, layout);
                assert_eq!(heap.alloc(layout).unwrap(), object);
            }
        }
    }

    #[test]
    fn a_reservation_that_is_too_small_is_an_error() {
        assert!(matches!(Heap::create(1), Err(MemoryError::Reservation { .. })));
        let heap = Heap::create(1 << 20).unwrap();
        let layout = Layout::from_size_align(2 << 20, 8).unwrap();
        assert!(matches!(heap.alloc(layout), Err(MemoryError::Reservation { .. })));
        heap.populate();
    }

    #[test]
    fn other_addresses_are_not_in_it() {
        let heap = Heap::create(1 << 20).unwrap();
        let first = std::ptr::from_ref(heap).cast::<u8>();
        assert!(heap.contains(first) && heap.contains(first.wrapping_add((1 << 20) - 1)));
        assert!(!heap.contains(first.wrapping_sub(1)));
        assert!(!heap.contains(first.wrapping_add(1 << 20)));
        assert!(!heap.contains(&0));
    }
}
