//! Signals of threads.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{siginfo_t, sigset_t};

use crate::door::made_at_home;
use crate::home::{self, Home, errand_of_signal, list};
use crate::mask::Mask;
use crate::{dispatch, errno, real, stray};

/// Sends a signal to `thread` by `send`, and brings its context home if it is lent.
///
/// # Safety
///
/// As for `pthread_kill`.
unsafe fn send(thread: libc::pthread_t, send: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: it has no argument.
    if thread == unsafe { libc::pthread_self() } {
        return errand_of_signal(send);
    }
    // The signal waits at home before the context looks for it.
    // SAFETY: by this function's contract.
    unsafe { list::act_on(thread, 0, send, Home::call_home) }
}

/// # Safety
///
/// As for `pthread_kill`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_kill(
    thread: libc::pthread_t,
    signal: c_int,
) -> c_int {
    if signal == 0 {
        // SAFETY: by this function's contract.
        return unsafe { libc::pthread_kill(thread, signal) };
    }
    // SAFETY: by this function's contract.
    unsafe { send(thread, || libc::pthread_kill(thread, signal)) }
}

/// # Safety
///
/// As for `pthread_sigqueue`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_sigqueue(
    thread: libc::pthread_t,
    signal: c_int,
    value: libc::sigval,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { send(thread, || real::pthread_sigqueue(thread, signal, value)) }
}

/// Sets or asks for the action of a signal. With `dispatch`, that of `SIGSYS` is not the kernel's,
/// and handlers do not block this signal.
///
/// # Safety
///
/// As for `sigaction`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if !dispatch::is_on() {
        // SAFETY: by this function's contract.
        return unsafe { libc::sigaction(signal, new, old) };
    }
    // SAFETY: as above.
    let new = unsafe { new.as_ref() };
    if signal == libc::SIGSYS {
        let before = dispatch::PROGRAMS.exchange(new);
        if !old.is_null() {
            // SAFETY: as above.
            unsafe { old.write(before) };
        }
        return 0;
    }
    let new = new.map(|&(mut new)| {
        // SAFETY: writes the live local.
        unsafe { libc::sigdelset(&raw mut new.sa_mask, libc::SIGSYS) };
        new
    });
    // SAFETY: as above.
    unsafe { libc::sigaction(signal, new.as_ref().map_or(ptr::null(), ptr::from_ref), old) }
}

/// # Safety
///
/// As for `signal`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_signal(
    signal: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    if signal != libc::SIGSYS || !dispatch::is_on() {
        // SAFETY: by this function's contract.
        return unsafe { libc::signal(signal, handler) };
    }
    // SAFETY: zeros are an action.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    dispatch::PROGRAMS.exchange(Some(&new)).sa_sigaction
}

/// # Safety
///
/// As for `abort`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_abort() -> ! {
    let _ = home::leave_for_errand();
    // SAFETY: by this function's contract.
    unsafe { real::abort() }
}

/// Changes the mask of a context that is lent, which its kernel thread has at home. Returns `None`
/// if the kernel has to look at it.
///
/// # Safety
///
/// As for `pthread_sigmask`, with a new set.
unsafe fn change_mask(
    home: &Home,
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> Option<()> {
    let before = home.mask().get();
    // SAFETY: by this function's contract.
    let set = unsafe { Mask::read(set) };
    let after = match how {
        libc::SIG_BLOCK => before.with(set),
        libc::SIG_UNBLOCK => before.without(set),
        libc::SIG_SETMASK => set,
        _ => return None,
    };
    if after.lets_in_more_than(before) {
        // Signals that have waited come in now.
        return None;
    }
    if !old.is_null() {
        // SAFETY: by this function's contract.
        unsafe { before.write(old) };
    }
    home.mask().set(after);
    Some(())
}

/// # Safety
///
/// As for `pthread_sigmask`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let at_home = || {
        let mut open = MaybeUninit::<sigset_t>::uninit();
        let mut set = set;
        // SAFETY: by this function's contract.
        unsafe {
            if !set.is_null() && dispatch::is_on() && how != libc::SIG_UNBLOCK {
                Mask::read(set).write(open.as_mut_ptr());
                set = open.as_ptr();
            }
            libc::pthread_sigmask(how, set, old)
        }
    };
    let Some(home) = home::of_lent() else {
        if !set.is_null() && how != libc::SIG_UNBLOCK {
            stray::watch();
        }
        return at_home();
    };
    // SAFETY: by this function's contract.
    unsafe {
        if set.is_null() {
            if !old.is_null() {
                home.mask().get().write(old);
            }
            return 0;
        }
        if change_mask(home, how, set, old).is_some() {
            return 0;
        }
    }
    let errand = home::leave_for_errand();
    let result = at_home();
    if home.opens(Mask::of_thread()) {
        home.stay();
    }
    home::back_from_errand(errand);
    result
}

/// # Safety
///
/// As for `sigprocmask`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sigprocmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: by this function's contract.
    errno::fail_unless_zero(unsafe { daiko_pthread_sigmask(how, set, old) })
}

made_at_home! {
    errand_of_signal: daiko_raise = raise(signal: c_int) -> c_int;
    errand: daiko_sigwait = sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int;
    errand: daiko_sigwaitinfo = sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int;
    errand: daiko_sigtimedwait = sigtimedwait(
        set: *const sigset_t, info: *mut siginfo_t, timeout: *const libc::timespec
    ) -> c_int;
    errand: daiko_sigsuspend = sigsuspend(mask: *const sigset_t) -> c_int;
    errand: daiko_pause = pause() -> c_int;
    errand: daiko_sigpending = sigpending(set: *mut sigset_t) -> c_int;
}
