//! System calls that the kernel hands to a handler of the process instead of making them: Syscall
//! User Dispatch (`PR_SET_SYSCALL_USER_DISPATCH` of prctl(2), Linux 5.11).
//!
//! Each kernel thread asks for it. A forked child, and a new program, are without it. The handler
//! of `SIGSYS` gets the call; a thread that blocks this signal is killed.

use std::ffi::{c_int, c_long};
use std::io;
use std::ops::Range;

use crate::arch;
use crate::atomic::AtomicU8;

/// The value of a selector by which the thread's calls are made.
pub const MADE: u8 = 0;
/// The value of a selector by which calls are handed over.
pub const HANDED_OVER: u8 = 1;

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

/// Returns true if the kernel is able to hand over system calls, and lets the caller ask for it.
/// The calling kernel thread's own calls are made.
pub fn is_offered() -> bool {
    const OFF: usize = 0;
    // SAFETY: it takes plain integers.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, 0, 0, 0) == 0 }
}

/// Hands over the system calls of the calling kernel thread that are made by instructions outside
/// `exempt`, unless `selector` says otherwise at that moment.
///
/// # Errors
///
/// The kernel is without it, or a sandbox forbids it.
///
/// # Safety
///
/// The handler of `SIGSYS` does as the caller of each handed over call expects. It returns by an
/// instruction in `exempt`.
pub unsafe fn hand_over(
    exempt: &Range<usize>,
    selector: Option<&'static AtomicU8>,
) -> io::Result<()> {
    const ON: usize = 1;
    let selector = selector.map_or(std::ptr::null_mut(), AtomicU8::as_ptr);
    // SAFETY: the selector lives as long as the process; the rest by this function's contract.
    let result = unsafe {
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, ON, exempt.start, exempt.len(), selector)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A system call that was handed over.
#[derive(Clone, Copy, Debug)]
pub struct HandedOver {
    /// The number of the call.
    pub number: c_long,
    /// The words of its arguments.
    pub arguments: [usize; 6],
}

impl HandedOver {
    /// Returns the call for which a handler of `SIGSYS` runs. `None`: the signal has another
    /// reason.
    ///
    /// # Safety
    ///
    /// The arguments of a handler.
    pub unsafe fn of(
        info: *const libc::siginfo_t,
        context: *const libc::ucontext_t,
    ) -> Option<Self> {
        /// The reason of the signal, `si_code`.
        const SYS_USER_DISPATCH: c_int = 2;
        // SAFETY: by this function's contract.
        let (code, context) = unsafe { ((*info).si_code, &*context) };
        (code == SYS_USER_DISPATCH).then(|| {
            let (number, arguments) = arch::call_of(context);
            HandedOver { number, arguments }
        })
    }
}

/// Sets the result of the call that was handed over: a value, or an error number below 0.
///
/// # Safety
///
/// `context` is an argument of the handler.
pub unsafe fn set_result(context: *mut libc::ucontext_t, result: c_long) {
    // SAFETY: by this function's contract.
    arch::set_result(unsafe { &mut *context }, result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Ordering;
    use crate::testing::in_fork;

    /// A call that the kernel does not know.
    const UNKNOWN: c_long = 5000;

    /// Makes the call by an instruction of this crate.
    fn own_call(number: c_long, argument: usize) -> c_long {
        // SAFETY: the handler sets the result.
        unsafe { arch::system_call(number, [argument, 0, 0, 0]) }
    }

    unsafe extern "C" fn answers(
        _: c_int,
        info: *mut libc::siginfo_t,
        context: *mut std::ffi::c_void,
    ) {
        // SAFETY: the arguments of this handler.
        unsafe {
            let call = HandedOver::of(info, context.cast()).unwrap();
            set_result(context.cast(), call.number + call.arguments[0] as c_long);
        }
    }

    /// The code of the C library around one of its functions.
    fn code_of_c_library() -> Range<usize> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let at = libc::syscall as *const () as usize;
        let mut ranges = maps.lines().filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let parsed = |text| usize::from_str_radix(text, 16).ok();
            Some(parsed(start)?..parsed(end)?)
        });
        ranges.find(|range| range.contains(&at)).unwrap()
    }

    #[test]
    fn calls_by_own_instructions_are_answered_by_the_handler() {
        if !is_offered() {
            return println!("skipped: the kernel hands over no system calls");
        }
        in_fork(|| {
            static SELECTOR: AtomicU8 = AtomicU8::new(HANDED_OVER);
            // SAFETY: zeros are an action; `answers` is a handler for three arguments.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = answers as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
            }
            // SAFETY: the handler answers.
            unsafe { hand_over(&code_of_c_library(), Some(&SELECTOR)) }.unwrap();
            assert_eq!(own_call(UNKNOWN, 7), UNKNOWN + 7);
            // SAFETY: a call without effects.
            assert_eq!(unsafe { libc::syscall(UNKNOWN) }, -1);
            SELECTOR.store(MADE, Ordering::Relaxed);
            assert_eq!(own_call(UNKNOWN, 7), -c_long::from(libc::ENOSYS));
            SELECTOR.store(HANDED_OVER, Ordering::Relaxed);
            assert_eq!(own_call(UNKNOWN, 8), UNKNOWN + 8);
        });
    }
}
