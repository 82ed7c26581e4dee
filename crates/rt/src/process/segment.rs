//! The mapping in which a program's objects lie, with all their bookkeeping.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

use daiko_core::slab::{self, Caller, LARGEST, Reserve, Stats};
use daiko_sys::arena::MemorySource;
use daiko_sys::kernel_local;
use daiko_sys::memory::{self, Mapping, MemoryError, page_size, whole_pages};
use daiko_sys::{Scope, signal};

use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The allocator of `core`, which hands out offsets, as an allocator of objects. It lies at the
/// beginning of its mapping, which is never unmapped, so that all forked processes have it.
///
/// Each thread has a [`Caller`] with hints of its own. The thread of a forked child goes on with
/// those of the thread that forked, until it needs a name. The callers of a process share one name,
/// as they die together.
pub(crate) struct Segment {
    /// A word for the user of the segment, from which it finds its own data.
    root: AtomicPtr<()>,
    /// Number of processes that were given a name. Each process adds itself once.
    users: AtomicU32,
    /// The allocator. Its offset 0 is `base`.
    memory: Reserve<'static>,
    base: NonNull<u8>,
    mapping: Mapping,
}

// SAFETY: the memory is reached by the allocator's words and by its users only.
unsafe impl Sync for Segment {}

// SAFETY: the mapping is shared, and never unmapped; allocated memory has one user. Whole pages are
// returned in the same way for any alignment: by the beginning of their run.
unsafe impl MemorySource for Segment {
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.alloc(layout)
    }

    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: by this function's contract.
        unsafe { self.free(memory, layout) };
    }
}

kernel_local! {
    /// Each thread's own. The functions that use it are not inlined: a fiber may go on in another
    /// thread.
    static CALLER: UnsafeCell<Option<Caller<'static>>> = const { UnsafeCell::new(None) };
}

/// Number of threads of this process that have had a caller.
static CALLERS: AtomicU32 = AtomicU32::new(0);

/// This process's id, and below it its name. The id tells a forked child that the name is its
/// parent's.
static USER: AtomicU64 = AtomicU64::new(0);

impl Segment {
    /// Creates a segment in a new mapping of `reserve_bytes`.
    pub(crate) fn create(reserve_bytes: usize) -> Result<&'static Self, MemoryError> {
        let mapping = Mapping::new(reserve_bytes, Scope::Shared)?;
        let refused = MemoryError::Reservation { bytes: reserve_bytes };
        let own = whole_pages(size_of::<Self>()).filter(|&own| own < mapping.len());
        let own = own.ok_or(refused)?;
        let segment = mapping.start().cast::<Self>();
        // SAFETY: the mapping is fresh, and never unmapped; its first pages belong to the segment,
        // the other pages to the allocator.
        unsafe {
            let base = mapping.start().add(own);
            let memory = Reserve::over(base, mapping.len() - own).map_err(|_| refused)?;
            let (root, users) = (AtomicPtr::new(ptr::null_mut()), AtomicU32::new(0));
            segment.write(Segment { root, users, memory, base, mapping });
            Ok(segment.as_ref())
        }
    }

    /// Allocates uninitialised memory for an object.
    #[inline(never)]
    pub(crate) fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        let near = self.by_caller(|caller| caller.alloc_near(layout.size(), layout.align()));
        let offset = near.or_else(|| self.alloc_new(layout))?;
        // SAFETY: the allocator's offsets are inside.
        Some(unsafe { self.base.add(offset) })
    }

    #[cold]
    fn alloc_new(&self, layout: Layout) -> Option<usize> {
        // Pages are aligned to `slab::ALIGN`; a greater alignment needs additional room.
        let align = layout.align().min(slab::ALIGN);
        let size = layout.size().checked_add(layout.align() - align)?;
        let offset = self.by_name(|caller| self.memory.alloc_new(caller, size, align))?;
        let address = self.base.addr().get() + offset;
        Some(offset + (address.next_multiple_of(layout.align()) - address))
    }

    /// Takes an object's memory back. The process that allocated it may be another.
    ///
    /// # Safety
    ///
    /// `object` comes from [`alloc`](Self::alloc) with the same `layout`, has not been freed, and
    /// is not used any more.
    #[inline(never)]
    pub(crate) unsafe fn free(&self, object: NonNull<u8>, layout: Layout) {
        let offset = object.addr().get().wrapping_sub(self.base.addr().get());
        let freed = if slab::takes_pages(layout.size(), layout.align()) {
            // SAFETY: by this function's contract.
            unsafe { self.free_pages(offset, layout) }
        } else {
            self.by_caller(|caller| caller.free(offset)).is_ok()
        };
        if !freed {
            not_allocated();
        }
    }

    /// Takes back the memory of an object that takes whole pages.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free), at this offset.
    #[cold]
    unsafe fn free_pages(&self, offset: usize, layout: Layout) -> bool {
        let Some(start) = self.memory.heap().start_of(offset) else { return false };
        if layout.size() > LARGEST {
            // SAFETY: these bytes are not used any more, by this function's contract.
            unsafe { self.discard(offset, layout.size()) };
        }
        self.by_name(|caller| caller.free(start)).is_ok()
    }

    /// Returns whole pages of memory to the kernel.
    ///
    /// # Safety
    ///
    /// The bytes are an object's that is not used any more.
    unsafe fn discard(&self, offset: usize, len: usize) {
        // SAFETY: inside the mapping.
        let start = unsafe { self.base.add(offset) };
        let skipped = start.align_offset(page_size());
        let len = len.saturating_sub(skipped) / page_size() * page_size();
        // SAFETY: by this function's contract; if the kernel refuses, the pages are kept.
        let _ = unsafe { memory::discard(start.add(skipped), len, Scope::Shared) };
    }

    /// Frees the objects that a dead process was putting together or taking apart; returns their
    /// bytes.
    ///
    /// # Safety
    ///
    /// No thread of the process by that name makes a further step.
    pub(crate) unsafe fn sweep(&self, dead: u32) -> usize {
        self.by_name(|caller| self.memory.sweep(caller, dead))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.memory.stats()
    }

    /// Returns the name of this process, counted from 1; no other process has had it.
    pub(crate) fn user(&self) -> u32 {
        let process = std::process::id();
        let known = USER.load(Ordering::Relaxed);
        if (known >> 32) as u32 == process {
            return known as u32;
        }
        let name = self.users.fetch_add(1, Ordering::Relaxed) + 1;
        let own = u64::from(process) << 32 | u64::from(name);
        // Relaxed: no other memory depends on the word.
        match USER.compare_exchange(known, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => name,
            Err(faster) => faster as u32,
        }
    }

    /// Calls `f` with the thread's caller, for an operation that needs no name.
    #[inline(always)]
    fn by_caller<R>(&self, f: impl FnOnce(&mut Caller<'static>) -> R) -> R {
        CALLER.with(|caller| {
            // SAFETY: the cell belongs to this thread, and `f` does not come here again.
            match unsafe { &mut *caller.get() } {
                Some(caller) => f(caller),
                none => f(self.first_caller(none)),
            }
        })
    }

    /// Creates the thread's first caller. In a frame of its own, as a caller is large.
    #[cold]
    #[inline(never)]
    fn first_caller<'c>(&self, caller: &'c mut Option<Caller<'static>>) -> &'c mut Caller<'static> {
        caller.insert(self.caller(self.user()))
    }

    /// Calls `f` with the thread's caller, for an operation that needs a name: in a forked child,
    /// with a new caller.
    fn by_name<R>(&self, f: impl FnOnce(&mut Caller<'static>) -> R) -> R {
        let user = self.user();
        self.by_caller(|caller| {
            if caller.id() != user {
                *caller = self.caller(user);
            }
            f(caller)
        })
    }

    fn caller(&self, user: u32) -> Caller<'static> {
        let place = user << 16 ^ CALLERS.fetch_add(1, Ordering::Relaxed);
        Caller::sharing(self.memory.heap(), user, place)
    }

    /// Makes this thread use another part of the memory than the process from which it was forked.
    pub(crate) fn leave_parents_place(&self) {
        self.by_name(|_| ());
    }

    /// Returns true if the address lies in this mapping.
    pub(crate) fn contains<T: ?Sized>(&self, address: *const T) -> bool {
        let offset = address.addr().checked_sub(self.mapping.start().addr().get());
        offset.is_some_and(|offset| offset < self.mapping.len())
    }

    /// Returns a word, null at first, from which the user of the segment finds its own data.
    pub(crate) fn root(&self) -> &AtomicPtr<()> {
        &self.root
    }

    /// Maps the pages of small objects in this process now, so that it takes no page faults there.
    pub(crate) fn populate(&self) {
        for bytes in self.memory.small() {
            // SAFETY: inside the mapping, down to the beginning of the page.
            let start = unsafe { self.base.add(bytes.start / page_size() * page_size()) };
            let len = bytes.len() + bytes.start % page_size();
            // Pages that are not populated now are mapped when they are touched.
            let _ = whole_pages(len).map(|len| memory::populate(start, len));
        }
    }
}

/// Ends a program that frees an object that is not allocated.
#[cold]
fn not_allocated() -> ! {
    signal::write_stderr(&[b"daiko: an object is freed that is not allocated\n"]);
    signal::abort()
}
