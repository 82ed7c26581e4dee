//! Cost of sending numbers from one thread to another, with all CPUs allowed.
//!
//! The first message is not timed: the producer continues once it has arrived. The time ends when
//! the consumer has received the last message and has seen that the sender is gone. Each message
//! must be the successor of the previous one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::calls::check_count;
use super::laps::SELDOM;
use super::threads::Threads;
use crate::kit::{Effort, Failure, Sample};

/// Messages that a bounded channel holds.
pub(super) const CAPACITY: usize = 128;

/// Measures messages from one thread to another.
///
/// `send` waits while the channel is full, and returns false if the receiver is gone. `receive`
/// waits for a message, and returns `None` once the channel is empty and the sender is gone. Each
/// closure is dropped at the end of its thread.
pub(super) fn channel<T: Threads>(
    send: impl FnMut(u64) -> bool,
    receive: impl FnMut() -> Option<u64> + Send + 'static,
    effort: Effort,
) -> Result<Sample, Failure> {
    let begun = Arc::new(Begun::default());
    let seen = Arc::clone(&begun);
    // The second of two threads; the caller is the first.
    let consumer = T::spawn(1, 2, move || consume(receive, &seen))?;
    let sent = produce::<T>(send, &begun, effort);
    T::join(consumer)?.timed(sent)
}

/// Sends messages until all rounds are done or the limit has passed.
fn produce<T: Threads>(mut send: impl FnMut(u64) -> bool, begun: &Begun, effort: Effort) -> Sent {
    send(FIRST);
    while !begun.has() {
        T::yield_now();
    }
    let mut sent = Sent::begin(effort);
    while let Some(message) = sent.next_message()
        && send(message)
    {}
    sent
}

/// Receives messages until the channel is closed or a message is wrong.
fn consume(mut receive: impl FnMut() -> Option<u64>, begun: &Begun) -> Receipt {
    let mut receipt = Receipt::default();
    while let Some(message) = receive() {
        begun.set();
        if !receipt.take(message) {
            break;
        }
    }
    begun.set();
    receipt.close()
}

/// The first message, which is not timed.
pub(super) const FIRST: u64 = 0;

/// Flag: the first message has arrived.
#[derive(Default)]
pub(super) struct Begun(AtomicBool);

impl Begun {
    /// Called by the consumer after each message and at its end.
    #[inline]
    pub(super) fn set(&self) {
        // Relaxed: the flag publishes no other data.
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn has(&self) -> bool {
        // Relaxed: see `set`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Messages that a producer sends after the first one.
pub(super) struct Sent {
    effort: Effort,
    start: Instant,
    last: u64,
}

impl Sent {
    pub(super) fn begin(effort: Effort) -> Self {
        Self { effort, start: Instant::now(), last: FIRST }
    }

    /// Returns the next message, or `None` once all rounds are done or the limit has passed.
    #[inline]
    pub(super) fn next_message(&mut self) -> Option<u64> {
        let looks = self.last > FIRST && self.last.is_multiple_of(SELDOM);
        if self.last >= self.effort.rounds || looks && self.start.elapsed() >= self.effort.limit {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }
}

/// Messages that a consumer received.
#[derive(Default)]
pub(super) struct Receipt {
    expected: u64,
    wrong: Option<u64>,
    end: Option<Instant>,
}

impl Receipt {
    /// Records `message`. Returns true if it is the successor of the previous one.
    #[inline]
    pub(super) fn take(&mut self, message: u64) -> bool {
        if message != self.expected {
            self.wrong = Some(message);
            return false;
        }
        self.expected += 1;
        true
    }

    /// Records the time at which the channel was closed.
    pub(super) fn close(self) -> Self {
        Self { end: Some(Instant::now()), ..self }
    }

    /// Returns how long the transfer of `sent` took. Fails if a message was wrong or lost.
    pub(super) fn timed(self, sent: Sent) -> Result<Sample, Failure> {
        if let Some(found) = self.wrong {
            return Err(Failure::WrongDatum { expected: self.expected, found });
        }
        check_count("messages", self.expected, sent.last + 1)?;
        let end = self.end.expect("closed");
        let elapsed = end.saturating_duration_since(sent.start);
        Ok(Sample::timed(sent.last, sent.last, elapsed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::experiments::costs::threads::KernelThreads;

    const EFFORT: Effort = Effort { rounds: 10, limit: Duration::from_secs(60) };

    /// Measures a channel that delivers 99 in place of message `at`, or drops that message if
    /// `loses` is set.
    fn bad(at: u64, loses: bool) -> Result<Sample, Failure> {
        let (sender, receiver) = mpsc::channel();
        let send = move |message| match message == at {
            true if loses => true,
            true => sender.send(99).is_ok(),
            false => sender.send(message).is_ok(),
        };
        channel::<KernelThreads>(send, move || receiver.recv().ok(), EFFORT)
    }

    #[test]
    fn a_wrong_message_is_found_and_ends_both() {
        let wrong = |expected| Err(Failure::WrongDatum { expected, found: 99 });
        assert_eq!(bad(0, false).map(|timed| timed.rounds), wrong(0));
        assert_eq!(bad(7, false).map(|timed| timed.rounds), wrong(7));
    }

    #[test]
    fn a_lost_message_is_missed() {
        let lost = bad(7, true).unwrap_err();
        assert_eq!(lost, Failure::WrongDatum { expected: 7, found: 8 });
        let last = bad(10, true).unwrap_err();
        assert!(matches!(last, Failure::Broken(_)), "{last}");
    }

    #[test]
    fn sending_ends_at_the_rounds_or_the_limit() {
        let count = |rounds, limit| {
            let mut sent = Sent::begin(Effort { rounds, limit });
            std::iter::from_fn(|| sent.next_message()).count() as u64
        };
        assert_eq!(count(SELDOM + 1, EFFORT.limit), SELDOM + 1);
        assert_eq!(count(u64::MAX, Duration::ZERO), SELDOM);
    }
}
