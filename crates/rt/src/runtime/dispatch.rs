//! Dispatch: fibers are put in places where a worker finds them, and a worker is notified.

use std::ptr::{self, NonNull};

use daiko_core::announce::Announcement;
use daiko_core::fiber::{Messages, Posted};
use daiko_core::list::Chain;
use daiko_core::place::{self, Least};

use super::barriers::Barriers;
use super::kernel::ThisThread;
use super::shared::RuntimeInner;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::{ControlBlock, SpawnPlace};
use crate::worker::{self, Worker};

impl RuntimeInner {
    /// Puts a new fiber in a place where a worker will find it. `here` is the calling worker, if a
    /// worker of this runtime calls.
    pub(crate) fn launch(
        &self,
        call: InCall<'_>,
        fiber: &ControlBlock,
        here: Option<&Worker>,
        place: SpawnPlace,
    ) {
        match (place, here) {
            (SpawnPlace::On(worker), from) => self.send_start(call, from, worker, fiber),
            (SpawnPlace::Spread, from) if self.worker_count() > 1 => {
                let me = from.map_or(0, |worker| worker.index as usize);
                self.send_start(call, from, self.least_loaded(me).worker, fiber);
            }
            (_, Some(worker)) => worker.enqueue_stealable(call, fiber),
            (_, None) => self.inject_one(call, fiber),
        }
    }

    /// Returns the active worker that has the fewest fibers, `me` if it is among those.
    pub(crate) fn least_loaded(&self, me: usize) -> Least {
        // Active workers come first. A count that shrinks meanwhile sends a fiber to a worker that
        // stands by, which starts it all the same.
        let active = self.workers().iter().take_while(|worker| worker.is_active());
        place::least(active.map(Worker::load), me)
    }

    /// Hands an unstarted fiber to `worker`, where it starts for sure: it is not placed twice.
    pub(crate) fn send_start(
        &self,
        call: InCall<'_>,
        from: Option<&Worker>,
        worker: usize,
        fiber: &ControlBlock,
    ) {
        fiber.flags.place();
        self.workers()[worker].coming.fetch_add(1, Ordering::Relaxed);
        if fiber.mail.post(Messages::START) == Posted::Push {
            self.workers()[worker].deliver(call, from, fiber);
        }
    }

    /// Puts an active fiber in the queue from which any worker takes it.
    pub(crate) fn inject_one(&self, call: InCall<'_>, fiber: &ControlBlock) {
        // SAFETY: the caller has the fiber alone, so it is in no list; it is in use until it has
        // run.
        unsafe { self.injector.push(ThisThread::of(call), NonNull::from(fiber)) };
        self.work_is_available(call);
    }

    /// Puts fibers in the queue from which any worker takes them.
    pub(crate) fn inject(&self, call: InCall<'_>, fibers: Chain<ControlBlock>) {
        self.injector.push_chain(ThisThread::of(call), fibers);
    }

    /// Makes all workers look again for work.
    pub fn unpark_all(&self, _: InCall<'_>) {
        let announced = Announcement::of_changes();
        for worker in self.all_workers() {
            worker.unpark_for(&announced);
            worker.recall();
        }
    }

    /// Wakes a parked worker, if there is one, because a fiber that any worker may take was queued.
    #[inline]
    pub(crate) fn work_is_available(&self, call: InCall<'_>) {
        // The only worker of a runtime knows the fibers that it queues itself, but not those of its
        // spare worker.
        let alone = self.worker_count() == 1
            && self.spares.load(Ordering::Relaxed) == 0
            && worker::current().is_some_and(|worker| ptr::eq(worker, &self.workers()[0]));
        if !alone {
            self.wake_one(call);
        }
    }

    /// Returns the barrier between adding work and looking for parked workers. In a runtime of one
    /// worker, other threads add work so rarely that they pay for it, and not each park.
    pub(crate) fn idle_barrier(&self) -> Barriers {
        if self.worker_count() > 1 { self.barriers } else { Barriers::Fences }
    }

    pub(crate) fn wake_one(&self, _: InCall<'_>) {
        let on_idle_core = |worker: usize| self.all_workers()[worker].has_core_alone();
        while let Some(index) = self.idle.pick_one(&self.idle_barrier(), on_idle_core) {
            let picked = &self.all_workers()[index];
            // A worker that stands by since it parked sleeps on, out of the set.
            if picked.is_active() {
                return picked.unpark_picked(worker::current());
            }
        }
    }

    /// Makes the first `count` workers active. Only for the monitor.
    pub(crate) fn set_active(&self, call: InCall<'_>, count: usize) {
        let mut leaves = false;
        for (index, worker) in self.workers().iter().enumerate() {
            let active = index < count;
            if worker.active.swap(active, Ordering::Relaxed) == active {
                continue;
            }
            match active {
                true => {
                    worker.unpark_for(&Announcement::of_changes());
                    worker.recall();
                }
                false => leaves = true,
            }
        }
        if leaves {
            // For the fibers that lie in queues of a worker that sleeps from now on.
            self.wake_one(call);
        }
    }

    /// Chooses the worker for a fiber that `worker` is about to start.
    #[inline]
    pub(crate) fn place_start(&self, worker: &Worker) -> place::StartPlace {
        if self.worker_count() == 1 { place::StartPlace::Here } else { worker.place_start() }
    }
}
