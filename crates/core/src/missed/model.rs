//! A waiter, its interrupter and threads that signal.

use std::cell::Cell;
use std::ptr::NonNull;

use loom::sync::Arc;

use super::*;
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::{Waiters, bounded, spawn};
use crate::wait::{Node, NodeState, WaitQueue};

/// The waiter that is interrupted, and another one.
const WAITER: usize = 0;
const OTHER: usize = 1;
/// The first name of the other threads.
const THREADS: u32 = 3;

struct Shared {
    queue: WaitQueue<usize>,
    missed: MissedSignals,
    nodes: [Node<usize>; 2],
    waiters: Waiters<2>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Signalled,
    Interrupted,
}

type Signal = fn(&Shared, u32);

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: WaitQueue::new(0),
            missed: MissedSignals::new(),
            nodes: [Node::new(WAITER), Node::new(OTHER)],
            waiters: Waiters::new(),
        })
    }

    fn enqueue(&self, waiter: usize) {
        // SAFETY: in no queue, and it outlives the queue.
        unsafe {
            self.queue.enqueue(&Waiters::<2>::by(waiter), NonNull::from(&self.nodes[waiter]))
        };
    }

    fn unlink(&self, by: u32) -> Unlinked {
        // SAFETY: alive, and only ever in this queue.
        unsafe { self.queue.unlink(&Tester(by), NonNull::from(&self.nodes[WAITER])) }
    }

    /// Waits in the queue, if `blocked` holds there.
    fn wait_in_queue(&self, blocked: impl FnOnce() -> bool) -> End {
        self.enqueue(WAITER);
        if !blocked() && self.unlink(WAITER as u32 + 1) == Unlinked::Mine {
            return End::Signalled;
        }
        self.waiters.sleep(WAITER);
        match self.nodes[WAITER].state() {
            NodeState::Claimed(_) => End::Signalled,
            _ => End::Interrupted,
        }
    }

    /// Waits; `then` runs once the waiter is in the queue, as if it freed the mutex there.
    fn wait(&self, then: impl FnOnce()) {
        let first = || {
            self.wait_in_queue(|| {
                then();
                true
            })
        };
        let again = |missing: Missing<'_>| self.wait_in_queue(|| missing.none());
        let end = self.missed.wait(first, |&end| end == End::Interrupted, again);
        assert!(end == End::Signalled, "the wait has ended without a mark");
    }

    fn interrupt(&self, by: u32) {
        if self.missed.mark().set_before(|| self.unlink(by)) == Unlinked::Mine {
            self.waiters.wake([WAITER]);
        }
    }

    fn signal_one(&self, by: u32) {
        self.missed.signal_one(|| {
            let claimed = if self.queue.has_waiters() {
                self.queue.claim_first(&Tester(by), 0)
            } else {
                None
            };
            self.waiters.wake(claimed);
            claimed.is_some()
        });
    }

    fn signal_all(&self, by: u32) {
        self.missed.signal_all(|| {
            let wakes = self.queue.has_waiters();
            if wakes {
                let taken = self.queue.lock(&Tester(by)).take_all();
                self.waiters.wake(taken);
            }
            wakes
        });
    }

    fn is_claimed(&self, waiter: usize) -> bool {
        matches!(self.nodes[waiter].state(), NodeState::Claimed(_))
    }
}

/// Lets a waiter wait while it is interrupted, beside the other waiter if there is one, and threads
/// signal. A waiter that no signal reaches is a deadlock of the model.
fn waits(with_other: bool, signals: &[Signal]) -> Arc<Shared> {
    let shared = Shared::new();
    let threads = Cell::new(Vec::new());
    let start = || {
        if with_other {
            shared.enqueue(OTHER);
        }
        let interrupt: Signal = Shared::interrupt;
        let acts = [interrupt].into_iter().chain(signals.iter().copied()).zip(THREADS..);
        threads.set(acts.map(|(act, by)| spawn(&shared, move |shared| act(shared, by))).collect());
    };
    shared.wait(start);
    threads.take().into_iter().for_each(|thread| thread.join().unwrap());
    shared
}

#[test]
fn a_signal_reaches_a_waiter_whose_handlers_run() {
    for signal in [Shared::signal_one, Shared::signal_all] as [Signal; 2] {
        bounded(2, move || {
            waits(false, &[signal]);
        });
    }
}

#[test]
fn a_broadcast_reaches_waiters_in_the_queue_and_out_of_it() {
    bounded(2, || {
        let shared = waits(true, &[Shared::signal_all]);
        assert!(shared.is_claimed(OTHER));
    });
}

/// The second of them may find the queue empty since the first has claimed the other waiter there.
#[test]
fn two_signals_reach_two_waiters() {
    bounded(1, || {
        let shared = waits(true, &[Shared::signal_one, Shared::signal_one]);
        assert!(shared.is_claimed(OTHER));
    });
}
