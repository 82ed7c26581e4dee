//! The load: one thread that sends requests on many connections, and checks every byte of the
//! replies.
//!
//! It never sleeps while it waits for a reply. The server therefore does not pay for waking it, and
//! replies are seen at once. It measures how long it had no work.

mod connection;

use std::fs::File;
use std::time::Duration;

use daiko_sys::clock;

use self::connection::Connection;
use super::script::Scripts;
use crate::kit::arrivals::arrivals;
use crate::kit::epoll::Epoll;
use crate::kit::{Failure, Latencies, OrFailure};

/// Longer than any wait for a running server.
const PATIENCE: Duration = Duration::from_secs(5);
/// Threshold of a stall. One look at the connections takes a tenth of this at most; if it took
/// longer, the thread was not running.
const STALL: Duration = Duration::from_millis(1);
/// More bytes than a server sends on one connection before it gets more requests.
const BUFFER: usize = 16 << 10;

const REFUSED: &str = "the kernel does not watch connections";
/// Connections that are handled between two clock readings.
const MOST_AT_ONCE: usize = 16;
/// Events of a connection, each reported once.
const CHANGES: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// Connections to a server, and their requests in flight.
pub(super) struct Generator<'a> {
    scripts: &'a Scripts,
    connections: Vec<Connection>,
    epoll: Epoll,
    buffer: Box<[u8]>,
    /// Scripts that were answered at the last look.
    answered: Vec<Answered>,
    /// Scripts that were requested and are not completely answered.
    outstanding: usize,
}

/// A script that was answered.
struct Answered {
    connection: usize,
    due_ns: u64,
}

/// Measurement of a server that gets requests as fast as it answers.
#[derive(Debug)]
pub(super) struct Closed {
    /// Requests answered within the window.
    pub(super) requests: u64,
    pub(super) elapsed_ns: u64,
    /// Part of `elapsed_ns` in which the generator had work.
    pub(super) busy_ns: u64,
    /// CPU time of the server during that time.
    pub(super) server_cpu_ns: u64,
    /// Answers to the connection that got the fewest, relative to the mean.
    pub(super) share: f64,
}

/// Measurement of a server that gets requests at times that do not depend on it.
pub(super) struct Open {
    pub(super) latencies: Latencies,
    pub(super) elapsed_ns: u64,
    /// Part of `elapsed_ns` in which the generator did not run, because other threads had its CPU
    /// or the machine paused.
    pub(super) stalled_ns: u64,
}

impl Closed {
    /// Requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

impl<'a> Generator<'a> {
    /// A generator without connections.
    pub(super) fn new(scripts: &'a Scripts) -> Result<Self, Failure> {
        Ok(Self {
            scripts,
            connections: Vec::new(),
            epoll: Epoll::new(MOST_AT_ONCE).or_limit(REFUSED)?,
            buffer: vec![0; BUFFER].into(),
            answered: Vec::new(),
            outstanding: 0,
        })
    }

    /// Adds a connection, which must be non-blocking.
    pub(super) fn add(&mut self, socket: File) -> Result<(), Failure> {
        let index = self.connections.len();
        self.epoll.add(&socket, CHANGES, index).or_limit(REFUSED)?;
        self.connections.push(Connection::new(socket, index, self.scripts));
        Ok(())
    }

    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Sends one script on each connection from number `first` on, all at once, and waits until all
    /// are answered.
    pub(super) fn greet(&mut self, first: usize) -> Result<(), Failure> {
        (first..self.len()).try_for_each(|index| self.ask(index, clock::monotonic_ns()))?;
        self.drain()
    }

    /// Sends on each connection whenever it is answered, for the length of `window` after all have
    /// begun. `cpu_ns` returns the CPU time that the server has used.
    pub(super) fn closed(
        &mut self,
        window: Duration,
        cpu_ns: impl Fn() -> u64,
    ) -> Result<Closed, Failure> {
        self.begin()?;
        let (start, cpu_before) = (clock::monotonic_ns(), cpu_ns());
        let (mut now, mut patience) = (start, ServerTimeout::new(start));
        let (mut scripts, mut idle_ns) = (vec![0_u64; self.len()], 0);
        while now - start < window.as_nanos() as u64 {
            let before = now;
            self.look()?;
            self.ask_again(now)?;
            now = clock::monotonic_ns();
            self.answered.iter().for_each(|answered| scripts[answered.connection] += 1);
            idle_ns += if self.answered.is_empty() { now - before } else { 0 };
            patience.renew(now, !self.answered.is_empty())?;
        }
        let server_cpu_ns = cpu_ns().saturating_sub(cpu_before);
        self.drain()?;
        let (all, elapsed_ns) = (scripts.iter().sum::<u64>(), now - start);
        let fewest = scripts.iter().min().copied().unwrap_or_default();
        let share = (fewest * scripts.len() as u64) as f64 / all.max(1) as f64;
        let requests = all * self.scripts.pipeline as u64;
        Ok(Closed { requests, elapsed_ns, busy_ns: elapsed_ns - idle_ns, server_cpu_ns, share })
    }

    /// Sends on each connection, and again on those that are answered in the process.
    fn begin(&mut self) -> Result<(), Failure> {
        for index in 0..self.len() {
            let now = clock::monotonic_ns();
            self.ask(index, now)?;
            self.look()?;
            self.ask_again(now)?;
        }
        Ok(())
    }

    /// Sends `rate` scripts per second for the length of `window`, at times that do not depend on
    /// answers. A latency is the time from when a script was *due*, however late it was sent, until
    /// its last reply has arrived.
    pub(super) fn open(&mut self, rate: f64, window: Duration) -> Result<Open, Failure> {
        let mut arrivals = arrivals(window, rate, self.len()).peekable();
        let (mut latencies, mut stalled_ns) = (Latencies::default(), 0);
        let start = clock::monotonic_ns();
        let (mut now, mut patience) = (start, ServerTimeout::new(start));
        while arrivals.peek().is_some() || self.outstanding > 0 {
            while let Some(next) = arrivals.next_if(|next| next.due_ns <= now - start) {
                self.ask(next.connection, start + next.due_ns)?;
            }
            self.look()?;
            let before = now;
            now = clock::monotonic_ns();
            for answered in &self.answered {
                latencies.record(now.saturating_sub(answered.due_ns));
            }
            stalled_ns += stall_ns(now - before);
            patience.renew(now, self.outstanding == 0 || !self.answered.is_empty())?;
        }
        Ok(Open { latencies, elapsed_ns: now - start, stalled_ns })
    }

    fn ask(&mut self, connection: usize, due_ns: u64) -> Result<(), Failure> {
        self.outstanding += 1;
        self.connections[connection].ask(due_ns, self.scripts)
    }

    fn ask_again(&mut self, now: u64) -> Result<(), Failure> {
        for answered in &self.answered {
            self.connections[answered.connection].ask(now, self.scripts)?;
        }
        self.outstanding += self.answered.len();
        Ok(())
    }

    /// Receives from connections that have changed, and sends as much as they take now.
    fn look(&mut self) -> Result<(), Failure> {
        let Self { scripts, connections, epoll, buffer, answered, outstanding } = self;
        answered.clear();
        for index in epoll.wait(0).or_limit(REFUSED)? {
            let connection = &mut connections[index];
            let note = |due_ns| answered.push(Answered { connection: index, due_ns });
            connection.receive(buffer, scripts, note)?;
            connection.flush(scripts)?;
        }
        *outstanding -= answered.len();
        Ok(())
    }

    /// Waits until all requests are answered.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut patience = ServerTimeout::new(clock::monotonic_ns());
        while self.outstanding > 0 {
            self.look()?;
            patience.renew(clock::monotonic_ns(), !self.answered.is_empty())?;
        }
        Ok(())
    }
}

/// Limit of the wait for a silent server.
struct ServerTimeout {
    since_ns: u64,
}

impl ServerTimeout {
    fn new(now: u64) -> Self {
        Self { since_ns: now }
    }

    /// Restarts the wait if there was an answer.
    fn renew(&mut self, now: u64, was_answered: bool) -> Result<(), Failure> {
        if was_answered {
            self.since_ns = now;
        }
        if now - self.since_ns > PATIENCE.as_nanos() as u64 {
            let seconds = PATIENCE.as_secs();
            return Err(Failure::Broken(format!("the server has not answered for {seconds} s")));
        }
        Ok(())
    }
}

/// The time between two looks if it counts as a stall, else 0.
fn stall_ns(between_ns: u64) -> u64 {
    if between_ns > STALL.as_nanos() as u64 { between_ns } else { 0 }
}

#[cfg(test)]
mod tests;
