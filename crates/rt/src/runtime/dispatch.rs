//! Dispatch: fibers are put in places where a worker finds them, and a worker is notified.

use std::ptr::{self, NonNull};
use std::slice;

use daiko_core::announce::Announcement;
use daiko_core::fiber::{Messages, Posted};
use daiko_core::list::Chain;
use daiko_core::place::{self, Least};

use super::barriers::Barriers;
use super::kernel::ThisThread;
use super::shared::RuntimeInner;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::ControlBlock;
use crate::worker::{self, Worker};

/// Makes these workers look for a change that the caller has made.
fn unpark(workers: &[Worker]) {
    let announced = Announcement::of_changes();
    for worker in workers {
        worker.unpark_for(&announced);
        worker.recall();
    }
}

impl RuntimeInner {
    /// Returns the worker that has the fewest fibers of those that accept fibers, `me` if it is
    /// among those.
    pub(crate) fn least_loaded(&self, me: usize) -> Option<Least> {
        let accepting = self.workers().iter().filter(|worker| worker.accepts_fibers());
        place::least(accepting.map(|worker| (worker.position(), worker.load())), me)
    }

    /// Hands an unstarted fiber to `worker`, which placement has chosen. Placement does not choose
    /// again, unless the worker is stuck before the start.
    pub(crate) fn send_placed(
        &self,
        call: InCall<'_>,
        from: Option<&Worker>,
        worker: usize,
        fiber: &ControlBlock,
    ) {
        self.send_start(call, from, worker, fiber, Messages::START | Messages::MAY_LEAVE);
    }

    /// Hands an unstarted fiber to `worker`, with `messages` that start it.
    pub(crate) fn send_start(
        &self,
        call: InCall<'_>,
        from: Option<&Worker>,
        worker: usize,
        fiber: &ControlBlock,
        messages: Messages,
    ) {
        fiber.flags.place();
        self.workers()[worker].coming.fetch_add(1, Ordering::Relaxed);
        if fiber.mail.post(messages) == Posted::Push {
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

    /// Puts a fiber there whose context has just left its own kernel thread, which calls. Once the
    /// fiber is in the queue, the thread-locals of the calling thread are those of the fiber, so
    /// that the rest touches none.
    pub(crate) fn inject_from_home(&self, fiber: &ControlBlock) {
        let call = InCall::off_fibers();
        // SAFETY: as in `inject_one`.
        unsafe { self.injector.push(ThisThread::of(call), NonNull::from(fiber)) };
        if self.idle.has_any(&self.idle_barrier()) {
            self.wake_parked_below(call, self.all_workers().len(), None);
        }
    }

    /// Puts fibers in the queue from which any worker takes them.
    pub(crate) fn inject(&self, call: InCall<'_>, fibers: Chain<ControlBlock>) {
        self.injector.push_chain(ThisThread::of(call), fibers);
    }

    /// Makes all workers look again for work.
    pub fn unpark_all(&self, _: InCall<'_>) {
        unpark(self.all_workers());
    }

    /// Makes the worker of this index look again for work.
    pub fn unpark_at(&self, _: InCall<'_>, worker: usize) {
        unpark(&self.all_workers()[worker..=worker]);
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
    #[inline]
    pub(crate) fn idle_barrier(&self) -> Barriers {
        if self.worker_count() > 1 { self.barriers } else { Barriers::Fences }
    }

    pub(crate) fn wake_one(&self, call: InCall<'_>) {
        self.wake_one_below(call, self.all_workers().len());
    }

    /// Wakes a parked worker, if there is one, because work was offered. Spare workers take none:
    /// a worker that computes is not stuck.
    #[inline]
    pub(crate) fn offer_is_available(&self, call: InCall<'_>) {
        let workers = self.worker_count();
        if workers > 1 {
            self.wake_one_below(call, workers);
        }
    }

    /// Wakes a parked worker below `end`, if there is one: mostly there is none, and this is all.
    #[inline]
    fn wake_one_below(&self, call: InCall<'_>, end: usize) {
        if self.idle.has_any(&self.idle_barrier()) {
            self.wake_parked_below(call, end, worker::current());
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_parked_below(&self, _: InCall<'_>, end: usize, from: Option<&Worker>) {
        let on_idle_core = |worker: usize| self.all_workers()[worker].has_core_alone();
        let pick = || self.idle.pick_one_below(end, &self.idle_barrier(), on_idle_core);
        while let Some(index) = pick() {
            let picked = &self.all_workers()[index];
            // A worker that stands by since it parked sleeps on, out of the set.
            if picked.is_active() {
                return picked.unpark_picked(from);
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
                true => unpark(slice::from_ref(worker)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::{Builder, Runtime};
    use daiko_sys::cpu;

    /// Its own thread looks for the change, not the host at its next visit. The monitor recalls a
    /// guest as well, but some time later.
    #[test]
    fn a_change_recalls_a_guest_from_a_busy_host() {
        let first = cpu::allowed().unwrap().iter().next().unwrap();
        let runtime = Runtime::builder().workers(2).cpus([first]).build().unwrap();
        fn parks() {
            loop {
                crate::park();
            }
        }
        let guest = runtime.spawn_with(Builder::new().on(1), parks).unwrap();
        let wakes = guest.fiber().clone();
        let host = runtime.spawn_with(Builder::new().on(0), move || {
            let shared = worker::current().unwrap().runtime();
            let is_hosted = || shared.workers()[1].hosting.is_taken();
            for _ in 0..100 {
                while !is_hosted() {
                    wakes.unpark();
                    crate::yield_now();
                }
                shared.unpark_at(Call::enter().token(), 1);
                assert!(!is_hosted());
            }
        });
        host.unwrap().join().unwrap();
    }

    #[test]
    fn a_stuck_worker_is_no_target_of_placement() {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let shared = runtime.shared();
        let least = |me| shared.least_loaded(me).map(|least| least.worker);
        assert_eq!([least(0), least(1)], [Some(0), Some(1)]);
        // The monitor releases only a worker that it has itself found to be stuck.
        shared.workers()[0].stuck.store(true, Ordering::Relaxed);
        assert_eq!([least(0), least(1)], [Some(1); 2]);
        shared.workers()[1].stuck.store(true, Ordering::Relaxed);
        assert_eq!([least(0), least(1)], [None; 2]);
        let spread = Builder::new().spread();
        assert_eq!(runtime.spawn_with(spread, || 5).unwrap().join().unwrap(), 5);
    }
}
