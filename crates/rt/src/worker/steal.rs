//! Stealing: what an idle worker takes from others.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use daiko_core::barrier::Barrier;
use daiko_core::place::{self, NextSlotWatch, Sight};
use daiko_sys::clock;

use super::Worker;
use crate::runtime::kernel::ThisThread;

/// Starts between two looks at the load of all workers.
const STARTS_PER_LOOK: u32 = 16;

/// A thief's memory of the next slots of all others, in turn.
#[derive(Default)]
pub(super) struct Sights {
    victim: Cell<u32>,
    watch: Cell<NextSlotWatch>,
}

impl Sights {
    fn look(&self, victim: u32, sight: Sight, now_ns: u64) -> bool {
        // One memory is enough: who looks at another victim in between starts anew.
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

impl Worker {
    /// Takes runnable fibers from another worker; true if there are some now.
    pub(super) fn steal(&self) -> bool {
        if !self.is_active() {
            return false;
        }
        let all = self.runtime().all_workers();
        let me = self.index as usize;
        // From the neighbour onwards, so that thieves spread.
        let others = || all[me + 1..].iter().chain(&all[..me]);
        let wanted = self.wanted_of_others();
        let offering = others().filter(|victim| wanted.is_some_and(|wanted| victim.offers(wanted)));
        for victim in offering.chain(others()) {
            if victim.ring.steal().steal_into(&self.stealable()) || self.steal_next(victim) {
                self.runtime().work_is_available();
                self.counters.steals.add(1);
                return true;
            }
        }
        false
    }

    /// Takes a mover that has been next for so long that its worker seems busy with another.
    fn steal_next(&self, victim: &Worker) -> bool {
        let Some(fiber) = victim.next.peek() else { return false };
        let sight = Sight { fiber: fiber.addr().get(), picks: victim.counters.switches.get() };
        if !self.sights.look(victim.index, sight, clock::monotonic_ns()) {
            return false;
        }
        let stolen = victim.next.steal(&ThisThread, || self.runtime().barriers.heavy());
        // SAFETY: a queued fiber is in use.
        stolen.inspect(|fiber| self.push_stealable(unsafe { fiber.as_ref() })).is_some()
    }

    /// Where this worker, about to start a fiber, should have it started.
    pub(crate) fn place_start(&self) -> place::Start {
        let mine = self.load();
        let (least, looks) = match self.least.get() {
            (_, 0) => (self.runtime().least_loaded(self.index as usize), STARTS_PER_LOOK),
            known => known,
        };
        let start = place::start_against(mine, least);
        // Before a fiber is sent away, and after it was, the loads are not what they were.
        let stale = start != place::Start::Here && looks < STARTS_PER_LOOK;
        self.least.set((least, if stale { 0 } else { looks - 1 }));
        if stale { self.place_start() } else { start }
    }

    /// Pinned fibers that this worker has, those under way to it included.
    pub(crate) fn load(&self) -> u32 {
        self.live.load(Ordering::Relaxed) + self.coming.load(Ordering::Relaxed)
    }
}
