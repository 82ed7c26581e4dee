//! The steal history of a worker.

use std::cell::Cell;

use daiko_core::place::{LifoSlotWatch, SlotSnapshot};

/// A thief's steal history: its last look at the LIFO slot of another worker.
#[derive(Default)]
pub(super) struct StealHistory {
    victim: Cell<u32>,
    watch: Cell<LifoSlotWatch>,
}

impl StealHistory {
    pub(super) fn look(&self, victim: u32, snapshot: SlotSnapshot, now_ns: u64) -> bool {
        // One memory is enough: a look at another victim in between starts anew.
        let mut watch = if self.victim.replace(victim) == victim {
            self.watch.get()
        } else {
            LifoSlotWatch::new()
        };
        let settled = watch.look(snapshot, now_ns);
        self.watch.set(watch);
        settled
    }
}
