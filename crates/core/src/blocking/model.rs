//! A worker and a thread that makes its calls, which dies at each of its steps; then a successor.

use std::cell::Cell;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{bounded, dies_at_each_step, spawn};

const JOBS: usize = 2;

struct Shared {
    ledger: JobLedger<usize>,
    jobs: [Job<usize>; JOBS],
    /// The counts in the waiter's frame that each call borrows: of begun and of ended calls.
    frames: [UnsafeCell<[u32; 2]>; JOBS],
    /// Number of times that the worker has learned of each job's end.
    ended: [UnsafeCell<u32>; JOBS],
}

// SAFETY: the model checks that the protocol gives each frame to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Shared {
            ledger: JobLedger::new(),
            jobs: std::array::from_fn(Job::new),
            frames: std::array::from_fn(|_| UnsafeCell::new([0; 2])),
            ended: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn frame(&self, job: usize) -> [u32; 2] {
        // SAFETY: loom checks that no other thread touches it.
        self.frames[job].with(|frame| unsafe { *frame })
    }

    fn ask(&self, job: usize) {
        self.frames[job].with_mut(|_| ());
        // SAFETY: each is asked for once, and outlives the model.
        let _ = unsafe { self.ledger.ask(&Tester(1), NonNull::from(&self.jobs[job])) };
    }

    fn work(&self) {
        for job in self.ledger.asked() {
            // SAFETY: it outlives the model.
            let number = *unsafe { job.as_ref() }.payload();
            // SAFETY: as above.
            unsafe { job.as_ref() }.run(|_| {
                // SAFETY: loom checks that no other thread touches it.
                self.frames[number].with_mut(|frame| unsafe { (*frame)[0] += 1 });
                // A step, before which the thread may die.
                let _ = self.ledger.is_closed();
                // SAFETY: as above.
                self.frames[number].with_mut(|frame| unsafe { (*frame)[1] += 1 });
            });
            // SAFETY: it was taken, and is not used any more.
            unsafe { self.ledger.tell(job) };
        }
    }

    fn end(&self, job: NonNull<Job<usize>>) {
        // SAFETY: it outlives the model.
        let job = unsafe { job.as_ref() };
        let number = *job.payload();
        // SAFETY: under the lock.
        self.ended[number].with_mut(|ended| unsafe { *ended += 1 });
        let [begun, over] = self.frame(number);
        assert!(begun <= 1, "made twice");
        // A thread that died behind the call may not have reported it.
        assert!(over == 1 || job.is_lost(), "told of as it is not");
    }

    fn take_over(&self) {
        if self.ledger.has_news() {
            self.ledger.take_over(&Tester(1), |job| self.end(job));
        }
    }

    fn assert_all_have_ended(&self) {
        for ended in &self.ended {
            // SAFETY: under the lock, or alone.
            assert_eq!(ended.with(|ended| unsafe { *ended }), 1);
        }
        assert!(self.ledger.oldest().is_none());
    }
}

#[test]
fn each_call_is_made_by_one_of_two_threads_and_told_of_once() {
    bounded(2, || {
        let shared = Shared::new();
        shared.ask(0);
        let threads = [(); 2].map(|()| spawn(&shared, Shared::work));
        shared.ask(1);
        shared.take_over();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        shared.work();
        shared.take_over();
        shared.assert_all_have_ended();
    });
}

#[test]
fn a_call_is_told_of_once_by_the_worker_or_in_its_stead() {
    bounded(2, || {
        let shared = Shared::new();
        shared.ask(0);
        let thread = spawn(&shared, Shared::work);
        let monitor = spawn(&shared, |shared| {
            shared.ledger.try_take_over(&Tester(2), |job| shared.end(job));
        });
        shared.ask(1);
        shared.take_over();
        thread.join().unwrap();
        monitor.join().unwrap();
        shared.work();
        shared.take_over();
        shared.assert_all_have_ended();
    });
}

#[test]
fn a_thread_that_dies_loses_no_call_but_the_one_that_it_had_begun() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        shared.ask(0);
        let dies = death.clone();
        let victim = spawn(&shared, move |shared: &Shared| dies.of(|| shared.work()));
        shared.ask(1);
        shared.take_over();
        let _ = victim.join().unwrap();
        shared.ledger.close();
        // The successor comes before the worker goes on.
        let successor = spawn(&shared, Shared::work);
        shared.take_over();
        // SAFETY: the victim is dead; the successor gets no job while the ledger is closed.
        unsafe { shared.ledger.settle(&Tester(1), |job| shared.end(job)) };
        successor.join().unwrap();
        shared.work();
        shared.take_over();
        shared.assert_all_have_ended();
    });
}

#[test]
fn a_death_in_a_call_of_the_runtime_is_seen() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        shared.ask(0);
        let dies = death.clone();
        let victim = spawn(&shared, move |shared: &Shared| {
            let in_call = Cell::new(false);
            let _ = dies.of(|| {
                for job in shared.ledger.asked() {
                    // SAFETY: it outlives the model.
                    unsafe { job.as_ref() }.run(|exec_mode| {
                        assert!(exec_mode.enter(false));
                        in_call.set(true);
                        assert!(exec_mode.leave());
                        in_call.set(false);
                    });
                }
            });
            in_call.get()
        });
        if victim.join().unwrap() {
            // SAFETY: the only thread that was this contender is dead.
            assert!(unsafe { shared.ledger.died_in_a_call(&Tester(3), Tester(1).id()) });
        }
    });
}

#[test]
fn a_death_in_any_step_of_the_list_is_seen() {
    dies_at_each_step(2, |death| {
        let shared = Arc::new((JobLedger::new(), [0, 1, 2, 3].map(Job::new)));
        let (ledger, jobs) = &*shared;
        // SAFETY: each is asked for once, and outlives the model.
        let ask = |job: &Job<usize>| unsafe { ledger.ask(&Tester(1), NonNull::from(job)) };
        let _ = [0, 1, 2].map(|job: usize| ask(&jobs[job]));
        let _ = ledger.asked();
        jobs[1].state.store(RUNNING, Ordering::Relaxed);
        jobs[1].exec_mode.resume();
        assert!(jobs[1].exec_mode.enter(false));
        for over in [2, 0] {
            // SAFETY: taken, and not used any more.
            unsafe { ledger.tell(NonNull::from(&jobs[over])) };
        }
        let dies = death.clone();
        let worker = spawn(&shared, move |(ledger, jobs)| {
            dies.of(|| {
                // SAFETY: as above.
                let _ = unsafe { ledger.ask(&Tester(1), NonNull::from(&jobs[3])) };
                ledger.take_over(&Tester(1), |_| ());
            })
        });
        let _ = worker.join().unwrap();
        // SAFETY: the only thread that was this contender is dead.
        assert!(unsafe { ledger.died_in_a_call(&Tester(3), Tester(1).id()) });
    });
}
