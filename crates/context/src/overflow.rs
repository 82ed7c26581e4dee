//! Reports the overflow of a fiber's stack, with its name and origin, before the process dies.
//!
//! The handler runs on the alternate stack of the faulting thread
//! ([`daiko_sys::signal::AltStack`]). It must find out, without a lock or an allocation, whether
//! the fault hit a guard of a slab. Slabs are therefore listed in an append-only chain of pages.
//! Entries are reused but never freed:
//!
//! 1. A slab claims an entry by moving its `start` from `FREE` to `CLAIMED`.
//! 2. It writes the other fields, then publishes the true `start` (Release).
//! 3. The handler reads `start` (Acquire), the fields, and `start` again. An entry that changed
//!    meanwhile does not belong to the faulting slab, which stays alive while a fiber runs on it.
//! 4. Dropping the slab frees the entry.
//!
//! The chain belongs to one process. Each process that shares a slab lists it separately, and the
//! process that drops the slab may not be its creator: so a slab finds its entry by the address
//! listed there.

use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;

use daiko_core::field;
use daiko_core::inspect::SlabList;
use daiko_sys::Scope;
use daiko_sys::memory::{Mapping, MemoryError};
use daiko_sys::signal::{self, Fault};

use crate::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::stack::{COLOUR, COLOURS, StackClass};

/// The fiber with the overflowed stack, as its report describes it.
#[derive(Debug)]
pub struct Description {
    name: [u8; 64],
    len: usize,
    spawned_at: Option<&'static Location<'static>>,
}

impl Description {
    /// Describes a fiber of which nothing is known.
    fn unnamed() -> Self {
        let mut fiber = Description { name: [0; 64], len: 0, spawned_at: None };
        fiber.set_name(b"<unnamed>");
        fiber
    }

    /// Sets the name. Bytes beyond the 64th are cut off; control characters become `?`.
    pub fn set_name(&mut self, name: &[u8]) {
        self.len = name.len().min(self.name.len());
        for (to, from) in self.name.iter_mut().zip(name) {
            *to = if from.is_ascii_control() { b'?' } else { *from };
        }
    }

    /// Sets the source location that spawned the fiber.
    pub fn set_spawned_at(&mut self, place: &'static Location<'static>) {
        self.spawned_at = Some(place);
    }

    fn name(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

/// Describes the fiber that runs on the stack with this coloured top. Async-signal-safe.
///
/// A fiber whose name is not set is reported as `<unnamed>`.
pub type Describe = fn(top: *mut u8, fiber: &mut Description);

static DESCRIBE: OnceLock<Describe> = OnceLock::new();

/// Installs the handler, which reports overflows of [`crate::stack::Slab`] stacks in one line on
/// standard error and then aborts the process.
///
/// All other faults go to the handler that was installed before. Threads that run on such stacks
/// need an alternate stack.
///
/// # Errors
///
/// `AlreadyExists` on a second call; otherwise the error of `sigaction`.
///
/// # Safety
///
/// `describe` is async-signal-safe, and reads what lies at the top of each stack of a
/// [`crate::stack::Slab`] in this process.
pub unsafe fn install(describe: Describe) -> io::Result<()> {
    DESCRIBE.set(describe).map_err(|_| io::ErrorKind::AlreadyExists)?;
    // SAFETY: it writes to standard error, and ends the process; the rest is the caller's promise.
    unsafe { signal::on_fault(report) }
}

fn report(fault: Fault) {
    let Some((top, size)) = overflowed(fault) else { return };
    let mut fiber = Description::unnamed();
    if let Some(describe) = DESCRIBE.get() {
        describe(top, &mut fiber);
    }
    let mut digits = [[0; 20]; 3];
    let [line, column, kib] = &mut digits;
    let origin = match fiber.spawned_at {
        Some(at) => [
            b", spawned at ",
            at.file().as_bytes(),
            b":",
            decimal(at.line() as usize, line),
            b":",
            decimal(at.column() as usize, column),
        ],
        None => [&b""[..]; 6],
    };
    let [spawned, file, colon, line, second_colon, column] = origin;
    signal::write_stderr(&[
        b"daiko: stack overflow in fiber '",
        fiber.name(),
        b"'",
        spawned,
        file,
        colon,
        line,
        second_colon,
        column,
        b" (stack of ",
        decimal(size / 1024, kib),
        b" KiB; larger: Builder::stack_size, RuntimeBuilder::stack_size, DAIKO_STACK_SIZE)\n",
    ]);
    signal::abort();
}

/// Formats a number without the formatting machinery, which is not guaranteed to be
/// async-signal-safe.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// The coloured top and the size of the overflowed stack; `None` if no guard of a slab was hit.
///
/// A stray pointer that hits a guard is not an overflow: the faulting code runs on another stack.
fn overflowed(fault: Fault) -> Option<(*mut u8, usize)> {
    let slab = entries().find_map(|entry| entry.read(fault.address))?;
    let index = (fault.address - slab.start) / slab.class.stride();
    let low_end = slab.start + index * slab.class.stride();
    let own = low_end..low_end + slab.class.stride();
    let overflow = fault.address < low_end + slab.class.guard();
    if !overflow || !own.contains(&fault.stack_pointer) {
        return None;
    }
    let top = ptr::with_exposed_provenance_mut(low_end + slab.class.top(index));
    Some((top, slab.class.size()))
}

/// Returns the lowest usable byte of the stack that `top` lies in or ends; `None` if it is in no
/// slab.
#[cfg(daiko_sanitize)]
pub(crate) fn bottom_of(top: *mut u8) -> Option<*mut u8> {
    let last = top.addr() - 1;
    let slab = entries().find_map(|entry| entry.read(last))?;
    let index = (last - slab.start) / slab.class.stride();
    Some(top.with_addr(slab.start + index * slab.class.stride() + slab.class.guard()))
}

/// The slab of an entry.
struct Listed {
    start: usize,
    class: StackClass,
}

const FREE: usize = 0;
const CLAIMED: usize = 1;

/// A place for a slab. `start` decides about access to the other fields: see the head of this file.
struct SlabEntry {
    start: AtomicUsize,
    len: AtomicUsize,
    size: AtomicUsize,
    guard: AtomicUsize,
}

impl SlabEntry {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(FREE),
            len: AtomicUsize::new(0),
            size: AtomicUsize::new(0),
            guard: AtomicUsize::new(0),
        }
    }

    /// Publishes a slab in this entry. Returns false if the entry is in use.
    fn claim(&self, start: usize, len: usize, class: StackClass) -> bool {
        // Acquire: pairs with the Release in `Listing::drop`.
        let free = self.start.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        // Pairs with the Acquire fence in `read`: a reader of a field below sees CLAIMED as well.
        fence(Ordering::Release);
        self.len.store(len, Ordering::Relaxed);
        self.size.store(class.size(), Ordering::Relaxed);
        self.guard.store(class.guard(), Ordering::Relaxed);
        // Pairs with the Acquire load in `read`.
        self.start.store(start, Ordering::Release);
        true
    }

    /// The slab of this entry, if `address` lies in it.
    fn read(&self, address: usize) -> Option<Listed> {
        // Pairs with the Release store in `claim`.
        let start = self.start.load(Ordering::Acquire);
        if start == FREE || start == CLAIMED {
            return None;
        }
        let len = self.len.load(Ordering::Relaxed);
        let class = StackClass::from_parts(
            self.size.load(Ordering::Relaxed),
            self.guard.load(Ordering::Relaxed),
        );
        // Pairs with the Release fence in `claim`.
        fence(Ordering::Acquire);
        let same = self.start.load(Ordering::Relaxed) == start;
        let inside = address.checked_sub(start).is_some_and(|offset| offset < len);
        (same && inside).then_some(Listed { start, class })
    }
}

/// Number of entries that leave room for the link in 4 KiB.
const ENTRIES: usize = 127;

/// A page of the chain. All zero is a valid page, so a fresh mapping is valid.
struct ChainPage {
    entries: [SlabEntry; ENTRIES],
    next: AtomicPtr<ChainPage>,
}

static FIRST: ChainPage = ChainPage {
    entries: [const { SlabEntry::new() }; ENTRIES],
    next: AtomicPtr::new(ptr::null_mut()),
};

impl ChainPage {
    fn next(&self) -> Option<&'static ChainPage> {
        // SAFETY: a page in the chain is never unmapped. Acquire: pairs with
        // the Release in `append`.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The page behind this one. Maps it if there is none.
    fn append(&self) -> Result<&'static ChainPage, MemoryError> {
        if let Some(next) = self.next() {
            return Ok(next);
        }
        let fresh = Mapping::new(size_of::<ChainPage>(), Scope::Private)?;
        let page = fresh.start().as_ptr().cast();
        let null = ptr::null_mut();
        // Release: pairs with the Acquire in `next`. It publishes a page of zeros.
        match self.next.compare_exchange(null, page, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => _ = fresh.into_raw(),
            Err(_) => drop(fresh),
        }
        Ok(self.next().expect("a page was just appended"))
    }
}

/// The layout of the list, for debuggers.
pub const LIST: SlabList = SlabList {
    first: (&raw const FIRST).cast(),
    next: field!(ChainPage, next),
    entries: field!(ChainPage, entries),
    entry_bytes: size_of::<SlabEntry>() as u64,
    start: field!(SlabEntry, start),
    len: field!(SlabEntry, len),
    size: field!(SlabEntry, size),
    guard: field!(SlabEntry, guard),
    colours: COLOURS as u64,
    colour_bytes: COLOUR as u64,
};

fn pages() -> impl Iterator<Item = &'static ChainPage> {
    std::iter::successors(Some(&FIRST), |page| page.next())
}

fn entries() -> impl Iterator<Item = &'static SlabEntry> {
    pages().flat_map(|page| &page.entries)
}

/// The listing of a slab. Dropping it frees the entry.
#[derive(Debug)]
pub(crate) struct Listing {
    start: usize,
}

/// Lists a slab, so that the fault handler knows its guards.
pub(crate) fn list(start: usize, len: usize, class: StackClass) -> Result<Listing, MemoryError> {
    let mut page = &FIRST;
    loop {
        if page.entries.iter().any(|entry| entry.claim(start, len, class)) {
            return Ok(Listing { start });
        }
        page = page.append()?;
    }
}

/// Returns true if this process has listed the slab that starts there.
pub(crate) fn is_listed(start: usize) -> bool {
    entry_of(start).is_some()
}

fn entry_of(start: usize) -> Option<&'static SlabEntry> {
    // Relaxed: the caller keeps the slab alive, so no other slab is listed under its address
    // meanwhile.
    entries().find(|entry| entry.start.load(Ordering::Relaxed) == start)
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some(entry) = entry_of(self.start) {
            // Release: pairs with the Acquire in `claim`.
            entry.start.store(FREE, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/child.rs"]
pub(crate) mod child;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Slab;
    use daiko_sys::arena::Arena;
    use daiko_sys::memory::{GuardKind, page_size};

    fn slab() -> Slab {
        let class = StackClass::new(5 * page_size(), page_size()).unwrap();
        Slab::new(&Arena::private(), class, 3, GuardKind::probe()).unwrap()
    }

    #[test]
    fn a_hit_guard_names_its_stack() {
        let slab = slab();
        for i in 0..slab.len() {
            let (bottom, top) = (slab.bottom(i).addr(), slab.top(i).addr());
            for stack_pointer in [bottom - 8, bottom + 8, top - 8] {
                let fault = Fault { address: bottom - 1, stack_pointer };
                assert_eq!(overflowed(fault), Some((slab.top(i), slab.class().size())));
            }
        }
    }

    #[test]
    fn other_faults_are_none_of_ours() {
        let slab = slab();
        let (bottom, top) = (slab.bottom(1).addr(), slab.top(1).addr());
        let other = slab.top(2).addr() - 8;
        let (guard, stack_pointer) = (bottom - 8, top - 8);
        for (address, stack_pointer) in
            [(bottom, stack_pointer), (0, stack_pointer), (guard, other), (guard, 0)]
        {
            assert_eq!(overflowed(Fault { address, stack_pointer }), None);
        }
    }

    /// Runs alone in its process: otherwise another test's slab may take the address.
    #[test]
    fn guards_of_freed_slabs_are_not_ours() {
        child::in_child_well("overflow::tests::guards_of_freed_slabs_are_not_ours", || {
            let slab = slab();
            let fault =
                Fault { address: slab.bottom(1).addr() - 8, stack_pointer: slab.top(1).addr() - 8 };
            assert!(overflowed(fault).is_some());
            drop(slab);
            assert_eq!(overflowed(fault), None);
        });
    }

    #[test]
    fn more_slabs_than_a_page_holds_are_all_listed() {
        for _ in 0..2 {
            let slabs: Vec<Slab> = (0..3 * ENTRIES).map(|_| slab()).collect();
            for slab in &slabs {
                let (address, stack_pointer) = (slab.bottom(2).addr() - 1, slab.top(2).addr() - 1);
                assert!(overflowed(Fault { address, stack_pointer }).is_some());
            }
        }
        assert!(pages().count() <= 6, "freed entries are used again");
    }

    #[test]
    fn names_fit_in_one_line() {
        let mut fiber = Description::unnamed();
        assert_eq!(fiber.name(), b"<unnamed>");
        fiber.set_name(b"a\nb\x7f");
        assert_eq!(fiber.name(), b"a?b?");
        fiber.set_name(&[b'x'; 100]);
        assert_eq!(fiber.name(), &[b'x'; 64]);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let mut digits = [0; 20];
        for number in [0, 7, 64, 1 << 20, usize::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
