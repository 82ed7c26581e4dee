//! The two segment bases: FS is the thread pointer, which the ABI gives to thread-local storage. GS
//! has no other user in the ABI; it is the address of the seat of the kernel thread.

use std::arch::asm;
use std::io;
use std::ptr;

use crate::atomic::Ordering;
use crate::seat::state::{self, Seat, TABLE};

/// False: a thread pointer takes a system call, unless there is a register for the seat.
pub(crate) const HAS_FAST_POINTER: bool = false;

/// Returns true if the kernel lets user code read and write the segment bases: bit 1 of
/// `AT_HWCAP2`. Valgrind clears the bit.
pub(crate) fn has_seat_register() -> bool {
    const HWCAP2_FSGSBASE: u64 = 2;
    daiko_sys::cpu::hardware_capabilities_2() & HWCAP2_FSGSBASE != 0
}

/// Returns the thread pointer of the running context. The ABI puts it into the first word that it
/// points to.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: every thread has a control block, whose first word is its own address.
    unsafe {
        asm!(
            "mov {}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly)
        );
    }
    pointer
}

/// Returns the seat in GS if the calling context sits there: its thread pointer is the seat's. Null
/// if it does not.
///
/// Threads and children inherit GS from the thread that starts them, and other libraries may use
/// it, so GS alone proves nothing.
///
/// # Safety
///
/// [`has_seat_register`]. The table of seats lies at `table`, and is never unmapped.
#[inline(always)]
pub(crate) unsafe fn seat_of_context(table: usize) -> *const Seat {
    let base: usize;
    // SAFETY: the caller guarantees the instructions. Not `pure`: each call asks anew, as a
    // suspension may change both registers.
    unsafe { asm!("rdgsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    if base.wrapping_sub(table) >= state::TABLE_BYTES {
        return ptr::null();
    }
    let seat = ptr::with_exposed_provenance::<Seat>(base);
    // SAFETY: a base in the table is the address of a seat: only `Seat::take` sets such bases.
    let noted = unsafe { &*seat }.thread_pointer();
    // Only the thread on the seat notes a value that equals its own thread pointer.
    if noted == thread_pointer() { seat } else { ptr::null() }
}

/// Returns the occupant of the seat in GS.
///
/// # Safety
///
/// The calling context sits on a seat, and finds it by GS.
#[inline(always)]
pub(crate) unsafe fn occupant_by_register() -> *const () {
    let occupant: *const ();
    // SAFETY: GS is a seat, by this function's contract. Not `pure`, as above.
    unsafe {
        asm!(
            "mov {}, qword ptr gs:[{offset}]",
            out(reg) occupant,
            offset = const Seat::OCCUPANT,
            options(nostack, preserves_flags, readonly)
        );
    }
    occupant
}

/// Returns the seat of the calling context.
///
/// # Safety
///
/// The calling context sits on a seat.
pub(crate) unsafe fn seat_here() -> *const Seat {
    if TABLE.load(Ordering::Relaxed) == 0 {
        return state::of_thread();
    }
    let base: usize;
    // SAFETY: GS is used only with these instructions.
    unsafe { asm!("rdgsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    ptr::with_exposed_provenance(base)
}

/// Returns GS.
///
/// # Errors
///
/// The error of `arch_prctl`.
pub(crate) fn seat_register() -> io::Result<usize> {
    const ARCH_GET_GS: usize = 0x1004;
    let mut base = 0usize;
    // SAFETY: the call writes one word to the live local.
    match unsafe { arch_prctl(ARCH_GET_GS, (&raw mut base).expose_provenance()) } {
        0 => Ok(base),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

/// Sets GS.
///
/// # Errors
///
/// The error of `arch_prctl`.
pub(crate) fn set_seat_register(base: usize) -> io::Result<()> {
    const ARCH_SET_GS: usize = 0x1001;
    // SAFETY: compiled code does not use GS.
    match unsafe { arch_prctl(ARCH_SET_GS, base) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

/// Sets the thread pointer by a system call, which touches no thread-local.
///
/// # Safety
///
/// `pointer` is the thread pointer of a control block that no other thread runs with. Code that is
/// compiled into the caller keeps no address of a thread-local.
unsafe fn set_fs_base_by_call(pointer: usize) {
    const ARCH_SET_FS: usize = 0x1002;
    // SAFETY: by this function's contract.
    let error = unsafe { arch_prctl(ARCH_SET_FS, pointer) };
    debug_assert_eq!(error, 0, "a thread pointer is a canonical address");
}

/// # Safety
///
/// As for the operation.
unsafe fn arch_prctl(operation: usize, argument: usize) -> isize {
    const ARCH_PRCTL: isize = 158;
    let result: isize;
    // SAFETY: by this function's contract. A system call changes these three registers only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") operation,
            in("rsi") argument,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Lets the running context go on under another thread pointer, by a system call. The seat of the
/// kernel thread goes along. The slow way of `switch_own` and of its first frame.
///
/// # Safety
///
/// As for [`set_fs_base_by_call`]; the caller sits on a seat.
pub(super) unsafe extern "C" fn set_thread_pointer_slow(pointer: usize) {
    // The accesses are functions that are not inlined, since the thread pointer changes between
    // them, and with it the address of the thread-local.
    let seat = state::of_thread();
    // A signal handler that comes before the last line finds no seat, instead of the one at which
    // the other context was left.
    state::set_of_thread(ptr::null());
    // SAFETY: by this function's contract.
    unsafe { set_fs_base_by_call(pointer) };
    state::set_of_thread(seat);
    // SAFETY: seats are never unmapped, and the caller sits on this one.
    unsafe { (*seat).thread_pointer.store(pointer, Ordering::Relaxed) };
}

/// Lets the calling thread, which sits on a seat, go on under the thread pointer `pointer`.
///
/// # Safety
///
/// `pointer` is the thread pointer of a control block that no other thread runs with. The caller
/// and the code that it is inlined into keep no address of a thread-local from before.
#[inline(never)]
pub(crate) unsafe fn set_thread_pointer(pointer: usize) {
    if TABLE.load(Ordering::Relaxed) == 0 {
        // SAFETY: by this function's contract.
        return unsafe { set_thread_pointer_slow(pointer) };
    }
    // SAFETY: by this function's contract; GS is the caller's seat.
    unsafe {
        asm!(
            "wrfsbase {pointer}",
            "mov qword ptr gs:[0], {pointer}",
            pointer = in(reg) pointer,
            options(nostack, preserves_flags),
        );
    }
}
