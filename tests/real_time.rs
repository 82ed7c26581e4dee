//! Gives a thread a real-time policy, under which the kernel ends the process if a thread keeps its
//! CPU.
//!
//! Tests of several crates include this file by its path.

/// CPU time after which a thread with a real-time policy must have slept, in microseconds.
const KEEPS_CPU: libc::rlim_t = 500_000;

/// The calling thread has a real-time policy, at its lowest priority, until this is dropped.
pub(crate) struct RealTime(());

impl RealTime {
    /// Gives the calling thread the policy, as well as threads that it starts from now on. `None`,
    /// after a message, if it must not have it.
    pub(crate) fn enter(policy: libc::c_int) -> Option<Self> {
        let limit = libc::rlimit { rlim_cur: KEEPS_CPU, rlim_max: KEEPS_CPU };
        // SAFETY: the limit is a live local.
        unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_RTTIME, &limit), 0) };
        if !set(0, policy, 1) {
            println!("skipped: real-time policies are refused; run as root");
            return None;
        }
        Some(RealTime(()))
    }

    /// Gives another thread of this process the policy. One [has been entered](Self::enter) before.
    #[allow(dead_code, reason = "not every test gives policies to other threads")]
    pub(crate) fn give(thread: u32, policy: libc::c_int) {
        assert!(set(thread, policy, 1));
    }

    /// Gives another thread the usual policy.
    #[allow(dead_code, reason = "not every test gives policies to other threads")]
    pub(crate) fn take(thread: u32) {
        assert!(set(thread, libc::SCHED_OTHER, 0));
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        Self::take(0);
    }
}

/// Sets policy and priority of a thread, 0 for the caller; returns false if that is refused.
fn set(thread: u32, policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters are a live local.
    unsafe { libc::sched_setscheduler(thread as libc::pid_t, policy, &parameters) == 0 }
}
