//! A waiter, its interrupter and a waker.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::atomic::AtomicU32;
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::{bounded, spawn};
use crate::wait::{Node, NodeState, WaitQueue};

const WAITER: u32 = 1;
const INTERRUPTER: u32 = 2;
const WAKER: u32 = 3;

/// The wait, in the waiter's frame.
struct Wait {
    node: Node<u32>,
    /// Stands for the frame, which is gone once the wait is over.
    frame: UnsafeCell<()>,
}

struct Shared {
    queue: WaitQueue<u32>,
    interrupts: Interrupts<Wait>,
    wait: Wait,
    /// Wakes that the waiter was sent.
    wakes: AtomicU32,
}

// SAFETY: the model checks that the protocol gives the frame to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: WaitQueue::new(0),
            interrupts: Interrupts::new(),
            wait: Wait { node: Node::new(WAITER), frame: UnsafeCell::new(()) },
            wakes: AtomicU32::new(0),
        })
    }

    fn unlink(&self, by: u32, wait: &Wait) -> Unlinked {
        // SAFETY: alive, and only ever in this queue.
        unsafe { self.queue.unlink(&Tester(by), NonNull::from(&wait.node)) }
    }

    fn send_wake(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn interrupt(&self) {
        let ended = self.interrupts.interrupt(|wait| {
            wait.frame.with(|_| ());
            self.unlink(INTERRUPTER, wait)
        });
        if ended == Some(Unlinked::Mine) {
            self.send_wake();
        }
    }

    fn wake(&self) {
        if self.queue.claim_first(&Tester(WAKER), 0).is_some() {
            self.send_wake();
        }
    }

    /// Waits. Returns true if the waiter sleeps, until a wake is sent.
    fn waits(&self) -> bool {
        self.wait.frame.with_mut(|_| ());
        // SAFETY: retracted in `goes`.
        unsafe { self.interrupts.publish(&self.wait) };
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { self.queue.enqueue(&Tester(WAITER), NonNull::from(&self.wait.node)) };
        !self.interrupts.are_due()
            // Taken out by the interrupter or a waker, which sends a wake.
            || self.unlink(WAITER, &self.wait) != Unlinked::Mine
    }

    /// The wait is over.
    fn goes(&self) {
        self.interrupts.retract(&self.wait);
        self.wait.frame.with_mut(|_| ());
    }
}

#[test]
fn an_interrupt_ends_a_wait_or_is_seen_before() {
    loom::model(|| {
        let shared = Shared::new();
        let waiter = spawn(&shared, Shared::waits);
        shared.interrupt();
        let sleeps = waiter.join().unwrap();
        assert_eq!(u32::from(sleeps), shared.wakes.load(Ordering::Relaxed));
    });
}

#[test]
fn the_frame_stays_until_the_interrupter_has_done() {
    loom::model(|| {
        let shared = Shared::new();
        let interrupter = spawn(&shared, Shared::interrupt);
        if !shared.waits() || shared.wait.node.state() != NodeState::Queued {
            shared.goes();
        }
        interrupter.join().unwrap();
    });
}

#[test]
fn of_interrupter_and_waker_one_sends_a_wake() {
    bounded(2, || {
        let shared = Shared::new();
        let waker = spawn(&shared, Shared::wake);
        let interrupter = spawn(&shared, Shared::interrupt);
        let sleeps = shared.waits();
        waker.join().unwrap();
        interrupter.join().unwrap();
        let wakes = shared.wakes.load(Ordering::Relaxed);
        assert_eq!(u32::from(sleeps), wakes, "asleep for ever, or woken for nothing");
        shared.goes();
    });
}
