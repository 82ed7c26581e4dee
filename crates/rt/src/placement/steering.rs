//! Placement of migratable fibers that wait for sockets, and whether the kernel steers packets
//! after them.

use daiko_sys::{clock, steering};

use crate::atomic::{AtomicBool, AtomicU64, Ordering};

/// The worker on which a [migratable fiber](crate::Builder::migratable) goes on after a wait
/// for a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// The worker of the agent that has seen that the socket is ready, if it has nothing else to
    /// do; else the worker where the fiber last ran.
    #[default]
    Default,
    /// The worker where the fiber is, after it has moved, until a packet for it was processed on
    /// that CPU: at most 4 wake-ups. Then that worker's agent polls its socket as well.
    ///
    /// For kernels that steer packets after their readers (Receive Flow Steering). They do so late,
    /// lest one packet overtakes another: meanwhile wake-ups come from the CPU where the reader
    /// was, and would take it back there. On other kernels, and while steering is seen to be off
    /// (it is checked every second), this is the same as `Default`. The kernel tells on which CPU a
    /// packet was processed only for internet sockets; other descriptors count as processed on the
    /// CPU of their agent. It has saved migrations, but no time: with 32 and more flows it cost a
    /// fifth more CPU time on a machine of two cores, so it is not the default. Workers are
    /// [bound](crate::RuntimeBuilder::bind) to have a CPU each.
    ///
    /// From Goda and Tago, "Improvement of load balancing at process wake-up that considers
    /// interrupts which follow the process".
    Follow,
}

/// The state for [`Placement::Follow`].
pub struct Steering {
    placement: Placement,
    /// Index + 1 of the first worker that is bound to each CPU; 0: none.
    workers: Box<[u16]>,
    /// True if the kernel steers packets, as far as is known. Written by the monitor.
    is_on: AtomicBool,
    /// The time of the next check, on the monotonic clock; the maximum means never.
    next_look_ns: AtomicU64,
}

/// Time between two checks.
const LOOK_NS: u64 = 1_000_000_000;

impl Steering {
    /// Creates the state, with worker `i` bound to the `i`th CPU of `bound`, if there is one.
    /// `assumed` replaces the check whether packets are steered.
    pub(crate) fn new(
        placement: Placement,
        assumed: Option<bool>,
        bound: &[usize],
        workers: usize,
    ) -> Self {
        let most = bound.iter().max().map_or(0, |most| most + 1);
        let mut of_cpu = vec![0; most].into_boxed_slice();
        for (index, cpu) in bound.iter().take(workers).enumerate() {
            of_cpu[*cpu] = index as u16 + 1;
        }
        let this = Steering {
            placement,
            workers: of_cpu,
            is_on: AtomicBool::new(assumed.unwrap_or(false)),
            next_look_ns: AtomicU64::new(if assumed.is_some() { u64::MAX } else { 0 }),
        };
        this.look();
        this
    }

    /// Returns true if migratable fibers are to wait for their packets.
    #[inline]
    pub fn is_followed(&self) -> bool {
        // Relaxed: late by up to a second in any case.
        self.placement == Placement::Follow && self.is_on.load(Ordering::Relaxed)
    }

    /// Checks whether the kernel steers packets, if that matters, and once a second.
    pub(crate) fn look(&self) {
        if self.placement == Placement::Default {
            return;
        }
        let now = clock::monotonic_ns();
        if now >= self.next_look_ns.load(Ordering::Relaxed) {
            self.next_look_ns.store(now + LOOK_NS, Ordering::Relaxed);
            self.is_on.store(steering::is_on(), Ordering::Relaxed);
        }
    }

    /// Returns the worker that is bound to `cpu`.
    pub fn worker_at(&self, cpu: usize) -> Option<u16> {
        self.workers.get(cpu)?.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_of_a_cpu_is_the_one_bound_there() {
        let steering = Steering::new(Placement::Follow, Some(true), &[5, 2], 2);
        assert_eq!([5, 2, 0, 9].map(|cpu| steering.worker_at(cpu)), [Some(0), Some(1), None, None]);
        let fewer = Steering::new(Placement::Follow, Some(true), &[5, 2], 1);
        assert_eq!([5, 2].map(|cpu| fewer.worker_at(cpu)), [Some(0), None]);
        assert_eq!(Steering::new(Placement::Follow, Some(true), &[], 2).worker_at(0), None);
    }

    #[test]
    fn fibers_are_followed_only_on_request() {
        let is_followed = |placement, steered| {
            let steering = Steering::new(placement, Some(steered), &[0], 1);
            steering.look();
            steering.is_followed()
        };
        assert!(is_followed(Placement::Follow, true));
        assert!(!is_followed(Placement::Follow, false));
        assert!(!is_followed(Placement::Default, true));
    }
}
