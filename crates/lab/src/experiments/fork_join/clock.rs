//! The clock of a work, and its memory.

use std::fs;
use std::time::{Duration, Instant};

use daiko_sys::limits;

use super::work::Work;
use crate::kit::{Effort, Failure, Reading, Sample, Unit};

/// Times the rounds of a work after the first, and the memory of all of them.
pub(super) struct WorkClock {
    pub(super) effort: Effort,
    before_kib: u64,
    /// Beginning of the first measured round.
    start: Option<Instant>,
    pub(super) done: u64,
    pub(super) elapsed: Duration,
    /// Growth in bytes, if the work ran in another process.
    pub(super) grown: Option<u64>,
}

impl WorkClock {
    pub(super) fn new(effort: Effort) -> Self {
        // Fails on kernels without the file; the peak is then that of the whole process.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let before_kib = status_kib("VmRSS");
        Self { effort, before_kib, start: None, done: 0, elapsed: Duration::ZERO, grown: None }
    }

    /// Takes the result of a round. Returns true if another one is to be run.
    pub(super) fn is_due(&mut self, work: Work, result: u64) -> Result<bool, Failure> {
        work.check(result)?;
        match self.start {
            None => self.start = Some(Instant::now()),
            Some(start) => {
                self.elapsed = start.elapsed();
                self.done += 1;
            }
        }
        Ok(self.done < self.effort.rounds && (self.done == 0 || self.elapsed < self.effort.limit))
    }

    pub(super) fn sample(&self) -> Result<Sample, Failure> {
        let own = || status_kib("VmHWM").saturating_sub(self.before_kib) << 10;
        let grown = self.grown.unwrap_or_else(own);
        let mut sample = Sample::timed(self.done, self.done.max(1), self.elapsed);
        sample.readings.push(Reading::stat(Unit::Bytes, "peak-memory", grown as f64));
        Ok(sample)
    }
}

fn status_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    limits::kib_field(&status, field).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_a_failure() {
        let mut clock = WorkClock::new(Effort { rounds: 1, limit: Duration::ZERO });
        assert_eq!(clock.is_due(Work::Fib24, 46_368), Ok(true), "the first round is not measured");
        assert_eq!(clock.is_due(Work::Fib24, 46_368), Ok(false));
        assert!(clock.is_due(Work::Fib24, 46_367).is_err());
    }
}
