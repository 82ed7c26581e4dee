//! The descriptors of the engine itself. The program does not know of them, and may close all
//! numbers from one on: those stay.

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use daiko_sys::descriptor::{Reservation, numbered_from, reserve_by};

use crate::atomic::{AtomicI32, Ordering};
use crate::lock::SignalLock;
use crate::mask::HeldSignals;
use crate::{cancel, errno};

/// All of them, in order.
static NUMBERS: SignalLock<Vec<RawFd>> = SignalLock::new(Vec::new());
/// A number that is not above any of them.
static LOWEST: AtomicI32 = AtomicI32::new(RawFd::MAX);

/// Keeps the descriptors of the runtime from the program from here on.
pub(crate) fn begin() {
    fn give_back(number: RawFd) {
        NUMBERS.lock().retain(|&own| own != number);
    }
    reserve_by(Reservation { take, give_back });
}

/// Keeps the list as it is, for a fork: the child has the same descriptors.
pub(crate) fn keep(signals: &HeldSignals) -> impl Drop + use<> {
    NUMBERS.keep(signals)
}

/// Gives a descriptor of the engine another number: above those that the program gets first, and
/// low enough for a small table in the kernel.
fn take(fd: OwnedFd) -> OwnedFd {
    /// Numbers that are left below the program's limit.
    const BELOW_LIMIT: libc::rlim_t = 200;
    const MOST: libc::rlim_t = 1000;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the live local.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let from = limit.rlim_cur.saturating_sub(BELOW_LIMIT).min(MOST) as RawFd;
    let mut all = NUMBERS.lock();
    // Relaxed: the calls below come behind it, so that a thread that closes the number sees it, and
    // then takes the lock.
    LOWEST.fetch_min(from, Ordering::Relaxed);
    // It closes a descriptor, where the caller might be cancelled.
    let fd = cancel::hold(|| numbered_from(from, fd));
    all.push(fd.as_raw_fd());
    all.sort_unstable();
    // There may have been none from that number on.
    LOWEST.fetch_min(all[0], Ordering::Relaxed);
    fd
}

/// # Safety
///
/// As for `close`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_close(descriptor: c_int) -> c_int {
    cancel::test();
    if descriptor >= LOWEST.load(Ordering::Relaxed) && NUMBERS.lock().contains(&descriptor) {
        return errno::fail(libc::EBADF);
    }
    // SAFETY: by this function's contract. Not by the C library, where it would be a cancellation
    // point.
    unsafe { libc::syscall(libc::SYS_close, descriptor) as c_int }
}

/// # Safety
///
/// As for `close_range`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn daiko_close_range(
    first: c_uint,
    last: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: by this function's contract.
    let close = |first: c_uint, last: c_uint| unsafe {
        libc::syscall(libc::SYS_close_range, first, last, flags)
    };
    let mut first = first;
    for own in NUMBERS.lock().iter().map(|&own| own as c_uint) {
        if !(first..=last).contains(&own) {
            continue;
        }
        if first < own && close(first, own - 1) != 0 {
            return -1;
        }
        if own == last {
            return 0;
        }
        first = own + 1;
    }
    close(first, last) as c_int
}

/// # Safety
///
/// As for `closefrom`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn daiko_closefrom(lowest: c_int) {
    unsafe extern "C" {
        fn closefrom(lowest: c_int);
    }
    // SAFETY: by this function's contract.
    unsafe {
        if LOWEST.load(Ordering::Relaxed) == RawFd::MAX
            || daiko_close_range(lowest.max(0) as c_uint, c_uint::MAX, 0) != 0
        {
            closefrom(lowest);
        }
    }
}
