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
    pub(super) fn beside(&self) -> impl Iterator<Item = Class> {
        self.siblings()
            .map(|sibling| sibling.running_block().map_or(Class::Unknown, ControlBlock::class))
    }

    /// Whether no sibling runs a fiber.
    pub(crate) fn has_core_alone(&self) -> bool {
        self.siblings().all(|sibling| sibling.running_addr() == 0)
    }

    pub(crate) fn siblings(&self) -> impl Iterator<Item = &Worker> {
        let workers = self.runtime().workers();
        // Each link is written once: either it ends here, or leads round to this worker.
        let next = |worker: &&Worker| {
            let link = worker.sibling.load(Ordering::Relaxed).checked_sub(1)?;
            workers.get(link as usize).filter(|next| next.index != self.index)
        };
        iter::successors(next(&self), next)
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
        self.counters.overtakes.add(u64::from(chosen > 0));
        queue.pop_behind(chosen, |passed| {
            // SAFETY: a queued fiber is in use, and in this worker's queue alone.
            let passed = unsafe { passed.as_ref() };
            passed.set_passed(passed.passed() + 1);
        })
    }

    /// Of the ring, from which only the oldest can be taken: those that are passed over go to its end, and so once only.
    fn pop_stealable(&self, wanted: Option<Class>) -> Option<NonNull<ControlBlock>> {
        let Some(wanted) = wanted else { return self.stealable().pop() };
        let chosen = place::pick(wanted, self.stealable().peek().map(seen));
        self.pop_past(chosen, wanted)
    }

    /// Takes the fiber of the ring that `before` others came before; one of those, where thieves have had others meanwhile, so that
    /// the look ends there now.
    fn pop_past(&self, before: usize, wanted: Class) -> Option<NonNull<ControlBlock>> {
        let ring = self.stealable();
        let mut passed = 0;
        let mut next = ring.pop();
        while passed < before
            && let Some(fiber) = next
            && !place::ends_look(wanted, seen(fiber))
        {
            // SAFETY: a queued fiber is in use, and this worker has it alone here.
            let fiber = unsafe { fiber.as_ref() };
            fiber.set_passed(PASSES);
            self.push_stealable(fiber);
            passed += 1;
            next = ring.pop();
        }
        if passed > 0 {
            self.counters.overtakes.add(1);
            // Once for all of them: who was about to park may have looked while they were in no queue.
            self.runtime().work_is_available();
        }
        next
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use daiko_core::queue::Ring;

    use super::*;
    use crate::worker::{current, suspend};
    use crate::{Builder, JoinHandle, Preset, Runtime};

    use Class::{Compute as C, Stall as S};

    /// A mover that returns how often it counts as passed over while it runs, after `body`.
    fn spawn(class: Class, body: impl FnOnce() + Send + 'static) -> JoinHandle<u8> {
        // SAFETY: the bodies keep nothing in thread-local storage, and do not suspend.
        let mover = unsafe { Builder::new().class(class).mover() };
        let body = || {
            body();
            suspend::caller("a test").1.passed()
        };
        mover.spawn(body).unwrap()
    }

    /// Has a fiber use a worker until it is told to end.
    fn occupy(runtime: &Runtime, worker: usize, class: Class) -> (Arc<AtomicBool>, JoinHandle<()>) {
        let enough = Arc::new(AtomicBool::new(false));
        let (tell, runs) = std::sync::mpsc::channel();
        let told = enough.clone();
        let body = move || {
            tell.send(()).unwrap();
            while !told.load(Ordering::Acquire) {
                crate::yield_now();
            }
        };
        let builder = Builder::new().on(worker).class(class);
        let occupant = runtime.spawn_with(builder, body).unwrap();
        runs.recv().unwrap();
        (enough, occupant)
    }

    /// Which of some movers is taken if so many thieves come after the third was chosen, and two more movers; and who is left. The
    /// fourth was passed over before.
    fn taken_after(thieves: usize) -> (usize, Vec<usize>) {
        let worker = current().unwrap();
        let ring = worker.stealable();
        let first = [C, C, S, C].map(|class| spawn(class, || ()));
        let mut queued: Vec<_> = ring.peek().collect();
        // SAFETY: a queued fiber is in use, and the only worker has it.
        unsafe { queued[3].as_ref() }.set_passed(PASSES);
        assert_eq!(place::pick(S, ring.peek().map(seen)), 2);
        let mut stolen = Ring::new();
        let (loot, _) = stolen.split();
        assert!((0..thieves).all(|_| ring.steal().steal_into(&loot)));
        let left = ring.len();
        let more = [C, C].map(|class| spawn(class, || ()));
        queued.extend(ring.peek().skip(left));
        let next = worker.pop_past(2, S).unwrap();
        let index = |fiber| queued.iter().position(|queued| *queued == fiber).unwrap();
        let result = (index(next), ring.peek().map(index).collect());
        for fiber in iter::once(next).chain(iter::from_fn(|| loot.pop())) {
            // SAFETY: as above.
            worker.push_stealable(unsafe { fiber.as_ref() });
        }
        first.into_iter().chain(more).for_each(|mover| _ = mover.join().unwrap());
        result
    }

    #[test]
    fn a_choice_that_thieves_have_come_after_passes_over_nobody_who_ends_the_look() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        for (thieves, expected) in [
            (0, (2, vec![3, 4, 5, 0, 1])),
            (1, (2, vec![3, 4, 5])),
            (2, (3, vec![4, 5])),
            (3, (4, vec![5])),
        ] {
            assert_eq!(runtime.run(move || taken_after(thieves)), expected, "{thieves} thieves");
        }
    }

    #[test]
    fn who_was_passed_over_and_stolen_is_not_passed_over_any_more() {
        let builder = Runtime::builder().workers(3).cores([0, 0, 1]).preset(Preset::Latency);
        let runtime = builder.build().unwrap();
        let (enough, sibling) = occupy(&runtime, 1, C);
        let (free, thief) = occupy(&runtime, 2, C);
        let driver = move || {
            let has_run = Arc::new(AtomicBool::new(false));
            let runs = has_run.clone();
            let stolen = spawn(C, move || runs.store(true, Ordering::Release));
            let first = spawn(S, move || {
                free.store(true, Ordering::Release);
                while !has_run.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
            [first, stolen].map(|mover| mover.join().unwrap())
        };
        let passed = runtime.spawn_with(Builder::new().on(0), driver).unwrap().join().unwrap();
        enough.store(true, Ordering::Release);
        [sibling, thief].into_iter().for_each(|occupant| occupant.join().unwrap());
        assert_eq!((passed, runtime.counters()[0].overtakes), ([0, 0], 1));
    }
}
