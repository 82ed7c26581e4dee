//! Two atomic read-modify-writes on one hot cache line: the lower bound of a lock and an unlock.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::kit::Sample;

/// Measures rounds of one `lock cmpxchg` and one `xchg`.
pub(super) fn run(rounds: u64) -> Sample {
    let word = AtomicU32::new(0);
    let word = black_box(&word);
    let start = Instant::now();
    for _ in 0..rounds {
        // There is one thread only. The orderings are those that a lock would use, and cost nothing
        // extra on x86-64.
        let taken = word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        let held = word.swap(0, Ordering::Release);
        black_box((taken.is_ok(), held));
    }
    Sample::timed(rounds, rounds, start.elapsed())
}
