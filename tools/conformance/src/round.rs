//! Rounds: each runs every test once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::outcomes::Outcomes;
use crate::run::{Under, run};
use crate::suite::Test;

/// How to run tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) number: u32,
    /// The number of tests that run at the same time.
    pub(crate) jobs: usize,
    /// The time after which a test is killed.
    pub(crate) limit: Duration,
}

impl Rounds {
    /// Runs all tests in all rounds, natively or under a command. Reports progress on standard
    /// error.
    pub(crate) fn run(self, tests: &[Test], under: Option<Under<'_>>) -> Result<Outcomes, String> {
        let name = under.map_or("native".to_owned(), |under| under.workers.to_string());
        let mut outcomes = Outcomes::default();
        for number in 1..=self.number {
            let round = self.round(tests, under)?;
            eprintln!("{name}, round {number} of {}: {}", self.number, round.counts());
            for (test, results) in round.iter() {
                results.iter().for_each(|outcome| outcomes.add(test, outcome.clone()));
            }
        }
        Ok(outcomes)
    }

    fn round(self, tests: &[Test], under: Option<Under<'_>>) -> Result<Outcomes, String> {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Outcomes::default());
        let work = || {
            while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = run(test, under, self.limit)
                    .inspect_err(|_| next.store(tests.len(), Ordering::Relaxed))?;
                outcomes.lock().expect("no thread panics").add(&test.name, outcome);
            }
            Ok::<(), String>(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no thread panics"))
        })?;
        Ok(outcomes.into_inner().expect("no thread panics"))
    }
}
