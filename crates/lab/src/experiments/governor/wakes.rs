//! Records that waker and waiter make of each wake.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use daiko_sys::clock;

use crate::kit::Failure;

/// A counter on a cache line of its own: the two counters have different writers.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Count(AtomicUsize);

/// All wakes of a sample, in order. The waker writes `sent_at` and `sent`, the waiter writes
/// `latency` and `seen`.
#[derive(Debug)]
pub(super) struct Wakes {
    sent_at: Box<[AtomicU64]>,
    sent: Count,
    latency: Box<[AtomicU64]>,
    seen: Count,
    halted: AtomicBool,
}

impl Wakes {
    /// Creates room for `total` wakes, in resident memory.
    pub(super) fn new(total: usize) -> Self {
        // Opaque to the compiler: otherwise the memory would remain the kernel's zero page until it
        // is used.
        let room = || (0..total).map(|_| AtomicU64::new(black_box(0))).collect();
        Self {
            sent_at: room(),
            sent: Count::default(),
            latency: room(),
            seen: Count::default(),
            halted: AtomicBool::new(false),
        }
    }

    /// Records that a wake is sent now, and sends it by `wake`. Called by the waker.
    pub(super) fn send(&self, wake: impl FnOnce()) {
        // Relaxed: only this thread writes it.
        let index = self.sent.0.load(Ordering::Relaxed);
        let now = clock::monotonic_ns();
        // Relaxed: published by the next store.
        self.sent_at[index].store(now, Ordering::Relaxed);
        // Pairs with the Acquire in `arrive`.
        self.sent.0.store(index + 1, Ordering::Release);
        wake();
    }

    /// Records the wakes that have arrived. Called by the waiter first after each wait. Returns
    /// whether the last one arrived.
    ///
    /// A wake that was sent after the waiter continued is left for the next wait, which that wake
    /// ends.
    #[inline]
    pub(super) fn arrive(&self) -> bool {
        let now = clock::monotonic_ns();
        // Pairs with the Release in `send`.
        let sent = self.sent.0.load(Ordering::Acquire);
        // Relaxed: only this thread writes it.
        let mut seen = self.seen.0.load(Ordering::Relaxed);
        while seen < sent {
            // Relaxed: the Acquire above makes it visible.
            let sent_at = self.sent_at[seen].load(Ordering::Relaxed);
            if sent_at > now {
                break;
            }
            // Relaxed: published below.
            self.latency[seen].store(now - sent_at, Ordering::Relaxed);
            seen += 1;
        }
        // Pairs with the Acquire in `seen`.
        self.seen.0.store(seen, Ordering::Release);
        // Pairs with the Release in `halt`.
        seen == self.latency.len() || self.halted.load(Ordering::Acquire)
    }

    /// Makes the waiter end at its next wake, even if more wakes are planned.
    pub(super) fn halt(&self) {
        // Pairs with the Acquire in `arrive`.
        self.halted.store(true, Ordering::Release);
    }

    /// Number of sent wakes. Called by the waker.
    pub(super) fn sent(&self) -> usize {
        // Relaxed: see `send`.
        self.sent.0.load(Ordering::Relaxed)
    }

    /// Number of wakes that the waiter has seen.
    pub(super) fn seen(&self) -> usize {
        // Pairs with the Release in `arrive`.
        self.seen.0.load(Ordering::Acquire)
    }

    /// Returns the latencies of `wakes` in nanoseconds, in ascending order. All of these wakes have
    /// been seen.
    ///
    /// # Errors
    /// Fails if one of them took longer than `lost`.
    pub(super) fn latencies(
        &self,
        wakes: Range<usize>,
        lost: Duration,
    ) -> Result<Vec<u64>, Failure> {
        let latencies = &self.latency[wakes];
        // Relaxed: the Acquire in `seen` made them visible.
        let load = |latency: &AtomicU64| latency.load(Ordering::Relaxed);
        let mut latencies: Vec<u64> = latencies.iter().map(load).collect();
        let is_lost = |&latency: &u64| Duration::from_nanos(latency) > lost;
        if let Some(index) = latencies.iter().position(is_lost) {
            let after = Duration::from_nanos(latencies[index]).as_millis();
            return Err(Failure::Broken(format!(
                "wake {} of {} was lost: seen only after {after} ms",
                index + 1,
                latencies.len()
            )));
        }
        latencies.sort_unstable();
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any stall of a machine between two lines of code, shorter than any machine's
    /// uptime.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_wake_is_seen_once_with_its_latency() {
        let wakes = Wakes::new(3);
        let start = clock::monotonic_ns();
        wakes.send(|| assert_eq!(wakes.sent(), 1));
        assert!(!wakes.arrive());
        let end = clock::monotonic_ns();
        assert_eq!((wakes.sent(), wakes.seen()), (1, 1));
        assert!(!wakes.arrive(), "nothing new");
        assert_eq!(wakes.seen(), 1);
        let latencies = wakes.latencies(0..1, LONG).unwrap();
        assert!(latencies[0] <= end - start);
    }

    #[test]
    fn wakes_that_came_together_all_count() {
        let wakes = Wakes::new(3);
        (0..3).for_each(|_| wakes.send(|| ()));
        assert!(wakes.arrive(), "the last one has come");
        let latencies = wakes.latencies(0..3, LONG).unwrap();
        assert!(latencies.is_sorted() && latencies.len() == 3);
    }

    #[test]
    fn a_wake_that_waited_for_the_next_wake_is_a_fault() {
        let wakes = Wakes::new(2);
        wakes.send(|| ());
        // As if it had been sent that long ago.
        let long_ago = clock::monotonic_ns() - LONG.as_nanos() as u64;
        wakes.sent_at[0].store(long_ago, Ordering::Relaxed);
        wakes.send(|| ());
        wakes.arrive();
        let failure = wakes.latencies(0..2, LONG).unwrap_err().to_string();
        assert!(failure.starts_with("wake 1 of 2 was lost: seen only after "), "{failure}");
    }

    #[test]
    fn a_halted_waiter_ends_before_the_last_wake() {
        let wakes = Wakes::new(2);
        wakes.halt();
        assert!(wakes.arrive());
    }
}
