//! Parties that meet at a barrier, round by round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::library::{self, Barrier};
use crate::plan::Meeting;

/// Returns the number of tasks that led a round, and the number that came to each round.
pub(crate) fn run(meeting: &Meeting) -> (usize, Vec<usize>) {
    let shared = Arc::new(Shared {
        barrier: Barrier::new(meeting.parties.len()),
        parties: meeting.parties.len(),
        came: (0..meeting.rounds).map(|_| AtomicUsize::new(0)).collect(),
        led: AtomicUsize::new(0),
    });
    let parties = meeting.parties.iter().map(|&place| {
        let shared = shared.clone();
        (place, Box::new(move || shared.come()) as Box<dyn FnOnce() + Send>)
    });
    library::together(meeting.workers, parties.collect());
    let came = shared.came.iter().map(|came| came.load(Ordering::Relaxed)).collect();
    (shared.led.load(Ordering::Relaxed), came)
}

struct Shared {
    barrier: Barrier,
    parties: usize,
    came: Vec<AtomicUsize>,
    led: AtomicUsize,
}

impl Shared {
    fn come(&self) {
        for came in &self.came {
            came.fetch_add(1, Ordering::Relaxed);
            if self.barrier.wait().is_leader() {
                self.led.fetch_add(1, Ordering::Relaxed);
            }
            assert_eq!(came.load(Ordering::Relaxed), self.parties, "a party left too early");
        }
    }
}
