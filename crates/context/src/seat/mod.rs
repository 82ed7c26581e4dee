//! Seats: how a context finds the worker whose kernel thread it runs on.
//!
//! A context that has thread-local storage of its own cannot find the worker by a thread-local:
//! each context would need a copy, and would touch one more page. Instead each worker has a *seat*,
//! at an address that its kernel thread keeps in a register.
//!
//! ```text
//!  Finder::Gs                                    Finder::ThreadLocal
//!
//!  GS ──> seat: thread pointer, occupant, own    SEAT, a thread-local ──> the same seat
//!               must equal FS                    handed from context to context
//! ```
//!
//! Processors other than x86-64 have no GS: `tpidr_el0` of aarch64 and `tp` of riscv64 are thread
//! pointers. There contexts find their seats by a thread-local, and user code writes the register.
//!
//! A new thread inherits GS from the thread that starts it, and so does a forked child. So GS alone
//! proves nothing: the thread pointer must be the one that the seat's thread has noted at its last
//! switch. Another thread of the process has another thread pointer. A child has the same, but the
//! kernel clears the table of seats in it (`MADV_WIPEONFORK`).
//!
//! A thread may ask long after the worker whose seat it has inherited has ended. So seats are never
//! unmapped; a seat that was left is used again by the next worker. Nor is a GS base that another
//! library has set taken for a seat: a seat lies in the table.
//!
//! A child that shares the memory of its parent *and* its thread pointer is not told from its
//! parent: `vfork`, and `clone` with `CLONE_VM` but without `CLONE_SETTLS`. Such a child uses the
//! parent's thread-locals as well, so it may call next to nothing of any library.

pub(crate) mod state;

use std::fmt;
use std::io;
use std::ptr;
use std::sync::OnceLock;

use daiko_sys::Scope;
use daiko_sys::memory::{Mapping, MemoryError, map_once, wipe_on_fork};

pub use self::state::Seat;
use self::state::{SEATS, of_thread, set_of_thread};
pub(crate) use self::state::{TABLE, TABLE_BYTES};
use crate::arch;
use crate::atomic::{AtomicPtr, Ordering};

/// How a context finds its seat. Chosen once for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finder {
    /// GS is the address of the seat, and user code reads and writes both bases: FSGSBASE.
    Gs,
    /// A thread-local is the address of the seat. Thread pointers are set by `arch_prctl` on
    /// x86-64, and by user code on other processors, which have no second register for the seat.
    ThreadLocal,
}

/// The reason why a thread could not take a seat.
#[derive(Debug)]
#[non_exhaustive]
pub enum SeatError {
    /// There is no memory for the seats.
    Memory(MemoryError),
    /// The kernel refuses to clear the seats in forked children (before Linux 4.14).
    Wipe(io::Error),
    /// Another library uses the GS base of this thread.
    GsInUse {
        /// Its value.
        base: usize,
    },
    /// The kernel refuses `arch_prctl`.
    Refused(io::Error),
    /// All seats are taken.
    Full,
}

impl fmt::Display for SeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeatError::Memory(error) => error.fmt(f),
            SeatError::Wipe(error) => {
                write!(f, "MADV_WIPEONFORK is refused ({error}); use Linux 4.14 or later")
            }
            SeatError::GsInUse { base } => write!(
                f,
                "the GS base is in use ({base:#x}), by Wine or another library; set \
                 DAIKO_THREAD_REGISTER=arch_prctl"
            ),
            SeatError::Refused(error) => write!(
                f,
                "arch_prctl is refused ({error}); allow it in the seccomp filter, or set \
                 DAIKO_THREAD_REGISTER=arch_prctl"
            ),
            SeatError::Full => write!(f, "{SEATS} workers run in this process; drop a runtime"),
        }
    }
}

impl std::error::Error for SeatError {}

impl Seat {
    /// Takes a seat for the calling thread, which runs under its own thread pointer. `occupant` is
    /// found by [`Seat::occupant`] until the thread [leaves](Seat::leave).
    ///
    /// # Errors
    ///
    /// [`SeatError`]; then the thread has no seat.
    pub fn take(occupant: *const ()) -> Result<&'static Seat, SeatError> {
        let seat = free_seat()?;
        if let Err(error) = seat.be_found() {
            // Release: pairs with the Acquire in `free_seat`.
            seat.is_taken.store(false, Ordering::Release);
            return Err(error);
        }
        let pointer = arch::thread_pointer();
        seat.own.store(pointer, Ordering::Relaxed);
        seat.occupant.store(occupant.cast_mut(), Ordering::Relaxed);
        seat.thread_pointer.store(pointer, Ordering::Relaxed);
        Ok(seat)
    }

    /// Makes the calling thread find this seat.
    fn be_found(&self) -> Result<(), SeatError> {
        match finder() {
            Finder::Gs => {
                let base = arch::seat_register().map_err(SeatError::Refused)?;
                let table = TABLE.load(Ordering::Relaxed);
                if base != 0 && base.wrapping_sub(table) >= TABLE_BYTES {
                    return Err(SeatError::GsInUse { base });
                }
                arch::set_seat_register(ptr::from_ref(self).expose_provenance())
                    .map_err(SeatError::Refused)
            }
            Finder::ThreadLocal => {
                set_of_thread(self);
                Ok(())
            }
        }
    }

    /// Replaces the occupant.
    ///
    /// # Safety
    ///
    /// The calling thread has taken this seat, and keeps no occupant that it has found.
    pub unsafe fn set_occupant(&self, occupant: *const ()) {
        self.occupant.store(occupant.cast_mut(), Ordering::Relaxed);
    }

    /// Leaves the seat.
    ///
    /// # Safety
    ///
    /// The calling thread has taken this seat, and runs under its own thread pointer.
    pub unsafe fn leave(&self) {
        self.thread_pointer.store(0, Ordering::Relaxed);
        self.occupant.store(ptr::null_mut(), Ordering::Relaxed);
        match finder() {
            // A refusal leaves the address of a seat, which is valid, and proves nothing.
            Finder::Gs => _ = arch::set_seat_register(0),
            Finder::ThreadLocal => set_of_thread(ptr::null()),
        }
        // Release: pairs with the Acquire in `free_seat`.
        self.is_taken.store(false, Ordering::Release);
    }

    /// Returns the occupant of the calling context's seat; null if the context sits on none.
    #[inline(always)]
    pub fn occupant() -> *const () {
        // Relaxed: written before any thread has a seat, and a thread knows its own stores.
        match TABLE.load(Ordering::Relaxed) {
            0 => occupant_by_thread_local(),
            // SAFETY: the table lies there, since GS is used only with FSGSBASE.
            table => unsafe { occupant_of(arch::seat_of_context(table)) },
        }
    }

    /// Returns the occupant of the calling context's seat. Cheaper than [`Seat::occupant`].
    ///
    /// # Safety
    ///
    /// The calling context sits on a seat.
    #[inline(always)]
    pub unsafe fn occupant_here() -> *const () {
        match TABLE.load(Ordering::Relaxed) {
            0 => occupant_by_thread_local(),
            // SAFETY: by this function's contract, and as GS is used.
            _ => unsafe { arch::occupant_by_register() },
        }
    }

    /// Returns the thread pointer of the context that runs on this seat. Only that context.
    #[inline(always)]
    pub fn thread_pointer(&self) -> usize {
        self.thread_pointer.load(Ordering::Relaxed)
    }

    /// Returns the thread pointer of the seat's kernel thread.
    #[inline(always)]
    pub fn own_thread_pointer(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }
}

/// Returns true if the calling context sits on a seat, also if it is a signal handler. With
/// [`Finder::Gs`] that is asked of the kernel thread alone, whatever thread-locals it runs with.
#[inline(never)]
pub fn is_here() -> bool {
    // SAFETY: it reads the register, which the kernel allows, or the thread-local. The result is
    // used as a number.
    let seat = unsafe { arch::seat_here() }.addr();
    match TABLE.load(Ordering::Relaxed) {
        0 => seat != 0,
        table => seat.wrapping_sub(table) < TABLE_BYTES,
    }
}

/// Keeps the seat of the calling context while `change` replaces the thread-locals that the context
/// runs with.
pub fn keep_while(change: impl FnOnce()) {
    let seat = of_thread();
    change();
    set_of_thread(seat);
}

/// Calls `f` with the thread pointer of the kernel thread. It does not unwind.
///
/// # Safety
///
/// The calling context sits on a seat, also if it is a signal handler. Neither the caller nor the
/// code that it is inlined into keeps an address of a thread-local from before.
#[inline(never)]
pub unsafe fn with_own_thread_pointer(f: impl FnOnce()) {
    // SAFETY: by this function's contract; seats are never unmapped.
    let seat = unsafe { &*arch::seat_here() };
    let (running, noted) = (arch::thread_pointer(), seat.thread_pointer());
    // SAFETY: the context does not run meanwhile, and nothing else runs with the other block.
    unsafe { arch::set_thread_pointer(seat.own_thread_pointer()) };
    call(f);
    // SAFETY: as above.
    unsafe { arch::set_thread_pointer(running) };
    // A signal handler may have come between the two writes of a switch.
    seat.thread_pointer.store(noted, Ordering::Relaxed);
}

/// Lets the calling context go on under the thread pointer of the kernel thread, until it leaves
/// its stack.
///
/// # Safety
///
/// The calling context sits on a seat. It touches no thread-local any more, and leaves its stack by
/// a switch to a context that runs under that thread pointer.
#[inline(never)]
pub unsafe fn resume_own_thread_pointer() {
    // SAFETY: by this function's contract; seats are never unmapped. Nothing else runs with the
    // kernel thread's own block.
    unsafe {
        let seat = &*arch::seat_here();
        arch::set_thread_pointer(seat.own_thread_pointer());
    }
}

/// Makes the calling thread, which has taken no seat, find none: it may have inherited the seat of
/// the thread that started it, or its thread-locals may name one where they were used before.
#[inline(never)]
pub fn forget() {
    if finder() == Finder::ThreadLocal {
        return set_of_thread(ptr::null());
    }
    if is_here() {
        // A refusal leaves the address of a seat, which proves nothing.
        let _ = arch::set_seat_register(0);
    }
}

/// Calls `f`, which computes addresses of thread-locals anew.
#[inline(never)]
fn call(f: impl FnOnce()) {
    f();
}

/// Returns the thread pointer of the running context.
#[inline(always)]
pub fn thread_pointer() -> usize {
    arch::thread_pointer()
}

/// Returns how contexts find their seats: by GS if the kernel offers FSGSBASE, unless the
/// environment has `DAIKO_THREAD_REGISTER=arch_prctl`.
pub fn finder() -> Finder {
    *CHOSEN.get_or_init(|| {
        let by_call = std::env::var_os("DAIKO_THREAD_REGISTER")
            .is_some_and(|register| register == "arch_prctl");
        if arch::has_seat_register() && !by_call { Finder::Gs } else { Finder::ThreadLocal }
    })
}

/// Returns true if contexts are switched without system calls.
pub fn switches_without_calls() -> bool {
    arch::HAS_FAST_POINTER || finder() == Finder::Gs
}

/// How contexts find their seats, once that is fixed.
static CHOSEN: OnceLock<Finder> = OnceLock::new();

/// Fixes what [`finder`] returns, before the first call of it. For measurements that compare both.
///
/// # Errors
///
/// Returns the finder that the process uses instead: another one is already in use, or the kernel
/// does not offer FSGSBASE.
#[doc(hidden)]
pub fn choose(wanted: Finder) -> Result<(), Finder> {
    if wanted == Finder::Gs && !arch::has_seat_register() {
        return Err(Finder::ThreadLocal);
    }
    let used = *CHOSEN.get_or_init(|| wanted);
    if used == wanted { Ok(()) } else { Err(used) }
}

#[inline(always)]
unsafe fn occupant_of(seat: *const Seat) -> *const () {
    // SAFETY: null or a seat, by this function's contract; seats are never unmapped.
    match unsafe { seat.as_ref() } {
        Some(seat) => seat.occupant.load(Ordering::Relaxed),
        None => ptr::null(),
    }
}

#[cold]
#[inline(never)]
fn occupant_by_thread_local() -> *const () {
    // SAFETY: null or a seat.
    unsafe { occupant_of(of_thread()) }
}

/// Maps the table of seats, if it is not yet. For a process that is going to fork workers: the seat
/// of each worker then has the same address.
///
/// # Errors
///
/// [`SeatError::Memory`], [`SeatError::Wipe`].
pub fn prepare() -> Result<(), SeatError> {
    table().map(drop)
}

/// Returns the table of seats, which is mapped at the first call and never unmapped.
fn table() -> Result<&'static [Seat], SeatError> {
    static MAPPED: AtomicPtr<Seat> = AtomicPtr::new(ptr::null_mut());
    let first = map_once(&MAPPED, || {
        let mapping = Mapping::new(TABLE_BYTES, Scope::Private).map_err(SeatError::Memory)?;
        wipe_on_fork(&mapping).map_err(SeatError::Wipe)?;
        Ok(mapping)
    })?;
    if finder() == Finder::Gs {
        TABLE.store(first.expose_provenance(), Ordering::Relaxed);
    }
    // SAFETY: zeros, which are valid for seats, aligned to a page, and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(first, SEATS) })
}

/// Takes a free seat.
fn free_seat() -> Result<&'static Seat, SeatError> {
    // Acquire: pairs with the Release in `leave`.
    let free = |seat: &&Seat| !seat.is_taken.swap(true, Ordering::Acquire);
    table()?.iter().find(free).ok_or(SeatError::Full)
}
