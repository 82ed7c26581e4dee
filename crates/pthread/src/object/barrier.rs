//! Barriers.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::mem::{MaybeUninit, offset_of};

use daiko_rt::Deadline;

use super::scratch::Scratch;
use crate::atomic::{AtomicU32, Ordering};
use crate::door::of_object;
use crate::parking::{self, Outcome, Queue};
use crate::waits::{Target, TargetKind};

/// A barrier, as the C library lays it out.
#[repr(C)]
struct Barrier {
    /// The threads that have arrived in this round. Under the queue's lock.
    arrived: Cell<u32>,
    /// The number of rounds that are over. Changed under the queue's lock.
    round: AtomicU32,
    count: u32,
    /// 0x80: process-shared.
    shared: u32,
    queue: Queue,
}

const _: () = assert!(size_of::<Barrier>() == 32);

impl Barrier {
    /// # Safety
    ///
    /// `barrier` is a barrier that lives as long as the result is used.
    unsafe fn at<'b>(barrier: *mut libc::pthread_barrier_t) -> &'b Barrier {
        // SAFETY: by this function's contract.
        unsafe { &*barrier.cast::<Barrier>() }
    }

    fn is_foreign(&self) -> bool {
        self.shared != 0
    }

    fn wait(&self) -> c_int {
        let target = Target::new(TargetKind::Barrier, self);
        let (mut is_last, mut round) = (false, 0);
        let arrive = || {
            round = self.round.load(Ordering::Relaxed);
            let arrived = self.arrived.get() + 1;
            is_last = arrived == self.count;
            self.arrived.set(if is_last { 0 } else { arrived });
            if is_last {
                // Release: pairs with the Acquire below.
                self.round.store(round.wrapping_add(1), Ordering::Release);
            }
            !is_last
        };
        let mut outcome = parking::wait_or_release(&self.queue, target, arrive);
        // A waiter that was interrupted looks at the barrier again. Until the round is over no
        // thread destroys it, and afterwards only once its interrupted waiters have left.
        while let Outcome::Interrupted(_) = outcome {
            // Acquire: pairs with the Release above.
            let lasts = || self.round.load(Ordering::Acquire) == round;
            outcome = parking::wait(&self.queue, target, Deadline::NEVER, lasts);
        }
        if is_last { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }
}

/// # Safety
///
/// As for `pthread_barrier_init`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_barrier_init(
    barrier: *mut libc::pthread_barrier_t,
    attributes: *const libc::pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    // SAFETY: by this function's contract. The C library leaves some bytes of the queue alone.
    unsafe {
        let result = libc::pthread_barrier_init(barrier, attributes, count);
        let inner = barrier.cast::<Barrier>();
        if result == 0 && (*inner).shared == 0 {
            (&raw mut (*inner).queue).write(Queue::new(0));
        }
        result
    }
}

of_object! { Barrier:
    // The waiters of the last round touch it no more once they are woken.
    daiko_pthread_barrier_destroy = pthread_barrier_destroy(barrier: *mut libc::pthread_barrier_t) 0;
    daiko_pthread_barrier_wait = pthread_barrier_wait(barrier: *mut libc::pthread_barrier_t)
        barrier.wait();
}

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    const WORD: usize = size_of::<u32>();
    const COUNT: usize = offset_of!(Barrier, count) / WORD;
    const SHARED: usize = offset_of!(Barrier, shared) / WORD;
    const THREADS: c_uint = 3;
    let init = |sharing| {
        Scratch::<libc::pthread_barrier_t, 8>::new(|barrier| {
            let mut attributes = MaybeUninit::uninit();
            // SAFETY: the attributes are initialised, and outlive their use.
            unsafe {
                libc::pthread_barrierattr_init(attributes.as_mut_ptr());
                libc::pthread_barrierattr_setpshared(attributes.as_mut_ptr(), sharing);
                libc::pthread_barrier_init(barrier, attributes.as_ptr(), THREADS)
            }
        })
    };
    init(libc::PTHREAD_PROCESS_PRIVATE)?.has(&[(COUNT, THREADS)])?;
    let shared = init(libc::PTHREAD_PROCESS_SHARED)?.words();
    (shared[COUNT] == THREADS && shared[SHARED] != 0).then_some(())
}
