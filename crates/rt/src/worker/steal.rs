//! Stealing: fibers that an idle worker takes from other workers.

use daiko_core::barrier::Barrier;
use daiko_core::place::{self, Least, SlotSnapshot};
use daiko_core::trace::Event;
use daiko_sys::clock;

use super::Worker;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::runtime::kernel::ThisThread;

/// Number of starts between two looks at the load of all workers.
const STARTS_PER_LOOK: u32 = 16;

impl Worker {
    /// Takes runnable fibers from another worker; returns true if it has got any.
    pub(super) fn steal(&self) -> bool {
        if !self.is_active() {
            return false;
        }
        let all = self.runtime().all_workers();
        let me = self.index as usize;
        // Begins with the next worker, so that thieves spread.
        let others = || all[me + 1..].iter().chain(&all[..me]);
        let wanted = self.wanted_of_others();
        let offering = others().filter(|victim| wanted.is_some_and(|wanted| victim.offers(wanted)));
        for victim in offering.chain(others()) {
            if self.steal_queued(victim) || self.begin_offer_of(victim) || self.steal_next(victim) {
                self.runtime().work_is_available(InCall::agent(self));
                self.counters.steals.add(1);
                self.trace(|| Event::Steal(u64::from(victim.index)));
                return true;
            }
        }
        false
    }

    /// Takes the older half of the victim's queue.
    fn steal_queued(&self, victim: &Worker) -> bool {
        victim.ring.steal().steal_into(&self.stealable(), |fiber, place| {
            // SAFETY: a queued fiber is in use.
            unsafe { fiber.as_ref() }.set_place(place);
        })
    }

    /// Takes a migratable fiber that has been in the LIFO slot for so long that its worker seems
    /// busy with another fiber.
    fn steal_next(&self, victim: &Worker) -> bool {
        let Some(fiber) = victim.next.peek() else { return false };
        let snapshot =
            SlotSnapshot { fiber: fiber.addr().get(), picks: victim.counters.switches.get() };
        if !self.steal_history.look(victim.index, snapshot, clock::monotonic_ns()) {
            return false;
        }
        let call = InCall::agent(self);
        let stolen = victim.next.steal(ThisThread::of(call), || self.runtime().barriers.heavy());
        // SAFETY: a queued fiber is in use.
        stolen.inspect(|fiber| self.push_stealable(call, unsafe { fiber.as_ref() })).is_some()
    }

    /// Chooses the worker for a fiber that this worker is about to start.
    pub(crate) fn place_start(&self) -> place::StartPlace {
        // A worker that stands by has no room for any.
        let mine = if self.is_active() { self.load() } else { u32::MAX };
        let (least, looks) = match self.least.get() {
            (_, 0) => {
                let least = self.runtime().least_loaded(self.position());
                (least.unwrap_or(Least::NONE), STARTS_PER_LOOK)
            }
            known => known,
        };
        let start = place::start_against(mine, least);
        // The loads are read anew before a fiber is sent away, and after it was sent.
        let stale = start != place::StartPlace::Here && looks < STARTS_PER_LOOK;
        self.least.set((least, if stale { 0 } else { looks - 1 }));
        if stale { self.place_start() } else { start }
    }

    /// Returns the number of pinned fibers that this worker has, including those under way to it.
    pub(crate) fn load(&self) -> u32 {
        self.live.load(Ordering::Relaxed) + self.coming.load(Ordering::Relaxed)
    }
}
