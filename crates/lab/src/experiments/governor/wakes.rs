//! What waker and waiter write down of each wake.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use daiko_sys::clock;

use crate::kit::Failure;

/// On a line of its own: one side writes it while the other reads its own.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Count(AtomicUsize);

/// All wakes of a sample, in order. The waker writes `sent_at` and `sent`, the
/// waiter `latency` and `seen`.
#[derive(Debug)]
pub(super) struct Wakes {
    sent_at: Box<[AtomicU64]>,
    sent: Count,
    latency: Box<[AtomicU64]>,
    seen: Count,
    halted: AtomicBool,
}

impl Wakes {
    /// Room for `total` wakes, resident.
    pub(super) fn new(total: usize) -> Self {
        // Opaque, lest the memory is the kernel's zero page until it is used.
        let room = || (0..total).map(|_| AtomicU64::new(black_box(0))).collect();
        Self {
            sent_at: room(),
            sent: Count::default(),
            latency: room(),
            seen: Count::default(),
            halted: AtomicBool::new(false),
        }
    }

    /// By the waker: notes that a wake is sent now, and sends it by `wake`.
    pub(super) fn send(&self, wake: impl FnOnce()) {
        // Relaxed: written by this thread alone.
        let index = self.sent.0.load(Ordering::Relaxed);
        let now = clock::monotonic_ns();
        // Relaxed: published by the next line.
        self.sent_at[index].store(now, Ordering::Relaxed);
        // Pairs with the Acquire in `arrive`.
        self.sent.0.store(index + 1, Ordering::Release);
        wake();
    }

    /// By the waiter, first thing after each wait: whether it was the last.
    ///
    /// A wake that was sent after it went on is left for the next wait, which
    /// that wake ends.
    #[inline]
    pub(super) fn arrive(&self) -> bool {
        let now = clock::monotonic_ns();
        // Pairs with the Release in `send`.
        let sent = self.sent.0.load(Ordering::Acquire);
        // Relaxed: written by this thread alone.
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

    /// Makes the waiter end at its next wake, whatever has come.
    pub(super) fn halt(&self) {
        // Pairs with the Acquire in `arrive`.
        self.halted.store(true, Ordering::Release);
    }

    /// How many wakes have been sent, asked by the waker.
    pub(super) fn sent(&self) -> usize {
        // Relaxed: as in `send`.
        self.sent.0.load(Ordering::Relaxed)
    }

    /// How many wakes the waiter has seen.
    pub(super) fn seen(&self) -> usize {
        // Pairs with the Release in `arrive`.
        self.seen.0.load(Ordering::Acquire)
    }

    /// Latencies in nanoseconds of the `wakes`, all of which were seen;
    /// ascending.
    ///
    /// # Errors
    /// If one of them took longer than `lost`.
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

    /// Longer than any machine stands still between two lines, shorter than any
    /// has been up.
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
    fn a_wake_that_waited_for_the_next_one_is_a_fault() {
        let wakes = Wakes::new(2);
        wakes.send(|| ());
        // As if sent that long ago.
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
