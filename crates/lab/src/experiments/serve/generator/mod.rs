//! The load: one thread that asks by many connections, and checks every byte that comes back.
//!
//! It never sleeps while there is something to wait for, so that the server does not pay for waking it
//! and what has come is seen at once; and it counts how long it had nothing to do.

mod arrivals;
mod connection;

use std::fs::File;
use std::time::Duration;

use daiko_sys::clock;

use self::arrivals::arrivals;
use self::connection::Connection;
use super::script::Scripts;
use crate::kit::epoll::Epoll;
use crate::kit::{Failure, Latencies, OrFailure};

/// Longer than a server that goes on lets anybody wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// A look at connections takes a tenth of this at most: who is longer at it was not running.
const STALL: Duration = Duration::from_millis(1);
/// More than a server sends by one connection before it is asked for more.
const BUFFER: usize = 16 << 10;

const REFUSED: &str = "the kernel does not watch connections";
/// Connections that are handled before the next look at the clock.
const MOST_AT_ONCE: usize = 16;
/// Each is told once.
const CHANGES: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// Connections to a server, and what is under way by them.
pub(super) struct Generator<'a> {
    scripts: &'a Scripts,
    connections: Vec<Connection>,
    epoll: Epoll,
    buffer: Box<[u8]>,
    /// Which were answered at the last look.
    answered: Vec<Answered>,
    /// Scripts that were asked and are not answered to their end.
    outstanding: usize,
}

/// A script that was answered.
struct Answered {
    connection: usize,
    due_ns: u64,
}

/// What a server did when it was asked as fast as it answers.
#[derive(Debug)]
pub(super) struct Closed {
    /// Requests answered in time.
    pub(super) requests: u64,
    pub(super) elapsed_ns: u64,
    /// Of that, how long the generator had something to do.
    pub(super) busy_ns: u64,
    /// CPU time that the server has used meanwhile.
    pub(super) server_cpu_ns: u64,
    /// Answers to the connection that got fewest, as a part of the mean.
    pub(super) share: f64,
}

/// What a server did when it was asked at times that did not depend on it.
pub(super) struct Open {
    pub(super) latencies: Latencies,
    pub(super) elapsed_ns: u64,
    /// Of that, how long the generator stood still, as other threads had its CPU or the machine paused.
    pub(super) stalled_ns: u64,
}

impl Closed {
    /// Requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

impl<'a> Generator<'a> {
    /// One without connections.
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

    /// Adds a connection, which must not block.
    pub(super) fn add(&mut self, socket: File) -> Result<(), Failure> {
        let index = self.connections.len();
        self.epoll.add(&socket, CHANGES, index).or_limit(REFUSED)?;
        self.connections.push(Connection::new(socket, index, self.scripts));
        Ok(())
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Asks one script by each connection from number `first` on, all at once, until all are answered.
    pub(super) fn greet(&mut self, first: usize) -> Result<(), Failure> {
        (first..self.len()).try_for_each(|index| self.ask(index, clock::monotonic_ns()))?;
        self.drain()
    }

    /// Asks by each connection whenever it has an answer, for so long from when all have begun;
    /// `cpu_ns` tells how much CPU time the server has used.
    pub(super) fn closed(
        &mut self,
        window: Duration,
        cpu_ns: impl Fn() -> u64,
    ) -> Result<Closed, Failure> {
        self.begin()?;
        let (start, cpu_before) = (clock::monotonic_ns(), cpu_ns());
        let (mut now, mut patience) = (start, Patience::new(start));
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

    /// Asks by each connection, those that are answered meanwhile again.
    fn begin(&mut self) -> Result<(), Failure> {
        for index in 0..self.len() {
            let now = clock::monotonic_ns();
            self.ask(index, now)?;
            self.look()?;
            self.ask_again(now)?;
        }
        Ok(())
    }

    /// Asks `rate` scripts per second for so long, at times that do not depend on answers. A latency is from
    /// when a script was *due*, however late it was sent, until the last of its replies has come.
    pub(super) fn open(&mut self, rate: f64, window: Duration) -> Result<Open, Failure> {
        let mut arrivals = arrivals(window, rate, self.len()).peekable();
        let (mut latencies, mut stalled_ns) = (Latencies::default(), 0);
        let start = clock::monotonic_ns();
        let (mut now, mut patience) = (start, Patience::new(start));
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

    /// Receives from connections that have changed, and sends what there is room for now.
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

    /// Waits until all that was asked is answered.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut patience = Patience::new(clock::monotonic_ns());
        while self.outstanding > 0 {
            self.look()?;
            patience.renew(clock::monotonic_ns(), !self.answered.is_empty())?;
        }
        Ok(())
    }
}

/// How long to wait for a server that says nothing.
struct Patience {
    since_ns: u64,
}

impl Patience {
    fn new(now: u64) -> Self {
        Self { since_ns: now }
    }

    /// Begins anew if there was an answer.
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

/// What of the time between two looks nobody was looking.
fn stall_ns(between_ns: u64) -> u64 {
    if between_ns > STALL.as_nanos() as u64 { between_ns } else { 0 }
}

#[cfg(test)]
mod tests;
