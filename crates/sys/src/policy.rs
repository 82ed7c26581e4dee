//! The scheduling policies of threads, and waits that do not depend on them.
//!
//! Under a real-time policy a thread keeps its CPU from all threads of lower priority, and under
//! `SCHED_FIFO` from those of the same priority as well, until it sleeps: `sched_yield` is not
//! enough.

use std::io;
use std::thread;
use std::time::Duration;

/// Bit that `sched_getscheduler` may return beside the policy.
const RESET_ON_FORK: libc::c_int = 0x4000_0000;
/// `SCHED_DEADLINE` of linux/sched.h.
const SCHED_DEADLINE: libc::c_int = 6;
/// `SCHED_EXT` of linux/sched.h.
const SCHED_EXT: libc::c_int = 7;
/// Sleep in place of a yield: some times the cost of a sleep and a wake.
const REST: Duration = Duration::from_micros(50);

/// Returns true if the calling thread has a real-time policy: `SCHED_FIFO`, `SCHED_RR` or
/// `SCHED_DEADLINE`. One system call; false if that is refused.
pub fn is_real_time() -> bool {
    // SAFETY: takes a plain integer; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy >= 0
        && [libc::SCHED_FIFO, libc::SCHED_RR, SCHED_DEADLINE].contains(&(policy & !RESET_ON_FORK))
}

/// A policy between which [`set`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPolicy {
    /// `SCHED_OTHER`, the default.
    Other,
    /// `SCHED_EXT`, by which a thread belongs to the scheduler of sched_ext if one is attached, and
    /// behaves as under `SCHED_OTHER` if none is.
    Extended,
}

/// The policy of any thread; `None` for all policies but the two.
///
/// # Errors
///
/// There is no such thread.
pub fn of(thread: u32) -> io::Result<Option<SharedPolicy>> {
    match raw(thread)? & !RESET_ON_FORK {
        libc::SCHED_OTHER => Ok(Some(SharedPolicy::Other)),
        SCHED_EXT => Ok(Some(SharedPolicy::Extended)),
        _ => Ok(None),
    }
}

/// Sets the policy of any thread, which its future children inherit. Its nice value remains.
///
/// # Errors
///
/// There is no such thread, it belongs to another user, or the kernel has no such policy.
pub fn set(thread: u32, policy: SharedPolicy) -> io::Result<()> {
    let number = match policy {
        SharedPolicy::Other => libc::SCHED_OTHER,
        SharedPolicy::Extended => SCHED_EXT,
    };
    let flag = raw(thread)? & RESET_ON_FORK;
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: takes integers and a live local, which it only reads.
    match unsafe { libc::sched_setscheduler(thread as i32, number | flag, &no_priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn raw(thread: u32) -> io::Result<libc::c_int> {
    // SAFETY: takes a plain integer.
    match unsafe { libc::sched_getscheduler(thread as i32) } {
        -1 => Err(io::Error::last_os_error()),
        policy => Ok(policy),
    }
}

/// Lets other threads run on this CPU, also those of lower priority: a yield, or a short sleep
/// under a real-time policy.
///
/// For loops that wait for a thread which has lost its CPU.
pub fn give_way() {
    if is_real_time() { thread::sleep(REST) } else { thread::yield_now() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::atomic::{AtomicBool, Ordering};
    use crate::cpu::{self, CpuSet};
    use crate::testing::{RealTime, in_fork};

    #[test]
    fn the_policy_of_a_thread_is_changed_and_read() {
        in_fork(|| {
            let own = crate::thread::id();
            assert_eq!(of(own).unwrap(), Some(SharedPolicy::Other));
            // A kernel without sched_ext refuses the policy.
            if set(own, SharedPolicy::Extended).is_ok() {
                assert_eq!(of(own).unwrap(), Some(SharedPolicy::Extended));
            }
            set(own, SharedPolicy::Other).unwrap();
            assert_eq!(of(own).unwrap(), Some(SharedPolicy::Other));
            assert!(
                of(i32::MAX as u32).is_err() && set(i32::MAX as u32, SharedPolicy::Other).is_err()
            );
        });
    }

    #[test]
    fn a_policy_is_seen_when_it_changes() {
        in_fork(|| {
            assert!(!is_real_time());
            for policy in [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_FIFO | RESET_ON_FORK] {
                let Some(real_time) = RealTime::enter(policy) else { return };
                assert!(is_real_time());
                drop(real_time);
                assert!(!is_real_time());
            }
        });
    }

    /// The kernel ends a thread that keeps its CPU under a real-time policy for too long.
    #[test]
    fn a_waiter_with_a_real_time_policy_lets_a_lower_priority_run_on_its_cpu() {
        in_fork(|| {
            let one: CpuSet = cpu::allowed().unwrap().iter().take(1).collect();
            cpu::bind_current(&one).unwrap();
            static DONE: AtomicBool = AtomicBool::new(false);
            let (send, receive) = mpsc::channel();
            let lower = thread::spawn(move || {
                receive.recv().unwrap();
                DONE.store(true, Ordering::Release);
            });
            let Some(_real_time) = RealTime::enter(libc::SCHED_FIFO) else { return };
            send.send(()).unwrap();
            while !DONE.load(Ordering::Acquire) {
                give_way();
            }
            lower.join().unwrap();
        });
    }
}
