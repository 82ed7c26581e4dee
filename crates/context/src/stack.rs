//! Guarded stacks, carved from slabs.
//!
//! ```text
//!  slab: | guard | stack 0 .............. | guard | stack 1 .............. | ..
//!                ^ bottom(0)     top(0) ^         ^ bottom(1)   top(1) ^
//!                |<------- size -------->|
//!        |<----------- stride ----------->|
//! ```
//!
//! A stack is used at its top. If stacks lay a power of two apart, the same lines of all stacks
//! would fall into the same few sets of the caches. Two measures prevent that, both measured with
//! 1000 stacks. The stride is an odd number of pages, which spreads the tops over the sets of the
//! large caches and of the TLB. The top of stack `i` is *coloured*: it lies `(i % 32) * 64` bytes
//! below the end, which spreads the tops over the sets of the first cache (5.4 ns a switch instead
//! of 11.9).

use std::fmt;
use std::ptr::NonNull;

use daiko_sys::arena::{Arena, Region};
use daiko_sys::memory::{
    self, GuardKind, MemoryError, advise_no_huge_pages, install_guards, page_size, whole_pages,
};

use crate::overflow::{self, Listing};
use crate::valgrind;

/// Number of different tops.
pub(crate) const COLOURS: usize = 32;
/// Distance of two tops: a cache line.
pub(crate) const COLOUR: usize = 64;
/// The default size of a stack, where that is two pages or more.
const DEFAULT: usize = 64 << 10;
/// The largest stack.
const MOST: usize = 1 << 30;

/// The size of stacks and of their guards, in whole pages.
///
/// # Examples
///
/// ```
/// use daiko_context::stack::StackClass;
///
/// let class = StackClass::new(100_000, 4096)?;
/// assert_eq!(class.size(), 102_400);
/// assert_eq!(StackClass::default().size(), 65_536);
/// # Ok::<(), daiko_context::stack::StackError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackClass {
    size: usize,
    guard: usize,
}

impl StackClass {
    /// Creates a class of stacks with `size` bytes above `guard` inaccessible bytes, both rounded
    /// up to whole pages. The guard gets one page more if that makes the stride odd.
    ///
    /// The usable part holds the frames and the runtime's data at the top.
    ///
    /// # Errors
    ///
    /// [`StackError::Guard`] unless the guard has at least a byte and less than 1 GiB,
    /// [`StackError::Size`] unless the size is from two pages to 1 GiB.
    pub fn new(size: usize, guard: usize) -> Result<Self, StackError> {
        let page = page_size();
        let guard = match guard {
            1..MOST => guard.next_multiple_of(page),
            _ => return Err(StackError::Guard { guard }),
        };
        let least = 2 * page;
        match whole_pages(size) {
            Some(size) if (least..=MOST).contains(&size) => {
                let is_even = ((size + guard) / page).is_multiple_of(2);
                Ok(Self { size, guard: if is_even { guard + page } else { guard } })
            }
            _ => Err(StackError::Size { size, least }),
        }
    }

    /// The bytes of a stack, without its guard.
    pub fn size(self) -> usize {
        self.size
    }

    /// The distance of two stacks in a slab: size and guard.
    pub fn stride(self) -> usize {
        self.size + self.guard
    }

    /// The bytes of the guard at the low end.
    pub fn guard(self) -> usize {
        self.guard
    }

    /// Restores a class that [`StackClass::new`] made before.
    pub(crate) fn from_parts(size: usize, guard: usize) -> Self {
        Self { size, guard }
    }

    /// The top of stack `index`, relative to its low end.
    pub(crate) fn top(self, index: usize) -> usize {
        self.stride() - index % COLOURS * COLOUR
    }
}

/// 64 KiB, and at least two pages, with a guard of one page.
impl Default for StackClass {
    fn default() -> Self {
        let (size, guard) = (DEFAULT.max(2 * page_size()), page_size());
        Self::new(size, guard).expect("two pages or more, below the largest size")
    }
}

/// Stacks of one class in one piece of memory, each with a guard.
///
/// Dropping the slab unmaps them; all fibers on them must have ended.
#[derive(Debug)]
pub struct Slab {
    class: StackClass,
    count: usize,
    // The listing ends first, so that the fault handler never knows unmapped memory.
    _listing: Listing,
    _registered: valgrind::Stacks,
    region: Region,
}

impl Slab {
    /// Maps `count` stacks and their guards.
    ///
    /// The fault handler of [`crate::overflow`] knows the guards from now on.
    ///
    /// # Errors
    ///
    /// [`StackError::Memory`] with the limit that refused the memory or a guard. Then nothing stays
    /// mapped: no stack lacks its guard.
    ///
    /// # Panics
    ///
    /// If `count` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_context::stack::{Slab, StackClass};
    /// use daiko_sys::{arena::Arena, memory::GuardKind};
    ///
    /// let slab = Slab::new(&Arena::private(), StackClass::default(), 16, GuardKind::probe())?;
    /// assert_eq!(slab.index_of(slab.bottom(3).addr()), Some(3));
    /// # Ok::<(), daiko_context::stack::StackError>(())
    /// ```
    pub fn new(
        arena: &Arena,
        class: StackClass,
        count: usize,
        kind: GuardKind,
    ) -> Result<Self, StackError> {
        assert!(count > 0, "a slab of no stacks");
        let bytes = class.stride().saturating_mul(count);
        let region = arena.map(bytes, page_size())?;
        // SAFETY: the region is fresh.
        let listing = unsafe { protect(&region, class, kind)? };
        let start = region.start().addr().get();
        let usable = |index| {
            let end = start + (index + 1) * class.stride();
            end - class.size..end
        };
        let registered = valgrind::Stacks::register((0..count).map(usable));
        Ok(Self { class, count, _listing: listing, _registered: registered, region })
    }

    /// Makes the stacks usable in the calling process if another process that shares their memory
    /// created them after the fork: guards and the list of the fault handler belong to a single
    /// process.
    ///
    /// Further calls do nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Slab::new`]; then the stacks must not be used in this process.
    pub fn adopt(&self, kind: GuardKind) -> Result<(), StackError> {
        if !overflow::is_listed(self.region.start().as_ptr().expose_provenance()) {
            // SAFETY: the guards hold nothing, as they are guards in the process that created them.
            let listing = unsafe { protect(&self.region, self.class, kind)? };
            // The slab keeps its creator's listing. Dropping that frees the entry of the dropping
            // process.
            std::mem::forget(listing);
        }
        Ok(())
    }

    /// Commits the pages at the tops of these stacks in the calling process, so that the first
    /// fiber on each takes no page fault.
    pub fn populate(&self) {
        for index in 0..self.count {
            let top_page = self.low_end(index).wrapping_add(self.class.stride() - page_size());
            let top_page = NonNull::new(top_page).expect("stacks do not lie at address zero");
            // A page that is not committed now is committed at its first use.
            let _ = memory::populate(top_page, page_size());
        }
    }

    /// The class of these stacks.
    pub fn class(&self) -> StackClass {
        self.class
    }

    /// The number of stacks.
    #[expect(clippy::len_without_is_empty, reason = "a slab has at least one stack")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The coloured top of stack `index`, a multiple of 64: frames go below it.
    ///
    /// # Panics
    ///
    /// If there is no such stack.
    pub fn top(&self, index: usize) -> *mut u8 {
        self.low_end(index).wrapping_add(self.class.top(index))
    }

    /// The lowest usable address of stack `index`, above its guard.
    ///
    /// # Panics
    ///
    /// If there is no such stack.
    pub fn bottom(&self, index: usize) -> *mut u8 {
        self.low_end(index).wrapping_add(self.class.guard)
    }

    fn low_end(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "stack {index} of a slab of {}", self.count);
        self.region.start().as_ptr().wrapping_add(index * self.class.stride())
    }

    /// The index of the stack, guard included, that contains `addr`.
    pub fn index_of(&self, addr: usize) -> Option<usize> {
        let index = addr.checked_sub(self.region.start().addr().get())? / self.class.stride();
        (index < self.count).then_some(index)
    }

    /// Returns the memory of stack `index` to the system. It reads as zero afterwards, and its
    /// guard stays.
    ///
    /// # Errors
    ///
    /// [`StackError::Memory`] if the memory is locked.
    ///
    /// # Panics
    ///
    /// If there is no such stack.
    ///
    /// # Safety
    ///
    /// Nothing runs on this stack, and its contents are not needed any more.
    pub unsafe fn discard(&self, index: usize) -> Result<(), StackError> {
        let usable = self.class.size;
        let bottom = NonNull::new(self.bottom(index)).expect("stacks do not lie at address zero");
        // SAFETY: the caller gives up the contents; the pages are part of the region.
        unsafe { memory::discard(bottom, usable, self.region.arena().scope())? };
        Ok(())
    }
}

/// Installs the guards of a slab and lists it.
///
/// # Safety
///
/// The contents of the guards are not needed any more.
unsafe fn protect(
    region: &Region,
    class: StackClass,
    kind: GuardKind,
) -> Result<Listing, MemoryError> {
    // A stack uses its top page; a huge page would commit 32 stacks at once.
    advise_no_huge_pages(region.start(), region.len());
    // SAFETY: the region is one mapping, and the class has whole pages with the guard smaller than
    // the stride. The caller gives up the contents of the guards.
    unsafe { install_guards(region.start(), region.len(), class.stride(), class.guard, kind)? };
    overflow::list(region.start().as_ptr().expose_provenance(), region.len(), class)
}

/// Reason for the lack of a stack. Its message names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// The size is out of range.
    Size {
        /// The requested size in bytes.
        size: usize,
        /// The smallest size with this guard.
        least: usize,
    },
    /// The size of the guard is out of range.
    Guard {
        /// The requested size in bytes.
        guard: usize,
    },
    /// The system refused the memory or its protection.
    Memory(MemoryError),
}

impl From<MemoryError> for StackError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Size { size, least } => {
                write!(f, "stack size of {size} bytes: choose from {least} to {MOST}")
            }
            Self::Guard { guard } => {
                let least = page_size();
                write!(f, "stack guard of {guard} bytes: choose from {least} to below {MOST}")
            }
            Self::Memory(error) => write!(f, "no stack: {error}"),
        }
    }
}

impl std::error::Error for StackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Memory(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overflow::child::emulated::LinuxPart;
    use daiko_sys::Scope;

    fn arenas() -> [Arena; 2] {
        [Arena::private(), Arena::shared(64 << 20).unwrap()]
    }

    #[test]
    fn sizes_out_of_range_are_refused_in_one_line() {
        let page = page_size();
        let least = 2 * page;
        for size in [0, 1, page, MOST + 1, usize::MAX] {
            let error = StackClass::new(size, page).unwrap_err();
            assert_eq!(error, StackError::Size { size, least });
            let message = error.to_string();
            assert!(message.contains(&format!("from {least} to {MOST}")), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
        for guard in [0, MOST, usize::MAX] {
            assert_eq!(StackClass::new(MOST, guard), Err(StackError::Guard { guard }));
        }
    }

    #[test]
    fn sizes_in_range_are_rounded_to_pages() {
        let page = page_size();
        let class = StackClass::new(2 * page + 1, 1).unwrap();
        assert_eq!((class.size(), class.guard()), (3 * page, 2 * page));
        assert_eq!(StackClass::new(MOST, MOST - page).unwrap().size(), MOST);
        assert_eq!(StackClass::new(DEFAULT.max(2 * page), 1).unwrap(), StackClass::default());
    }

    /// Tops at equal places of 2^k pages would share the sets of caches and of the TLB.
    #[test]
    fn tops_begin_at_different_pages_of_every_power_of_two() {
        let page = page_size();
        for (size, guard) in [(64, 1), (256, 64), (256, 68), (1024, 64), (16, 16), (12, 4)] {
            let (size, guard) = ((size << 10).max(2 * page), guard << 10);
            let class = StackClass::new(size, guard).unwrap();
            let whole = guard.next_multiple_of(page);
            assert!((whole..=whole + page).contains(&class.guard()));
            assert!(!(class.stride() / page).is_multiple_of(2));
            for count in [8, 32, 256] {
                let pages = (0..count).map(|index| index * class.stride() / page % count);
                assert_eq!(pages.collect::<std::collections::HashSet<_>>().len(), count);
            }
        }
    }

    #[test]
    fn tops_are_aligned_coloured_and_inside() {
        for arena in arenas() {
            let class = StackClass::new(5 * page_size(), page_size()).unwrap();
            let slab = Slab::new(&arena, class, 33, GuardKind::probe_for(arena.scope())).unwrap();
            for i in 0..slab.len() {
                let (bottom, top) = (slab.bottom(i).addr(), slab.top(i).addr());
                assert_eq!(top % COLOUR, 0);
                assert_eq!(bottom + class.size() - top, i % COLOURS * COLOUR);
                assert_eq!(slab.index_of(top - 1), Some(i));
                assert_eq!(
                    slab.index_of(bottom - class.guard()),
                    Some(i),
                    "the guard belongs to it"
                );
            }
            let start = slab.bottom(0).addr() - class.guard();
            assert_eq!(slab.index_of(start - 1), None);
            assert_eq!(slab.index_of(start + 33 * class.stride()), None);
        }
    }

    #[test]
    fn every_stack_is_guarded_and_usable_to_both_ends() {
        for arena in arenas() {
            let discards = arena.scope() == Scope::Private || !LinuxPart::Removal.is_lacking();
            for kind in [GuardKind::probe_for(arena.scope()), GuardKind::Protect] {
                let slab = Slab::new(&arena, StackClass::default(), 20, kind).unwrap();
                for i in 0..slab.len() {
                    let bottom = slab.bottom(i);
                    assert!(!memory::is_readable(bottom.wrapping_sub(page_size())), "{kind:?}");
                    assert!(memory::is_readable(bottom));
                    // SAFETY: the stack is fresh, and its top byte lies inside.
                    unsafe {
                        slab.top(i).sub(1).write(7);
                        slab.discard(i).unwrap();
                        assert!(slab.top(i).sub(1).read() == 0 || !discards);
                    }
                }
            }
        }
    }

    /// Returns true if a forked child finds a guard below stack 1 of a slab created after the fork.
    fn is_guarded_in_child(adopts: bool) -> bool {
        let arena = Arena::shared(64 << 20).unwrap();
        let kind = GuardKind::probe_for(arena.scope());
        let page = daiko_sys::memory::Mapping::new(page_size(), arena.scope()).unwrap();
        // SAFETY: zeroed, aligned, and accessed as this atomic only.
        let word = unsafe { crate::atomic::AtomicUsize::from_ptr(page.start().as_ptr().cast()) };
        // SAFETY: the child touches its own copy of memory and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            while word.load(crate::atomic::Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            let slab = word.load(crate::atomic::Ordering::Relaxed) as *const Slab;
            // SAFETY: the slab was written into the shared arena, and stays there.
            let slab = unsafe { &*slab };
            if adopts {
                slab.adopt(kind).unwrap();
                slab.adopt(kind).unwrap();
            }
            let faults = !memory::is_readable(slab.bottom(1).wrapping_sub(page_size()));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(faults)) };
        }
        let memory = arena.alloc(std::alloc::Layout::new::<Slab>()).unwrap().cast::<Slab>();
        // SAFETY: the memory was just allocated for it.
        unsafe { memory.write(Slab::new(&arena, StackClass::default(), 4, kind).unwrap()) };
        word.store(memory.addr().get(), crate::atomic::Ordering::Release);
        let mut status = -1;
        // SAFETY: the status is a live local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        // SAFETY: written above, and dropped once.
        unsafe { memory.drop_in_place() };
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn a_slab_is_guarded_in_another_process_once_that_adopts_it() {
        assert!(is_guarded_in_child(true));
        assert!(!is_guarded_in_child(false), "otherwise no thread need adopt");
    }

    #[test]
    fn too_much_is_an_error_that_leaves_nothing_behind() {
        for _ in 0..100 {
            for count in [1 << 40, usize::MAX] {
                let slab =
                    Slab::new(&Arena::private(), StackClass::default(), count, GuardKind::probe());
                assert!(matches!(slab.unwrap_err(), StackError::Memory(_)));
            }
        }
    }
}
