//! An arena: one handle from which all objects of a runtime are allocated.
//!
//! A private arena maps memory as it needs it. A shared arena carves all objects out of one mapping
//! that forked processes inherit at the same address, so that the runtime may have processes as
//! workers. A lent arena takes its memory from a [`MemorySource`] with the same property. After
//! creation an arena never uses the global allocator.

mod pages;
mod small;
mod source;

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::Scope;
use crate::memory::MemoryError;

use pages::Pages;
use small::Small;
pub use source::MemorySource;

/// A handle to an arena; clones are cheap and refer to the same arena.
///
/// The arena's memory lives until the last handle and the last [`Region`] are gone.
///
/// # Examples
///
/// ```
/// use daiko_sys::arena::Arena;
/// use std::alloc::Layout;
///
/// let arena = Arena::shared(1 << 30)?;
/// let stack = arena.map(64 * 1024, 4096)?;
/// let layout = Layout::new::<[u64; 4]>();
/// let object = arena.alloc(layout)?;
/// // SAFETY: it comes from this arena, with this layout, and is freed once.
/// unsafe { arena.free(object, layout) };
/// # drop(stack);
/// # Ok::<(), daiko_sys::memory::MemoryError>(())
/// ```
#[derive(Clone)]
pub struct Arena {
    inner: Arc<Inner>,
}

struct Inner {
    small: Small,
    pages: Pages,
}

impl Arena {
    /// Creates an arena for one process, which maps memory as it needs it.
    pub fn private() -> Self {
        Self::over(Pages::private())
    }

    /// Creates an arena in one mapping of `reserve_bytes`, which forked processes share.
    ///
    /// The reservation takes addresses only; pages are committed when touched.
    ///
    /// # Errors
    ///
    /// The limit that refused the reservation.
    pub fn shared(reserve_bytes: usize) -> Result<Self, MemoryError> {
        Ok(Self::over(Pages::shared(reserve_bytes)?))
    }

    /// Creates an arena over memory of an allocator that several processes share.
    pub fn lent(source: &'static dyn MemorySource) -> Self {
        Self::over(Pages::Lent(source))
    }

    fn over(pages: Pages) -> Self {
        Self { inner: Arc::new(Inner::new(pages)) }
    }

    /// The processes that use this arena. Futex calls on words in the arena take the same scope.
    pub fn scope(&self) -> Scope {
        self.inner.pages.scope()
    }

    /// Maps at least `bytes` bytes of zeroed, whole pages, aligned to `align` (a power of two).
    ///
    /// # Errors
    ///
    /// The limit that refused the memory.
    pub fn map(&self, bytes: usize, align: usize) -> Result<Region, MemoryError> {
        let (start, len) = self.inner.pages.map(bytes, align)?;
        Ok(Region { arena: self.clone(), start, len })
    }

    /// Allocates uninitialised memory for an object.
    ///
    /// Sizes are rounded up to powers of two; an object larger than 32 KiB takes whole pages.
    ///
    /// # Errors
    ///
    /// The limit that refused the memory.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, MemoryError> {
        self.inner.alloc(layout)
    }

    /// Frees an object's memory.
    ///
    /// # Safety
    ///
    /// `object` comes from [`Arena::alloc`] of this arena with the same `layout`, has not been
    /// freed, and is not used any more.
    pub unsafe fn free(&self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.inner.free(object, layout) };
    }
}

impl Inner {
    fn new(pages: Pages) -> Self {
        Inner { small: Small::new(pages.scope()), pages }
    }

    fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, MemoryError> {
        if let Pages::Lent(source) = self.pages {
            let refused = MemoryError::Reservation { bytes: layout.size() };
            return source.alloc(layout).ok_or(refused);
        }
        match small::class_of(layout) {
            Some(class) => self.small.alloc(class, &self.pages),
            None => self.pages.map(layout.size(), layout.align()).map(|(start, _)| start),
        }
    }

    /// # Safety
    ///
    /// The conditions of [`Arena::free`].
    unsafe fn free(&self, object: NonNull<u8>, layout: Layout) {
        if let Pages::Lent(source) = self.pages {
            // SAFETY: the caller's promise.
            return unsafe { source.free(object, layout) };
        }
        match small::class_of(layout) {
            // SAFETY: the caller's promise; the layout leads to the same class as in `alloc`.
            Some(class) => unsafe { self.small.free(object, class) },
            // SAFETY: the caller's promise; the layout leads to the same pages as in `alloc`.
            None => unsafe { self.pages.unmap(object, layout.size()) },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.small.release(&self.pages);
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("scope", &self.scope()).finish_non_exhaustive()
    }
}

/// Whole pages of an arena. Dropping a region removes its guards and returns its pages.
#[derive(Debug)]
pub struct Region {
    arena: Arena,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a region belongs to the process, not to a thread, and the type only hands out addresses.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "a region has at least one page")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The arena that these pages came from.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the pages came from this arena and are returned once.
        unsafe { self.arena.inner.pages.unmap(self.start, self.len) };
    }
}

#[cfg(test)]
mod tests;
