//! The steal history of a worker.

use std::cell::Cell;

use daiko_core::place::{NextSlotWatch, Sight};

/// A thief's steal history: its last look at the LIFO slot of another worker.
#[derive(Default)]
pub(super) struct Sights {
    victim: Cell<u32>,
    watch: Cell<NextSlotWatch>,
}

impl Sights {
    pub(super) fn look(&self, victim: u32, sight: Sight, now_ns: u64) -> bool {
        // One memory is enough: a look at another victim in between starts anew.
        let mut watch = if self.victim.replace(victim) == victim {
            self.watch.get()
        } else {
            NextSlotWatch::new()
        };
        let settled = watch.look(sight, now_ns);
        self.watch.set(watch);
        settled
    }
}
