//! Siblings: workers whose CPUs are hardware threads of one core.
//!
//! What a sibling runs is read from its own word for that, and what that fiber does from its control block: nothing is published
//! for it, and siblings share the caches that these lie in. Both may have changed by the time that they are acted upon; then the
//! next fiber is not the best one.
//!
//! Budget of a choice: three loads for each sibling, one for each of at most four fibers in a queue; of a pick without siblings, a
//! load and a branch where the next slot was empty.

use std::iter;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use daiko_core::governor::Decision;
use daiko_core::place::{self, Class, PASSES};

use super::Worker;
use crate::fiber::ControlBlock;

impl Worker {
    /// Whether some worker shares this one's core, and some fiber has a class.
    #[inline]
    pub(super) fn has_siblings(&self) -> bool {
        // Relaxed: a hint.
        self.sibling.load(Ordering::Relaxed) != 0
    }

    /// The worker at `index` is the next one on this core, counted round.
    pub(crate) fn set_sibling(&self, index: usize) {
        self.sibling.store(index as u32 + 1, Ordering::Relaxed);
    }

    /// What the siblings run.
    fn beside(&self) -> impl Iterator<Item = Class> {
        let workers = self.runtime().workers();
        // Each link is written once: either it ends here, or leads round to this worker.
        let next = |worker: &&Worker| {
            let link = worker.sibling.load(Ordering::Relaxed).checked_sub(1)?;
            workers.get(link as usize).filter(|next| next.index != self.index)
        };
        let siblings = iter::successors(next(&self), next);
        siblings.map(|sibling| sibling.running_block().map_or(Class::Unknown, ControlBlock::class))
    }

    /// What the agent does that has found nothing for `idle_ns`, given what it would do by itself: it does not poll for long
    /// beside a sibling that computes, as a core divides its units between all that do anything.
    pub(super) fn decide_beside_siblings(
        &self,
        decision: Decision,
        idle_ns: u64,
        silent: bool,
    ) -> Decision {
        let polls = decision == Decision::Spin;
        match polls && self.has_siblings() && place::gives_way(self.beside(), idle_ns) {
            true => self.runtime().governor.preset().rest(silent),
            false => decision,
        }
    }

    /// As [`pop`](Self::pop), beside siblings: of the queue whose turn it is, the fiber that goes best with what they run.
    pub(super) fn pop_beside(&self) -> Option<NonNull<ControlBlock>> {
        let wanted = place::wanted(self.beside());
        let fiber = if self.turns.second_first() {
            self.pop_pinned(wanted).or_else(|| self.pop_stealable(wanted))
        } else {
            self.pop_stealable(wanted).or_else(|| self.pop_pinned(wanted))
        };
        // SAFETY: a queued fiber is in use, and this worker has it alone now.
        fiber.inspect(|fiber| unsafe { fiber.as_ref() }.set_passed(0))
    }

    fn pop_pinned(&self, wanted: Option<Class>) -> Option<NonNull<ControlBlock>> {
        let queue = self.pinned();
        let chosen = wanted.map_or(0, |wanted| place::pick(wanted, queue.iter().map(seen)));
        for passed in queue.iter().take(chosen) {
            // SAFETY: a queued fiber is in use, and in this worker's queue alone.
            let passed = unsafe { passed.as_ref() };
            passed.set_passed(passed.passed() + 1);
        }
        self.counters.overtakes.add(u64::from(chosen > 0));
        queue.pop_behind(chosen)
    }

    /// Of the ring, from which only the oldest can be taken: those that are passed over go to its end, and so once only.
    fn pop_stealable(&self, wanted: Option<Class>) -> Option<NonNull<ControlBlock>> {
        let ring = self.stealable();
        let chosen = wanted.map_or(0, |wanted| place::pick(wanted, ring.peek().map(seen)));
        for _ in 0..chosen {
            // SAFETY: a queued fiber is in use, and this worker has it alone between the two.
            let passed = unsafe { ring.pop()?.as_ref() };
            passed.set_passed(PASSES);
            self.enqueue_stealable(passed);
        }
        self.counters.overtakes.add(u64::from(chosen > 0));
        ring.pop()
    }

    /// What this worker, as a thief, looks for first; `None` if it takes what comes.
    pub(super) fn wanted_of_others(&self) -> Option<Class> {
        if self.has_siblings() { place::wanted(self.beside()) } else { None }
    }

    /// Whether the fiber that would be taken from this worker is of that class, as far as can be seen.
    pub(super) fn offers(&self, wanted: Class) -> bool {
        self.ring.steal().peek().is_some_and(|fiber| seen(fiber).0 == wanted)
    }
}

/// What a queued fiber does, and how often it was passed over. It may have been stolen meanwhile.
fn seen(fiber: NonNull<ControlBlock>) -> (Class, u8) {
    // SAFETY: a block is one for good, as long as the runtime, whose worker asks.
    let fiber = unsafe { fiber.as_ref() };
    (fiber.class(), fiber.passed())
}
