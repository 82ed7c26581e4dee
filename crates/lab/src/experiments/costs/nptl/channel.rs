//! A message queue as C programs write it: a ring buffer under a mutex, and a condition variable
//! for each end.
//!
//! The mutex is unlocked before the signal, so that the woken thread does not find it locked.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::experiments::costs::channel::{CAPACITY, channel};
use crate::experiments::costs::threads::KernelThreads;
use crate::kit::pthread::{PthreadCondvar, PthreadMutex};
use crate::kit::{Effort, Failure, Sample};

/// Capacity of a queue that holds any number of messages.
pub(super) const ANY: usize = usize::MAX;

/// A queue that holds this many messages.
struct Queue<const MESSAGES: usize> {
    state: PthreadMutex<QueueState>,
    /// Waited for by the receiver.
    filled: PthreadCondvar,
    /// Waited for by the sender.
    emptied: PthreadCondvar,
}

struct QueueState {
    /// Doubles its capacity when it is full, up to the capacity of the queue.
    ring: VecDeque<u64>,
    closed: bool,
}

impl<const MESSAGES: usize> Queue<MESSAGES> {
    fn new() -> Self {
        let ring = VecDeque::with_capacity(CAPACITY);
        let state = PthreadMutex::new(QueueState { ring, closed: false });
        Self { state, filled: PthreadCondvar::default(), emptied: PthreadCondvar::default() }
    }

    #[inline]
    fn put(&self, message: u64) -> bool {
        let mut state = self.state.lock();
        while state.ring.len() >= MESSAGES && !state.closed {
            // SAFETY: this condition variable is waited for here only, with the queue's mutex.
            state = unsafe { self.emptied.wait(state) };
        }
        if state.closed {
            return false;
        }
        state.ring.push_back(message);
        drop(state);
        self.filled.notify_one();
        true
    }

    #[inline]
    fn take(&self) -> Option<u64> {
        let mut state = self.state.lock();
        while state.ring.is_empty() && !state.closed {
            // SAFETY: this condition variable is waited for here only, with the queue's mutex.
            state = unsafe { self.filled.wait(state) };
        }
        let message = state.ring.pop_front();
        drop(state);
        self.emptied.notify_one();
        message
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
        self.emptied.notify_one();
    }
}

/// One end of a queue, owned by its only sender or its only receiver. Closes the queue when it is
/// dropped.
struct QueueEnd<const MESSAGES: usize>(Arc<Queue<MESSAGES>>);

impl<const MESSAGES: usize> Drop for QueueEnd<MESSAGES> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Opens a queue; returns the sender's end and the receiver's end.
fn open<const MESSAGES: usize>() -> (QueueEnd<MESSAGES>, QueueEnd<MESSAGES>) {
    let queue = Arc::new(Queue::new());
    (QueueEnd(Arc::clone(&queue)), QueueEnd(queue))
}

/// Measures a queue that holds this many messages.
pub(super) fn queue<const MESSAGES: usize>(effort: Effort) -> Result<Sample, Failure> {
    let (sender, receiver) = open::<MESSAGES>();
    channel::<KernelThreads>(
        move |message| sender.0.put(message),
        move || receiver.0.take(),
        effort,
    )
}

#[cfg(test)]
mod tests {
    use std::{iter, thread};

    use super::*;

    #[test]
    fn messages_arrive_in_order_after_the_sender_is_dropped() {
        let (sender, receiver) = open::<ANY>();
        let messages = 0..2 * CAPACITY as u64;
        assert!(messages.clone().all(|message| sender.0.put(message)));
        drop(sender);
        assert!(iter::from_fn(|| receiver.0.take()).eq(messages));
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        const ALL: u64 = 1000;
        let (sender, receiver) = open::<2>();
        let sent = thread::spawn(move || (0..ALL).filter(|&message| sender.0.put(message)).count());
        let mut most = 0;
        for expected in 0..ALL {
            thread::yield_now();
            most = most.max(receiver.0.state.lock().ring.len());
            assert_eq!(receiver.0.take(), Some(expected));
        }
        assert!(most <= 2, "{most} were there");
        assert_eq!(sent.join().expect("it does not panic"), ALL as usize);
    }

    #[test]
    fn a_waiting_sender_fails_when_the_receiver_is_dropped() {
        let (sender, receiver) = open::<1>();
        assert!(sender.0.put(1));
        let second = thread::spawn(move || sender.0.put(2));
        drop(receiver);
        assert!(!second.join().expect("it does not panic"));
    }
}
