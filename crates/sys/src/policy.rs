//! The scheduling policy of the calling thread, and waits that do not depend on it.
//!
//! Under a real-time policy a thread keeps its CPU from all threads of lower priority, and under
//! `SCHED_FIFO` from those of the same priority as well, until it sleeps: `sched_yield` is not
//! enough.

use std::thread;
use std::time::Duration;

/// Bit that `sched_getscheduler` may return beside the policy.
const RESET_ON_FORK: libc::c_int = 0x4000_0000;
/// `SCHED_DEADLINE` of linux/sched.h.
const SCHED_DEADLINE: libc::c_int = 6;
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
