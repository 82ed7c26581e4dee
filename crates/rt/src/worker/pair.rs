//! Siblings: workers on CPUs that are hardware threads of one core.
//!
//! A worker reads the fiber that a sibling runs from the sibling's `running` word, and the fiber's
//! class from its control block. Nothing is published for this purpose, and siblings share the
//! caches that hold both. Both may have changed by the time that the worker acts on them; then the
//! next fiber is not the best one.
//!
//! Budget of a choice: three loads for each sibling, one for each of at most four fibers in a
//! queue. Budget of a pick without siblings: a load and a branch if the LIFO slot was empty.

use std::iter;
use std::ptr::NonNull;

use daiko_core::place::{self, Class, PASSES};

use super::Worker;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::ControlBlock;

impl Worker {
    /// Returns true if another worker shares this worker's core, and a fiber has a class.
    #[inline]
    pub(super) fn has_siblings(&self) -> bool {
        // Relaxed: a hint.
        self.sibling.load(Ordering::Relaxed) != 0
    }

    /// Sets the next worker on this core, counted round, to the worker at `index`.
    pub(crate) fn set_sibling(&self, index: usize) {
        self.sibling.store(index as u32 + 1, Ordering::Relaxed);
    }

    /// Returns the classes of the fibers that the siblings run.
    pub(super) fn beside(&self) -> impl Iterator<Item = Class> {
        self.siblings().map(|sibling| {
            sibling.running_block().map_or(Class::Unknown, |fiber| fiber.class.get())
        })
    }

    /// Returns true if no sibling runs a fiber.
    pub(crate) fn has_core_alone(&self) -> bool {
        self.siblings().all(|sibling| sibling.running_addr() == 0)
    }

    pub(crate) fn siblings(&self) -> impl Iterator<Item = &Worker> {
        let workers = self.runtime().workers();
        // Each link is written once: the chain either ends here, or leads round to this worker.
        let next = |worker: &&Worker| {
            let link = worker.sibling.load(Ordering::Relaxed).checked_sub(1)?;
            workers.get(link as usize).filter(|next| next.index != self.index)
        };
        iter::successors(next(&self), next)
    }

    /// Takes a fiber as [`pop`](Self::pop) does: from the queue that is due, the fiber that
    /// goes best with those on the siblings.
    pub(super) fn pop_beside(&self) -> Option<NonNull<ControlBlock>> {
        let wanted = place::wanted(self.beside());
        let fiber = if self.budget.second_first() {
            self.pop_pinned(wanted).or_else(|| self.pop_stealable(wanted))
        } else {
            self.pop_stealable(wanted).or_else(|| self.pop_pinned(wanted))
        };
        // SAFETY: a queued fiber is in use, and this worker has it alone now.
        fiber.inspect(|fiber| unsafe { fiber.as_ref() }.class.set_passed(0))
    }

    fn pop_pinned(&self, wanted: Option<Class>) -> Option<NonNull<ControlBlock>> {
        let queue = self.pinned();
        let chosen = wanted.map_or(0, |wanted| place::pick(wanted, queue.iter().map(seen)));
        self.counters.overtakes.add(u64::from(chosen > 0));
        queue.pop_behind(chosen, |passed| {
            // SAFETY: a queued fiber is in use, and in this worker's queue alone.
            let passed = unsafe { passed.as_ref() };
            passed.class.set_passed(passed.class.passed() + 1);
        })
    }

    /// Takes a fiber from the ring, which gives only its oldest. Fibers that are passed over go to
    /// its end, and so are passed over only once.
    fn pop_stealable(&self, wanted: Option<Class>) -> Option<NonNull<ControlBlock>> {
        let Some(wanted) = wanted else { return self.stealable().pop() };
        let chosen = place::pick(wanted, self.stealable().peek().map(seen));
        self.pop_past(chosen, wanted)
    }

    /// Takes the fiber of the ring that has `before` fibers before it. If thieves have taken fibers
    /// meanwhile and the look would now end at one of those, takes that one.
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
            fiber.class.set_passed(PASSES);
            self.push_stealable(InCall::agent(self), fiber);
            passed += 1;
            next = ring.pop();
        }
        if passed > 0 {
            self.counters.overtakes.add(1);
            // Once for all of them: a worker that was about to park may have looked while they were
            // in no queue.
            self.runtime().work_is_available(InCall::agent(self));
        }
        next
    }

    /// Returns the class that this worker, as a thief, looks for first; `None` if it takes any
    /// fiber.
    pub(super) fn wanted_of_others(&self) -> Option<Class> {
        if self.has_siblings() { place::wanted(self.beside()) } else { None }
    }

    /// Returns true if the fiber that a thief would take from this worker seems to be of class
    /// `wanted`.
    pub(super) fn offers(&self, wanted: Class) -> bool {
        self.ring.steal().peek().is_some_and(|fiber| seen(fiber).0 == wanted)
    }
}

/// Returns the class of a queued fiber, and how often it was passed over. It may have been stolen
/// meanwhile.
fn seen(fiber: NonNull<ControlBlock>) -> (Class, u8) {
    // SAFETY: a block stays one as long as the runtime, which calls.
    let fiber = unsafe { fiber.as_ref() };
    (fiber.class.get(), fiber.class.passed())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daiko_core::queue::StealQueue;

    use super::*;
    use crate::atomic::AtomicBool;
    use crate::call::Call;
    use crate::worker::{self, current};
    use crate::{Builder, JoinHandle, Preset, Runtime};

    use Class::{Compute as C, Stall as S};

    /// Spawns a migratable fiber that calls `body`, then returns how often it counts as passed over
    /// while it runs.
    fn spawn(class: Class, body: impl FnOnce() + Send + 'static) -> JoinHandle<u8> {
        // SAFETY: the bodies keep nothing in thread-local storage, and do not suspend.
        let migratable = Builder::new().class(class).migratable();
        let body = || {
            body();
            worker::caller("a test").1.class.passed()
        };
        migratable.spawn(body).unwrap()
    }

    /// Occupies a worker with a fiber until the returned flag is set.
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

    /// Returns the fiber that `pop_past` takes if `thieves` thieves come after the third fiber was
    /// chosen, and two more fibers after them; and the fibers that are left. The fourth was passed
    /// over before.
    fn taken_after(thieves: usize) -> (usize, Vec<usize>) {
        let worker = current().unwrap();
        let ring = worker.stealable();
        let first = [C, C, S, C].map(|class| spawn(class, || ()));
        let mut queued: Vec<_> = ring.peek().collect();
        // SAFETY: a queued fiber is in use, and the only worker has it.
        unsafe { queued[3].as_ref() }.class.set_passed(PASSES);
        assert_eq!(place::pick(S, ring.peek().map(seen)), 2);
        let mut stolen = StealQueue::new();
        let (loot, _) = stolen.split();
        assert!((0..thieves).all(|_| ring.steal().steal_into(&loot, |_, _| ())));
        let left = ring.len();
        let more = [C, C].map(|class| spawn(class, || ()));
        queued.extend(ring.peek().skip(left));
        let call = Call::enter();
        let next = worker.pop_past(2, S).unwrap();
        let index = |fiber| queued.iter().position(|queued| *queued == fiber).unwrap();
        let result = (index(next), ring.peek().map(index).collect());
        for fiber in iter::once(next).chain(iter::from_fn(|| loot.pop())) {
            // SAFETY: as above.
            worker.push_stealable(call.token(), unsafe { fiber.as_ref() });
        }
        first.into_iter().chain(more).for_each(|migratable| _ = migratable.join().unwrap());
        result
    }

    #[test]
    fn a_choice_after_thieves_passes_over_no_fiber_that_ends_the_look() {
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
    fn a_stolen_fiber_that_was_passed_over_is_not_passed_over_again() {
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
            [first, stolen].map(|migratable| migratable.join().unwrap())
        };
        let passed = runtime.spawn_with(Builder::new().on(0), driver).unwrap().join().unwrap();
        enough.store(true, Ordering::Release);
        [sibling, thief].into_iter().for_each(|occupant| occupant.join().unwrap());
        assert_eq!((passed, runtime.counters()[0].overtakes), ([0, 0], 1));
    }
}
