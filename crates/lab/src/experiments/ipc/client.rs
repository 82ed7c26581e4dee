//! The work of a client, common to all methods.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use daiko_sys::clock::monotonic_ns;
use daiko_sys::futex::{self, Scope};

use crate::kit::{Histogram, WrongDatum, Zeroed};

/// Length of a batch of calls. The clock is read once per batch, which takes a thousandth of this
/// time.
const BATCH_NS: u64 = 25_000;
const MOST_CALLS_A_BATCH: u64 = 1 << 16;
/// More batches than fit into a window. Further batches only count as calls.
const MOST_BATCHES: usize = 8192;

/// Replaces a question by the server's answer.
#[inline]
pub(super) fn answer<const WORDS: usize>(message: &mut [u64; WORDS]) {
    message.iter_mut().for_each(|word| *word = word.wrapping_add(1));
}

/// A point at which all clients wait for each other.
#[repr(C, align(64))]
pub(super) struct Gate {
    arrived: AtomicU32,
    open: AtomicU32,
    /// Time at which the gate opened; written before `open`.
    opened_at: AtomicU64,
}

// SAFETY: all fields are atomics without pointers, for which zero is a valid value.
unsafe impl Zeroed for Gate {}

impl Gate {
    /// Waits until `clients` have arrived. Returns the arrival time of the last one.
    fn pass(&self, clients: usize) -> u64 {
        // AcqRel: the last client to arrive collects the writes of all earlier clients, and
        // publishes them by `open`.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == clients as u32 {
            // Relaxed, like the load below: published by `open`.
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

/// Records of a client for the process that forked it. All accesses are relaxed: the records are
/// read when the client has ended, or behind a gate.
#[repr(C)]
pub(super) struct ClientTally {
    /// Calls made in batches, and the end of the last batch.
    pub(super) calls: AtomicU64,
    pub(super) elapsed_ns: AtomicU64,
    /// Number of calls in a batch that suits this client; read by all clients.
    fitting_batch: AtomicU64,
    /// Number of calls in a batch, and the duration of each of `batches`.
    pub(super) batch_calls: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) batch_ns: [AtomicU64; MOST_BATCHES],
    /// Latencies of calls that were made one by one.
    pub(super) latencies: Histogram,
    /// A word of an answer that was not the answer to the question.
    pub(super) wrong: WrongDatum,
}

// SAFETY: all fields are atomics without pointers, for which zero is a valid value.
unsafe impl Zeroed for ClientTally {}

impl ClientTally {
    /// Touches the tally's pages before any time is measured.
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

/// The calls of one client. All clients begin them at the same time.
pub(super) struct Calls<'a, const WORDS: usize> {
    /// Tallies of all clients, and the index of this client.
    pub(super) tallies: &'a [ClientTally],
    pub(super) client: usize,
    /// As many gates as [`GATES`].
    pub(super) gates: &'a [Gate],
    pub(super) window: Duration,
}

impl<const WORDS: usize> Calls<'_, WORDS> {
    /// Makes all calls by `call`, which replaces the question by the answer.
    ///
    /// # Errors
    /// Returns the errors of `call`, or an error for an answer to another question.
    pub(super) fn make(
        self,
        call: impl FnMut(&mut [u64; WORDS]) -> io::Result<()>,
    ) -> io::Result<()> {
        let tally = &self.tallies[self.client];
        let window = self.window.as_nanos() as u64;
        let mut caller = Caller { tally, call, number: u64::MAX };
        tally.touch();
        let until = self.pass(0) + window;
        tally.fitting_batch.store(caller.fitting_batch(until)?, Ordering::Relaxed);
        let start = self.pass(1);
        caller.in_batches(self.common_batch(), start, window)?;
        caller.singly(self.pass(2), window)
    }

    fn pass(&self, gate: usize) -> u64 {
        self.gates[gate].pass(self.tallies.len())
    }

    /// Batch size of the quickest client, so that the clock does not affect its times. It is common
    /// to all clients, so that each batch has the same weight.
    fn common_batch(&self) -> u64 {
        // Relaxed: the gate has made them visible.
        let batches = self.tallies.iter().map(|tally| tally.fitting_batch.load(Ordering::Relaxed));
        batches.max().unwrap_or(1)
    }
}

struct Caller<'a, C, const WORDS: usize> {
    tally: &'a ClientTally,
    call: C,
    number: u64,
}

impl<C: FnMut(&mut [u64; WORDS]) -> io::Result<()>, const WORDS: usize> Caller<'_, C, WORDS> {
    /// Writes a question that differs from all previous questions.
    #[inline]
    fn write_question(&mut self, message: &mut [u64; WORDS]) {
        self.number = self.number.wrapping_add(1);
        for (word, place) in message.iter_mut().zip(0..) {
            *word = self.number.wrapping_add(place);
        }
    }

    /// Checks that `message` is the answer to the last question.
    #[inline]
    fn check(&self, message: &[u64; WORDS]) -> io::Result<()> {
        let first = self.number.wrapping_add(1);
        // Looks at all words, so that the compiler compares several at once.
        let differs = |(word, place): (&u64, u64)| word ^ first.wrapping_add(place);
        match message.iter().zip(0..).fold(0, |all, word| all | differs(word)) {
            0 => Ok(()),
            _ => self.complain(first, message),
        }
    }

    #[cold]
    fn complain(&self, first: u64, message: &[u64; WORDS]) -> io::Result<()> {
        let words = message.iter().zip(0..).map(|(word, place)| (first.wrapping_add(place), *word));
        for (right, found) in words.filter(|(right, found)| right != found).take(1) {
            self.tally.wrong.note(right, found);
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    #[inline]
    fn batch(&mut self, calls: u64) -> io::Result<()> {
        let mut message = [0; WORDS];
        for _ in 0..calls {
            self.write_question(&mut message);
            (self.call)(&mut message)?;
            self.check(&message)?;
        }
        Ok(())
    }

    /// Number of calls, a power of two, that take [`BATCH_NS`], as far as the time suffices to find
    /// it.
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

    /// The faster of two batches, as other processes may have had the CPU during one of them.
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

    fn singly(&mut self, start: u64, window: u64) -> io::Result<()> {
        let (mut now, mut message) = (monotonic_ns(), [0; WORDS]);
        while now < start + window {
            self.write_question(&mut message);
            let before = monotonic_ns();
            (self.call)(&mut message)?;
            now = monotonic_ns();
            self.check(&message)?;
            self.tally.latencies.record(now - before);
        }
        Ok(())
    }
}
