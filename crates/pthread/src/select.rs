//! `select`, as a poll of the descriptors in its sets.

use std::ffi::{c_int, c_long, c_ulong};
use std::ptr;
use std::time::Duration;

use daiko_rt::Deadline;
use libc::{fd_set, sigset_t, timespec, timeval};

use crate::call::poll;
use crate::descriptor::{self, Wanted};
use crate::home::{self, errand};
use crate::{clock, real};

const BITS: usize = c_ulong::BITS as usize;

/// Words of a set that may be waited for by agents: as many as `fd_set` has.
const WORDS: usize = size_of::<fd_set>() / size_of::<c_ulong>();

/// The sets of a call, and copies: the kernel leaves its result there, also one without an event.
struct Sets {
    sets: [*mut fd_set; 3],
    words: usize,
    copies: [[c_ulong; WORDS]; 3],
}

impl Sets {
    /// The events of each set.
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

    /// Copies the sets. `None`: they are too large.
    ///
    /// # Safety
    ///
    /// Each is null, or a set of `count` descriptors.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Option<Self> {
        let words = usize::try_from(count).ok()?.div_ceil(BITS);
        if words > WORDS {
            return None;
        }
        let mut copies = [[0; WORDS]; 3];
        for (copy, set) in copies.iter_mut().zip(sets).filter(|(_, set)| !set.is_null()) {
            // SAFETY: by this function's contract.
            unsafe { ptr::copy_nonoverlapping(set.cast_const().cast(), copy.as_mut_ptr(), words) };
        }
        Some(Sets { sets, words, copies })
    }

    /// Writes the copies back.
    fn restore(&self) {
        for (copy, set) in self.copies.iter().zip(self.sets).filter(|(_, set)| !set.is_null()) {
            // SAFETY: a set of so many words, by the contract of `new`.
            unsafe { ptr::copy_nonoverlapping(copy.as_ptr(), set.cast(), self.words) };
        }
    }

    /// Writes the descriptors below `count` to `wanted`, and returns their number. `None`: they are
    /// too many, or one is not in the first set. Agents report errors and hang-ups unasked, which
    /// always end the call for that set only.
    fn wanted(&self, count: c_int, wanted: &mut [Wanted; descriptor::MOST]) -> Option<usize> {
        let mut some = 0;
        for descriptor in 0..count {
            let (word, bit) = (descriptor as usize / BITS, descriptor as usize % BITS);
            let is_in = |copy: &[c_ulong; WORDS]| copy[word] >> bit & 1 != 0;
            let of = self.copies.iter().zip(Self::EVENTS).filter(|(copy, _)| is_in(copy));
            let events = of.fold(0, |all, (_, events)| all | events);
            if events != 0 {
                if events & libc::POLLIN == 0 {
                    return None;
                }
                *wanted.get_mut(some)? = Wanted { descriptor, events };
                some += 1;
            }
        }
        Some(some)
    }
}

/// Waits for the descriptors in `sets`, by agents if they are few. `at_home` makes the call with
/// the time that is left.
///
/// # Safety
///
/// As for `select`.
unsafe fn select(
    count: c_int,
    sets: [*mut fd_set; 3],
    deadline: Deadline,
    at_home: impl Fn(Option<Duration>) -> c_int,
) -> c_int {
    let at_home = || at_home(deadline.left());
    let mut wanted = [Wanted { descriptor: -1, events: 0 }; descriptor::MOST];
    // SAFETY: by this function's contract.
    let Some(copied) = home::of_lent().and_then(|_| unsafe { Sets::new(count, sets) }) else {
        return errand(at_home);
    };
    let Some(some) = copied.wanted(count, &mut wanted) else { return errand(at_home) };
    let now = || {
        copied.restore();
        let [read, write, except] = sets;
        let mut none = timespec { tv_sec: 0, tv_nsec: 0 };
        let mask = ptr::null::<sigset_t>();
        // SAFETY: as above. Not by `select`, which is a cancellation point.
        unsafe {
            libc::syscall(libc::SYS_pselect6, count, read, write, except, &raw mut none, mask)
                as c_long
        }
    };
    let result = poll(&wanted[..some], deadline, now, || {
        copied.restore();
        at_home()
    });
    if result == -1 {
        copied.restore();
    }
    result
}

/// # Safety
///
/// As for `select`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: by this function's contract.
    let after = unsafe { timeout.as_ref() }.map(|timeout| {
        let seconds = u64::try_from(timeout.tv_sec).ok()?;
        let us = u64::try_from(timeout.tv_usec).ok()?;
        Some(Deadline::after(Duration::from_secs(seconds).checked_add(Duration::from_micros(us))?))
    });
    let deadline = match after {
        None => Deadline::NEVER,
        Some(Some(deadline)) => deadline,
        // An error, or for ever.
        Some(None) => {
            // SAFETY: by this function's contract.
            return errand(|| unsafe { real::select(count, read, write, except, timeout) });
        }
    };
    let as_timeval = |left: Duration| timeval {
        tv_sec: clock::timespec(left).tv_sec,
        tv_usec: left.subsec_micros().into(),
    };
    // SAFETY: by this function's contract.
    let result = unsafe {
        select(count, [read, write, except], deadline, |left| {
            let mut left = left.map(as_timeval);
            let left = left.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
            real::select(count, read, write, except, left)
        })
    };
    // SAFETY: as above.
    if let (Some(timeout), Some(left)) = (unsafe { timeout.as_mut() }, deadline.left()) {
        *timeout = as_timeval(left);
    }
    result
}

/// # Safety
///
/// As for `pselect`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: by this function's contract.
    let deadline = unsafe { clock::after(timeout) };
    let (Ok(deadline), true) = (deadline, mask.is_null()) else {
        // SAFETY: as above.
        return errand(|| unsafe { real::pselect(count, read, write, except, timeout, mask) });
    };
    // SAFETY: as above.
    unsafe {
        select(count, [read, write, except], deadline, |left| {
            let left = left.map(clock::timespec);
            let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
            real::pselect(count, read, write, except, left, mask)
        })
    }
}
