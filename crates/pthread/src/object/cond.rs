//! Condition variables.

use std::ffi::c_int;
use std::mem::{ManuallyDrop, MaybeUninit};

use daiko_core::missed::{MissedSignals, Missing};
use daiko_rt::Deadline;

use super::mutex::{self, WaitMutex};
use super::scratch::Scratch;
use crate::atomic::{AtomicUsize, Ordering};
use crate::door::of_object;
use crate::home::errand;
use crate::parking::{self, Outcome, Queue};
use crate::waits::{Target, TargetKind};
use crate::{cancel, clock};

/// A condition variable, as the C library lays it out: only its flags are left.
#[repr(C)]
union Condition {
    waiters: ManuallyDrop<Waiters>,
    words: [u32; WORDS],
}

/// The waiters of a condition variable: those in the queue, and those whose handlers run. A handler
/// natively runs in the midst of a wait, which goes on behind it.
#[repr(C)]
struct Waiters {
    queue: Queue,
    missed: MissedSignals,
}

const WORDS: usize = 12;
const _: () = assert!(size_of::<Condition>() == 48);

/// Flags of a condition variable: process-shared; on the monotonic clock.
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

/// Index of the word with the flags: 9 up to glibc 2.40. Found before there are threads.
static FLAGS_AT: AtomicUsize = AtomicUsize::new(9);

impl Condition {
    /// # Safety
    ///
    /// `condition` is a condition variable that lives as long as the result is used.
    unsafe fn at<'c>(condition: *mut libc::pthread_cond_t) -> &'c Condition {
        // SAFETY: by this function's contract.
        unsafe { &*condition.cast::<Condition>() }
    }

    fn waiters(&self) -> &Waiters {
        // SAFETY: these words of a condition variable that is not foreign are the engine's; zeros
        // are no waiters.
        unsafe { &self.waiters }
    }

    fn target(&self) -> Target {
        Target::new(TargetKind::Condition, self)
    }

    fn flags(&self) -> u32 {
        // SAFETY: all words are numbers; the flags do not change while the variable lives.
        unsafe { self.words[FLAGS_AT.load(Ordering::Relaxed) % WORDS] }
    }

    fn is_foreign(&self) -> bool {
        self.flags() & SHARED != 0
    }

    fn clock(&self) -> libc::clockid_t {
        if self.flags() & MONOTONIC == 0 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC }
    }

    /// # Safety
    ///
    /// `mutex` is a mutex that the caller holds.
    unsafe fn wait(&self, mutex: *mut libc::pthread_mutex_t, deadline: Deadline) -> c_int {
        cancel::test();
        // SAFETY: by this function's contract.
        if unsafe { mutex::is_foreign(mutex) } {
            // At home from here on: the context must not leave a worker in the middle of a wait.
            // SAFETY: by this function's contract.
            return errand(|| unsafe { self.wait_at_home(mutex, deadline) });
        }
        // SAFETY: as above.
        let held = match unsafe { WaitMutex::new(mutex) } {
            Ok(held) => held,
            Err(error) => return error,
        };
        let is_over = self.waiters().wait(self.target(), deadline, || {
            held.unlock();
            true
        });
        held.lock();
        self.test_cancel(is_over);
        if is_over { libc::ETIMEDOUT } else { 0 }
    }

    /// Ends the calling thread, behind its wait, if it was cancelled. Another waiter then gets the
    /// signal that has come for this one, unless the deadline was over.
    fn test_cancel(&self, is_over: bool) {
        cancel::test_behind(|| {
            if !is_over {
                self.waiters().signal_one();
            }
        });
    }

    /// Waits with a mutex of the C library, as a native thread.
    ///
    /// # Safety
    ///
    /// As for [`wait`](Self::wait). The calling context is at home.
    unsafe fn wait_at_home(&self, mutex: *mut libc::pthread_mutex_t, deadline: Deadline) -> c_int {
        let mut result = 0;
        let is_over = self.waiters().wait(self.target(), deadline, || {
            // SAFETY: by this function's contract.
            result = unsafe { libc::pthread_mutex_unlock(mutex) };
            result == 0
        });
        if result == 0 {
            // SAFETY: as above.
            result = unsafe { libc::pthread_mutex_lock(mutex) };
            self.test_cancel(is_over);
        }
        if result == 0 && is_over { libc::ETIMEDOUT } else { result }
    }
}

impl Waiters {
    /// Waits for a signal, unless `enter`, called in the queue, says that there is nothing to wait
    /// for. Returns true if the deadline is over.
    fn wait(&self, target: Target, deadline: Deadline, enter: impl FnOnce() -> bool) -> bool {
        let (queue, mark) = (&self.queue, self.missed.mark());
        let first = || parking::wait_noted(queue, target, deadline, mark, enter);
        let goes_on =
            |outcome: &Outcome| matches!(outcome, Outcome::Interrupted(_)) && !cancel::has_come();
        let again = |missing: Missing<'_>| {
            parking::wait_noted(queue, target, deadline, mark, || missing.none())
        };
        self.missed.wait(first, goes_on, again).is_timeout()
    }

    #[inline]
    fn signal_one(&self) {
        self.missed.signal_one(|| parking::wake_one(&self.queue));
    }

    #[inline]
    fn signal_all(&self) {
        self.missed.signal_all(|| parking::wake_all(&self.queue));
    }
}

/// # Safety
///
/// As for `pthread_cond_init`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_cond_init(
    condition: *mut libc::pthread_cond_t,
    attributes: *const libc::pthread_condattr_t,
) -> c_int {
    // SAFETY: by this function's contract. The C library writes zeros but for the flags.
    unsafe { libc::pthread_cond_init(condition, attributes) }
}

/// # Safety
///
/// As for `pthread_cond_timedwait`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_cond_timedwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    let clock = unsafe { Condition::at(condition) }.clock();
    // SAFETY: as above.
    unsafe { daiko_pthread_cond_clockwait(condition, mutex, clock, until) }
}

of_object! { Condition:
    daiko_pthread_cond_destroy = pthread_cond_destroy(condition: *mut libc::pthread_cond_t) 0;
    daiko_pthread_cond_wait = pthread_cond_wait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
    ) {
        // SAFETY: by this function's contract.
        unsafe { condition.wait(mutex, Deadline::NEVER) }
    };
    daiko_pthread_cond_clockwait = pthread_cond_clockwait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) {
        // SAFETY: by this function's contract.
        match unsafe { clock::deadline(clock, until) } {
            // SAFETY: as above.
            Ok(deadline) => unsafe { condition.wait(mutex, deadline) },
            Err(error) => error,
        }
    };
    daiko_pthread_cond_signal = pthread_cond_signal(condition: *mut libc::pthread_cond_t) {
        condition.waiters().signal_one();
        0
    };
    daiko_pthread_cond_broadcast = pthread_cond_broadcast(condition: *mut libc::pthread_cond_t) {
        condition.waiters().signal_all();
        0
    };
}

/// Finds the word with the flags, too. See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    let init = |sharing, clock| {
        Scratch::<libc::pthread_cond_t, 12>::new(|condition| {
            let mut attributes = MaybeUninit::uninit();
            // SAFETY: the attributes are initialised, and outlive their use.
            unsafe {
                libc::pthread_condattr_init(attributes.as_mut_ptr());
                libc::pthread_condattr_setpshared(attributes.as_mut_ptr(), sharing);
                libc::pthread_condattr_setclock(attributes.as_mut_ptr(), clock);
                libc::pthread_cond_init(condition, attributes.as_ptr())
            }
        })
    };
    init(libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME)?.has(&[])?;
    let shared = init(libc::PTHREAD_PROCESS_SHARED, libc::CLOCK_REALTIME)?;
    let flags = shared.words().iter().position(|&word| word != 0)?;
    shared.has(&[(flags, SHARED)])?;
    init(libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_MONOTONIC)?.has(&[(flags, MONOTONIC)])?;
    // The queue lies below.
    let is_free = (size_of::<Waiters>() / size_of::<u32>()..WORDS).contains(&flags);
    is_free.then(|| FLAGS_AT.store(flags, Ordering::Relaxed))
}
