//! Coroutines of may that park, and that sleep.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use may::coroutine::{self, Coroutine, JoinHandle};

use super::phases::{Phases, all_ended, sleeps};
use crate::kit::free_memory::resident_bytes;
use crate::kit::{Failure, coroutines};

/// Stacks that are there beside those of the coroutines that are counted.
const OTHERS: usize = 10;

/// The count of coroutines that have come to a point, and the one to wake when all have. It does
/// not yield meanwhile: a worker looks for new coroutines only once no other is ready.
struct Roll {
    count: AtomicUsize,
    all: usize,
    waiter: Coroutine,
}

impl Roll {
    fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), all, waiter: coroutine::current() })
    }

    fn answer(&self) {
        // Relaxed: all are on one worker.
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.all {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.count.load(Ordering::Relaxed) < self.all {
            coroutine::park();
        }
    }
}

pub(super) fn parked(threads: usize) -> Result<Phases, Failure> {
    coroutines::configure(1, Some(threads + OTHERS));
    coroutines::run(move || {
        let mut phases = Phases::default();
        let begin = Instant::now();
        let [suspended, ended] = [(); 2].map(|()| Roll::new(threads));
        let started: Vec<JoinHandle<()>> = (0..threads)
            .map(|_| {
                let [suspended, ended] = [&suspended, &ended].map(Arc::clone);
                may::go!(move || {
                    suspended.answer();
                    coroutine::park();
                    ended.answer();
                })
            })
            .collect();
        suspended.wait();
        phases.start = begin.elapsed();
        phases.resident = resident_bytes(process::id())?;

        let begin = Instant::now();
        started.iter().for_each(|each| each.coroutine().unpark());
        ended.wait();
        let mut left = &started[..];
        while !all_ended(&mut left, JoinHandle::is_done) {
            coroutine::yield_now();
        }
        phases.wake = begin.elapsed();

        let begin = Instant::now();
        started.into_iter().try_for_each(coroutines::join)?;
        phases.join = begin.elapsed();
        Ok(phases)
    })
}

pub(super) fn asleep(threads: usize) -> Result<(), Failure> {
    coroutines::configure(1, Some(threads + OTHERS));
    coroutines::run(move || {
        let started: Vec<JoinHandle<()>> =
            sleeps(threads).map(|length| may::go!(move || coroutine::sleep(length))).collect();
        started.into_iter().try_for_each(coroutines::join)
    })
}
