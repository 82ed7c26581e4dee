//! The senders: a thread on each CPU, each with a fixed share of the flows.
//!
//! A network card distributes flows over CPUs by a hash and interrupts each CPU for its own flows.
//! On a loopback, the sending CPU does the work of that interrupt, so a thread on each CPU
//! represents a queue of the card. If packets are steered, that CPU only passes them on to the CPU
//! where they are read.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use daiko_sys::clock;
use daiko_sys::thread::set_timer_slack_ns;

use super::board::Board;
use super::flow::{self, Times};
use crate::kit::{Failure, SplitMix64, host};

/// Messages of a flow that may be in flight when it is sent to at full speed.
const WINDOW: u64 = 16;
/// Pause of a sender when its receivers are this far behind.
const PAUSE: Duration = Duration::from_micros(50);
/// Longer than running receivers ever take to receive a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// Gives every method and every run the same messages at the same times.
const SEED: u64 = 0xf0_110;

/// All senders.
pub(super) struct Senders(Vec<FlowSender>);

/// A CPU's sender and its share of the flows.
struct FlowSender {
    cpu: usize,
    flows: Vec<Flow>,
    random: SplitMix64,
}

struct Flow {
    number: usize,
    socket: TcpStream,
    sent: u64,
}

impl Senders {
    /// Creates a sender on each of `cpus`, and assigns the flows to them round-robin.
    pub(super) fn new(cpus: &[usize], sockets: Vec<TcpStream>) -> io::Result<Self> {
        let mut senders: Vec<FlowSender> = (0..).zip(cpus).map(FlowSender::new).collect();
        let count = senders.len();
        for (number, socket) in sockets.into_iter().enumerate() {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(PATIENCE))?;
            senders[number % count].flows.push(Flow { number, socket, sent: 0 });
        }
        senders.retain(|sender| !sender.flows.is_empty());
        Ok(Self(senders))
    }

    /// Sends one message on each flow, and waits until all are received.
    pub(super) fn greet(&mut self, board: &Board) -> Result<(), Failure> {
        self.each(|sender| sender.flows.iter_mut().try_for_each(|flow| flow.send(None)))?;
        self.drain(board)
    }

    /// Sends as fast as messages are received, for the length of `window`. Returns the number of
    /// received messages and the elapsed nanoseconds.
    pub(super) fn flood(&mut self, board: &Board, window: Duration) -> Result<(u64, u64), Failure> {
        let over = AtomicBool::new(false);
        let flood = |sender: &mut FlowSender| {
            // Relaxed: no other data is read on the strength of this flag.
            while !over.load(Ordering::Relaxed) {
                if sender.round(board)? == 0 {
                    thread::sleep(PAUSE);
                }
            }
            Ok(())
        };
        let count = || {
            let (start, before) = (clock::monotonic_ns(), board.messages());
            thread::sleep(window);
            over.store(true, Ordering::Relaxed);
            (board.messages() - before, clock::monotonic_ns() - start)
        };
        let counted = self.each_beside(flood, count)?;
        self.drain(board)?;
        Ok(counted)
    }

    /// Sends `rate` messages per second in all, at times that do not depend on the receivers, each
    /// on a random flow of its sender.
    pub(super) fn open(
        &mut self,
        board: &Board,
        rate: f64,
        window: Duration,
    ) -> Result<(), Failure> {
        let rate = rate / self.0.len() as f64;
        let start = clock::monotonic_ns();
        let end = start + window.as_nanos() as u64;
        self.each(|sender| sender.on_time(rate, start, end))?;
        self.drain(board)
    }

    /// Waits until all sent messages are received.
    pub(super) fn drain(&self, board: &Board) -> Result<(), Failure> {
        let flows = || self.0.iter().flat_map(|sender| &sender.flows);
        let sent: u64 = flows().map(|flow| flow.sent).sum();
        let received = || flows().map(|flow| board.received(flow.number)).sum::<u64>();
        let (mut last, mut since) = (received(), clock::monotonic_ns());
        while last < sent {
            thread::sleep(PAUSE);
            let now = received();
            if now > last {
                (last, since) = (now, clock::monotonic_ns());
            } else if clock::monotonic_ns() - since > PATIENCE.as_nanos() as u64 {
                return Err(stuck());
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        body: impl Fn(&mut FlowSender) -> io::Result<()> + Sync,
    ) -> Result<(), Failure> {
        self.each_beside(body, || ())
    }

    /// Calls `body` for each sender, on a thread bound to its CPU, and calls `beside` at the same
    /// time.
    fn each_beside<T>(
        &mut self,
        body: impl Fn(&mut FlowSender) -> io::Result<()> + Sync,
        beside: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let body = &body;
        thread::scope(|scope| {
            let start = |sender| {
                let bound = move || {
                    let sender: &mut FlowSender = sender;
                    bind(sender.cpu)?;
                    body(sender).map_err(|error| failed(&error))
                };
                thread::Builder::new().spawn_scoped(scope, bound)
            };
            let threads: io::Result<Vec<_>> = self.0.iter_mut().map(start).collect();
            let threads = threads.map_err(|error| failed(&error))?;
            let result = beside();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
            Ok(result)
        })
    }
}

fn bind(cpu: usize) -> Result<(), Failure> {
    let bound = host::bind(cpu).and_then(|()| set_timer_slack_ns(1));
    bound.map_err(|error| {
        let line =
            "it has gone, or is not allowed any more: leave CPUs alone while they are measured";
        Failure::Broken(format!("cannot send on CPU {cpu}: {error}; {line}"))
    })
}

fn failed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock => stuck(),
        _ => Failure::Broken(format!("cannot send: {error}")),
    }
}

fn stuck() -> Failure {
    Failure::Broken(format!("nothing was received for {} s", PATIENCE.as_secs()))
}

impl FlowSender {
    fn new((index, cpu): (u64, &usize)) -> Self {
        Self { cpu: *cpu, flows: Vec::new(), random: SplitMix64(SEED + index) }
    }

    /// Sends a message on each flow with room in its window. Returns their number.
    fn round(&mut self, board: &Board) -> io::Result<usize> {
        let mut sent = 0;
        for flow in &mut self.flows {
            if flow.sent - board.received(flow.number) < WINDOW {
                flow.send(None)?;
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Sends at the times of a Poisson process from `start` to `end`.
    fn on_time(&mut self, rate: f64, start: u64, end: u64) -> io::Result<()> {
        let mut due_ns = start as f64;
        loop {
            due_ns -= self.random.unit().ln() * 1e9 / rate;
            let due = due_ns as u64;
            if due >= end {
                return Ok(());
            }
            let now = sleep_until(due);
            let flow = self.random.below(self.flows.len() as u64) as usize;
            self.flows[flow].send(Some(Times { due_ns: due, sent_ns: now }))?;
        }
    }
}

impl Flow {
    fn send(&mut self, times: Option<Times>) -> io::Result<()> {
        self.socket.write_all(&flow::message(self.number, self.sent, times))?;
        self.sent += 1;
        Ok(())
    }
}

/// Sleeps until `due_ns` unless it has passed. Returns the current time.
fn sleep_until(due_ns: u64) -> u64 {
    loop {
        let now = clock::monotonic_ns();
        if now >= due_ns {
            return now;
        }
        thread::sleep(Duration::from_nanos(due_ns - now));
    }
}
