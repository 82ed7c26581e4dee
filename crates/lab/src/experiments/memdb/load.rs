//! The load: one thread that gives requests to sessions, and sees their ends.

use std::collections::VecDeque;
use std::time::Duration;

use daiko_sys::clock;

use crate::kit::arrivals::arrivals;
use crate::kit::{Failure, Latencies};

/// Transactions per second while latencies are measured.
pub(super) const LOAD_PER_SECOND: f64 = 5000.0;
/// Longer than any wait for a running program.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threshold of a stall, as of the experiment `serve`.
const STALL: Duration = Duration::from_millis(1);

/// The way to sessions.
pub(super) trait Transport {
    /// The number of sessions.
    fn len(&self) -> usize;

    /// Gives a request to a session.
    fn ask(&mut self, session: usize) -> Result<(), Failure>;

    /// Appends the sessions that have answered since, once for each answer. Never waits.
    fn look(&mut self, answered: &mut Vec<usize>) -> Result<(), Failure>;
}

/// Sessions under load.
pub(super) struct Load<T> {
    transport: T,
    /// The due times of the requests of each session that are under way, in order.
    due: Vec<VecDeque<u64>>,
    /// The sessions that have answered at the last look.
    answered: Vec<usize>,
    outstanding: usize,
}

/// Measurement of sessions that get a request as soon as they have answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedLoad {
    pub(super) transactions: u64,
    pub(super) elapsed_ns: u64,
    /// CPU time of the program during that time.
    pub(super) cpu_ns: u64,
}

/// Measurement of sessions that get requests at times that do not depend on them.
pub(super) struct OpenLoad {
    pub(super) latencies: Latencies,
    pub(super) elapsed_ns: u64,
    /// Part of `elapsed_ns` in which the load did not run.
    pub(super) stalled_ns: u64,
}

impl<T: Transport> Load<T> {
    pub(super) fn new(transport: T) -> Self {
        let due = (0..transport.len()).map(|_| VecDeque::new()).collect();
        Self { transport, due, answered: Vec::new(), outstanding: 0 }
    }

    /// Gives each session a request whenever it has answered, for the length of `window` after all
    /// have begun.
    pub(super) fn closed(
        &mut self,
        window: Duration,
        cpu_ns: impl Fn() -> u64,
    ) -> Result<ClosedLoad, Failure> {
        for session in 0..self.due.len() {
            self.ask(session, clock::monotonic_ns())?;
        }
        let (start, cpu_before) = (clock::monotonic_ns(), cpu_ns());
        let (mut now, mut seen, mut transactions) = (start, start, 0);
        while now - start < window.as_nanos() as u64 {
            self.look()?;
            now = clock::monotonic_ns();
            transactions += self.answered.len() as u64;
            seen = patient(now, seen, !self.answered.is_empty())?;
            for index in 0..self.answered.len() {
                let session = self.answered[index];
                self.due[session].pop_front();
                self.ask(session, now)?;
            }
        }
        let cpu_ns = cpu_ns().saturating_sub(cpu_before);
        self.drain()?;
        Ok(ClosedLoad { transactions, elapsed_ns: now - start, cpu_ns })
    }

    /// Gives `rate` requests per second to random sessions, for the length of `window`, whether or
    /// not earlier requests are answered. A latency is the time from when a request was *due*.
    pub(super) fn open(&mut self, rate: f64, window: Duration) -> Result<OpenLoad, Failure> {
        let mut arrivals = arrivals(window, rate, self.due.len()).peekable();
        let (mut latencies, mut stalled_ns) = (Latencies::default(), 0);
        let start = clock::monotonic_ns();
        let (mut now, mut seen) = (start, start);
        while arrivals.peek().is_some() || self.outstanding > 0 {
            while let Some(next) = arrivals.next_if(|next| next.due_ns <= now - start) {
                self.ask(next.connection, start + next.due_ns)?;
            }
            self.look()?;
            let before = now;
            now = clock::monotonic_ns();
            let between = now - before;
            stalled_ns += if between > STALL.as_nanos() as u64 { between } else { 0 };
            seen = patient(now, seen, self.outstanding == 0 || !self.answered.is_empty())?;
            for session in &self.answered {
                let due = self.due[*session].pop_front().unwrap_or(now);
                latencies.record(now.saturating_sub(due));
            }
        }
        Ok(OpenLoad { latencies, elapsed_ns: now - start, stalled_ns })
    }

    /// Waits until all requests are answered.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut seen = clock::monotonic_ns();
        while self.outstanding > 0 {
            self.look()?;
            seen = patient(clock::monotonic_ns(), seen, !self.answered.is_empty())?;
            for session in &self.answered {
                self.due[*session].pop_front();
            }
        }
        Ok(())
    }

    fn ask(&mut self, session: usize, due_ns: u64) -> Result<(), Failure> {
        self.outstanding += 1;
        self.due[session].push_back(due_ns);
        self.transport.ask(session)
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.answered.clear();
        self.transport.look(&mut self.answered)?;
        // Each answer is to one request.
        let outstanding = self.outstanding.checked_sub(self.answered.len());
        let more = || Failure::Broken("more answers than requests".into());
        self.outstanding = outstanding.ok_or_else(more)?;
        Ok(())
    }
}

/// Returns the time of the last answer, unless the wait for the next one takes too long.
fn patient(now: u64, seen: u64, is_answered: bool) -> Result<u64, Failure> {
    if is_answered {
        return Ok(now);
    }
    if now - seen > PATIENCE.as_nanos() as u64 {
        let seconds = PATIENCE.as_secs();
        return Err(Failure::Broken(format!("no session has answered for {seconds} s")));
    }
    Ok(seen)
}
