//! Cancellation points.

use std::ffi::c_int;

use daiko_home::action::{Action, exchange};

use crate::atomic::{AtomicU32, Ordering};
use crate::home::{self, list};
use crate::mask::SIGCANCEL;
use crate::{errno, real};

/// The bit of the C library's word that says that the thread is cancelled.
const CANCELED: u32 = 8;
/// Bits of that word by which a thread is about to be cancelled, or ends.
const ENDS: u32 = CANCELED | 4 | 16 | 32;

/// The states of cancellation, for the C library.
const ENABLE: c_int = 0;
const DISABLE: c_int = 1;

/// The bit of that word by which the thread has disabled its cancellation; 0: it is kept elsewhere.
/// Found before there are threads.
static DISABLED: AtomicU32 = AtomicU32::new(0);

/// Looks where the C library keeps the state of cancellation.
pub(crate) fn begin() {
    let word = while_disabled(|_| home::cancel_word());
    DISABLED.store(word & !home::cancel_word(), Ordering::Relaxed);
}

/// Returns true if the calling thread has been cancelled, or ends.
pub(crate) fn has_come() -> bool {
    home::cancel_word() & ENDS != 0
}

/// Ends the calling thread, by the C library, if it was cancelled. The caller owns nothing that has
/// to be dropped.
#[inline]
pub(crate) fn test() {
    // The frames above are unwound at home.
    if home::cancel_word() & CANCELED != 0 {
        test_slow();
    }
}

/// Ends the calling thread as [`test`] does, and calls `pass_on` before, if the thread ends.
#[inline]
pub(crate) fn test_behind(pass_on: impl Fn()) {
    if home::cancel_word() & CANCELED != 0 {
        home::errand(|| {
            while_disabled(|state| (state == ENABLE).then(&pass_on));
            // SAFETY: the calling thread is at home.
            unsafe { real::pthread_testcancel() }
        });
    }
}

/// Makes a call that is not cancelled. The next wait of the calling thread, if it is lent, finds a
/// cancellation of that time.
pub(crate) fn hold<R>(call: impl FnOnce() -> R) -> R {
    let result = while_disabled(|_| call());
    if has_come()
        && let Some(home) = home::of_lent()
    {
        let _homes = list::lock();
        home.call_home();
    }
    result
}

/// Makes a call that is not cancelled. The call gets the state before: `ENABLE`, or `DISABLE`.
fn while_disabled<R>(call: impl FnOnce(c_int) -> R) -> R {
    let mut state = 0;
    // SAFETY: writes the live local.
    unsafe { real::pthread_setcancelstate(DISABLE, &raw mut state) };
    let result = call(state);
    // SAFETY: as above.
    unsafe { real::pthread_setcancelstate(state, &raw mut state) };
    result
}

#[cold]
extern "C-unwind" fn test_slow() {
    // SAFETY: the calling thread is at home.
    home::errand(|| unsafe { real::pthread_testcancel() });
}

/// # Safety
///
/// As for `pthread_testcancel`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_testcancel() {
    test();
}

/// # Safety
///
/// As for `pthread_cancel`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: as above.
    if thread == unsafe { libc::pthread_self() } {
        // SAFETY: by this function's contract.
        return home::errand(|| unsafe { real::pthread_cancel(thread) });
    }
    // SAFETY: as above.
    unsafe {
        list::act_on(
            thread,
            0,
            || cancel(thread),
            |home| {
                if !is_disabled(thread) {
                    home.call_home();
                }
            },
        )
    }
}

/// Returns true if the thread, which was cancelled, has disabled that: it looks at its next
/// cancellation point behind the end of that state, and its waits go on.
///
/// # Safety
///
/// As for `pthread_cancel`.
unsafe fn is_disabled(thread: libc::pthread_t) -> bool {
    // SAFETY: by this function's contract.
    unsafe { home::cancel_word_of(thread) & DISABLED.load(Ordering::Relaxed) != 0 }
}

/// Cancels another thread.
///
/// # Safety
///
/// As for `pthread_cancel`.
unsafe fn cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: by this function's contract.
    let result = unsafe { real::pthread_cancel(thread) };
    // SAFETY: as above.
    if result == 0 && unsafe { !is_disabled(thread) } && ends_waits() {
        // The library's signal may have come before: once more. The handler cancels no thread out
        // of turn.
        // SAFETY: as above.
        errno::keep(|| daiko_sys::thread::send(unsafe { home::id_of(thread) }, SIGCANCEL));
    }
    result
}

/// Lets the library's signal end waits of native threads, which the kernel would go on with behind
/// the handler. Returns false if there is no handler.
fn ends_waits() -> bool {
    const RESTART: u64 = libc::SA_RESTART as u64;
    let Some(mut action) = exchange(SIGCANCEL, None).filter(Action::is_handled) else {
        return false;
    };
    if action.flags & RESTART != 0 {
        action.flags &= !RESTART;
        return exchange(SIGCANCEL, Some(&action)).is_some();
    }
    true
}
