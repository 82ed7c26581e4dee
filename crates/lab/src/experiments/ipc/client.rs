//! What a client does, whatever the method.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{array, io};

use daiko_sys::clock::monotonic_ns;
use daiko_sys::futex::{self, Scope};

use crate::kit::{Histogram, WrongDatum, Zeroed};

/// The clock is read once for so long a batch of calls: it takes a thousandth of it.
const BATCH_NS: u64 = 25_000;
const MOST_CALLS_A_BATCH: u64 = 1 << 16;
/// More batches than fit into a window; further ones count as calls only.
const MOST_BATCHES: usize = 8192;

/// What the server says to a question.
#[inline]
pub(super) fn answer<const WORDS: usize>(message: [u64; WORDS]) -> [u64; WORDS] {
    message.map(|word| word.wrapping_add(1))
}

/// Where all clients wait for each other.
#[repr(C, align(64))]
pub(super) struct Gate {
    arrived: AtomicU32,
    open: AtomicU32,
    /// When it opened; written before `open`.
    opened_at: AtomicU64,
}

// SAFETY: atomics without pointers, for which zero is a value.
unsafe impl Zeroed for Gate {}

impl Gate {
    /// Waits until `clients` are here; returns the time at which the last one came.
    fn pass(&self, clients: usize) -> u64 {
        // AcqRel: the last one passes on, by `open`, what all have written before.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == clients as u32 {
            // Relaxed, as below: published by `open`.
            self.opened_at.store(monotonic_ns(), Ordering::Relaxed);
            // Pairs with the Acquire below.
            self.open.store(1, Ordering::Release);
            futex::wake(&self.open, u32::MAX, Scope::Shared);
        }
        // Pairs with the Release above.
        while self.open.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.open, 0, None, Scope::Shared);
        }
        self.opened_at.load(Ordering::Relaxed)
    }
}

/// What a client writes down for whoever has forked it. All accesses are relaxed: it is read when
/// the client has ended, or behind a gate.
#[repr(C)]
pub(super) struct Tally {
    /// Caller in batches, and when the last of them ended.
    pub(super) calls: AtomicU64,
    pub(super) elapsed_ns: AtomicU64,
    /// Caller of a batch that this client would make, read by the others.
    fitting_batch: AtomicU64,
    /// Caller of a batch, and how long each of `batches` took.
    pub(super) batch_calls: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) batch_ns: [AtomicU64; MOST_BATCHES],
    /// Of calls one by one.
    pub(super) latencies: Histogram,
    /// A word of an answer that was not the one to the question.
    pub(super) wrong: WrongDatum,
}

// SAFETY: atomics without pointers, for which zero is a value.
unsafe impl Zeroed for Tally {}

impl Tally {
    /// Brings its pages in, before there is a clock.
    fn touch(&self) {
        self.latencies.clear();
        self.batch_ns.iter().for_each(|batch| batch.store(0, Ordering::Relaxed));
    }

    fn add_batch(&self, calls: u64, batch_ns: u64, elapsed_ns: u64) {
        let add = |word: &AtomicU64, value| {
            let old = word.load(Ordering::Relaxed);
            word.store(old + value, Ordering::Relaxed);
            old
        };
        add(&self.calls, calls);
        self.elapsed_ns.store(elapsed_ns, Ordering::Relaxed);
        if let Some(batch) = self.batch_ns.get(self.batches.load(Ordering::Relaxed) as usize) {
            batch.store(batch_ns, Ordering::Relaxed);
            add(&self.batches, 1);
        }
    }
}

/// How often all clients wait for each other.
pub(super) const GATES: usize = 3;

/// The calls of one client, which all clients begin at the same time.
pub(super) struct Calls<'a, const WORDS: usize> {
    /// Of all clients, and which one this is.
    pub(super) tallies: &'a [Tally],
    pub(super) client: usize,
    /// [`GATES`] of them.
    pub(super) gates: &'a [Gate],
    pub(super) window: Duration,
}

impl<const WORDS: usize> Calls<'_, WORDS> {
    /// Makes all calls by `call`, which puts the answer in place of the question.
    ///
    /// # Errors
    /// Those of `call`; an answer to another question.
    pub(super) fn make(
        self,
        call: impl FnMut(&mut [u64; WORDS]) -> io::Result<()>,
    ) -> io::Result<()> {
        let tally = &self.tallies[self.client];
        let window = self.window.as_nanos() as u64;
        let mut caller = Caller { tally, call, number: 0 };
        tally.touch();
        let until = self.pass(0) + window;
        tally.fitting_batch.store(caller.fitting_batch(until)?, Ordering::Relaxed);
        let start = self.pass(1);
        caller.in_batches(self.common_batch(), start, window)?;
        caller.one_by_one(self.pass(2), window)
    }

    fn pass(&self, gate: usize) -> u64 {
        self.gates[gate].pass(self.tallies.len())
    }

    /// That of the quickest client, so that no clock is in it; the same for all, so that each batch
    /// counts as much as any other.
    fn common_batch(&self) -> u64 {
        // Relaxed: the gate has made them visible.
        let batches = self.tallies.iter().map(|tally| tally.fitting_batch.load(Ordering::Relaxed));
        batches.max().unwrap_or(1)
    }
}

struct Caller<'a, C, const WORDS: usize> {
    tally: &'a Tally,
    call: C,
    number: u64,
}

impl<C: FnMut(&mut [u64; WORDS]) -> io::Result<()>, const WORDS: usize> Caller<'_, C, WORDS> {
    /// Asks another question than ever before, and checks the answer.
    #[inline]
    fn next(&mut self) -> io::Result<()> {
        let question = array::from_fn(|word| self.number.wrapping_add(word as u64));
        self.number = self.number.wrapping_add(1);
        let mut message = question;
        (self.call)(&mut message)?;
        let right = answer(question);
        if message == right {
            return Ok(());
        }
        let wrong = (0..WORDS).find(|&word| message[word] != right[word]).unwrap_or(0);
        self.tally.wrong.note(right[wrong], message[wrong]);
        Err(io::ErrorKind::InvalidData.into())
    }

    #[inline]
    fn batch(&mut self, calls: u64) -> io::Result<()> {
        (0..calls).try_for_each(|_| self.next())
    }

    /// As many calls as take [`BATCH_NS`], as far as it is found out in time; a power of two.
    fn fitting_batch(&mut self, until: u64) -> io::Result<u64> {
        let mut calls = 1;
        while calls < MOST_CALLS_A_BATCH
            && self.quickest_of_two(calls)? < BATCH_NS
            && monotonic_ns() < until
        {
            calls *= 2;
        }
        Ok(calls)
    }

    /// Of two, since others may have had the CPU during one of them.
    fn quickest_of_two(&mut self, calls: u64) -> io::Result<u64> {
        let mut quickest = u64::MAX;
        for _ in 0..2 {
            let start = monotonic_ns();
            self.batch(calls)?;
            quickest = quickest.min(monotonic_ns() - start);
        }
        Ok(quickest)
    }

    fn in_batches(&mut self, calls: u64, start: u64, window: u64) -> io::Result<()> {
        self.tally.batch_calls.store(calls, Ordering::Relaxed);
        let mut now = monotonic_ns();
        while now < start + window {
            let before = now;
            self.batch(calls)?;
            now = monotonic_ns();
            self.tally.add_batch(calls, now - before, now - start);
        }
        Ok(())
    }

    fn one_by_one(&mut self, start: u64, window: u64) -> io::Result<()> {
        let mut now = monotonic_ns();
        while now < start + window {
            let before = monotonic_ns();
            self.next()?;
            now = monotonic_ns();
            self.tally.latencies.record(now - before);
        }
        Ok(())
    }
}
