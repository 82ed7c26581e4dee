//! A waiter with its second check, a waker, and a timeout.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::Turn;

struct Shared {
    queue: WaitQueue<usize>,
    changed: AtomicBool,
    node: Node<usize>,
    /// Stands for the waiter's frame, which is gone once the wait is over.
    frame: UnsafeCell<()>,
}

// SAFETY: the model checks that the protocol gives the frame to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: WaitQueue::new(0),
            changed: AtomicBool::new(false),
            node: Node::new(7),
            frame: UnsafeCell::new(()),
        })
    }

    fn node(&self) -> NonNull<Node<usize>> {
        NonNull::from(&self.node)
    }

    /// Changes the object and claims the waiter, if there is one.
    fn wake(&self, by: u32) -> Option<usize> {
        self.changed.store(true, Ordering::Relaxed);
        if !self.queue.has_waiters() {
            return None;
        }
        let mut locked = self.queue.lock(&Tester(by));
        // A claimed frame is the waker's until the claim is published.
        locked.first().inspect(|_| self.frame.with_mut(|_| ()));
        locked.claim_first(1)
    }
}

#[test]
fn a_change_is_seen_or_the_waiter_is() {
    loom::model(|| {
        let shared = Shared::new();
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || shared.wake(2))
        };
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { shared.queue.enqueue(&Tester(1), shared.node()) };
        let sleeps = !shared.changed.load(Ordering::Relaxed);
        let woken = waker.join().unwrap();
        assert!(!sleeps || woken == Some(7), "asleep for ever");
    });
}

#[test]
fn a_change_by_a_read_modify_write_is_seen_or_the_waiter_is() {
    loom::model(|| {
        let shared = Shared::new();
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.changed.swap(true, Ordering::SeqCst);
                shared.queue.has_waiters_after_rmw()
            })
        };
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { shared.queue.enqueue(&Tester(1), shared.node()) };
        let sleeps = !shared.changed.load(Ordering::Relaxed);
        assert!(!sleeps || waker.join().unwrap(), "asleep for ever");
        // SAFETY: alive, and only ever in this queue.
        let unlinked = unsafe { shared.queue.unlink(&Tester(1), shared.node()) };
        assert_eq!(unlinked, Unlinked::Mine);
    });
}

#[test]
fn a_claimed_node_is_the_waiters_again() {
    loom::model(|| {
        let shared = Shared::new();
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { shared.queue.enqueue(&Tester(1), shared.node()) };
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || shared.wake(2))
        };
        if shared.node.state() == NodeState::Claimed(1) {
            shared.frame.with_mut(|_| ());
        }
        assert_eq!(waker.join().unwrap(), Some(7));
    });
}

#[test]
fn of_waker_and_timeout_one_ends_the_wait() {
    loom::model(|| {
        let shared = Shared::new();
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { shared.queue.enqueue(&Tester(1), shared.node()) };
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || shared.wake(2))
        };
        // SAFETY: alive, and only ever in this queue.
        let unlinked = unsafe { shared.queue.unlink(&Tester(1), shared.node()) };
        let woken = waker.join().unwrap();
        assert_eq!(unlinked == Unlinked::Mine, woken.is_none());
    });
}

#[test]
fn a_waiter_taken_with_all_is_claimed() {
    loom::model(|| {
        let shared = Shared::new();
        let other = Node::new(8);
        for node in [shared.node(), NonNull::from(&other)] {
            // SAFETY: in no queue, and it outlives the queue.
            unsafe { shared.queue.enqueue(&Tester(1), node) };
        }
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let taken = shared.queue.lock(&Tester(2)).take_all();
                taken.collect::<Vec<_>>()
            })
        };
        // SAFETY: alive, and only ever in this queue.
        let unlinked = unsafe { shared.queue.unlink(&Tester(1), shared.node()) };
        let woken = waker.join().unwrap();
        assert_eq!(woken, if unlinked == Unlinked::Mine { vec![8] } else { vec![7, 8] });
    });
}

#[test]
fn a_waker_that_finds_no_waiter_knows_why_the_last_has_left() {
    loom::model(|| {
        let shared = Shared::new();
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { shared.queue.enqueue(&Tester(1), shared.node()) };
        let turn = Arc::new(Turn::new());
        let leaver = {
            let (shared, turn) = (shared.clone(), turn.clone());
            thread::spawn(move || {
                turn.take();
                shared.changed.store(true, Ordering::Relaxed);
                // SAFETY: alive, and only ever in this queue.
                unsafe { shared.queue.unlink(&Tester(2), shared.node()) }
            })
        };
        turn.take();
        if !shared.queue.has_waiters() {
            fence(Ordering::Acquire);
            assert!(shared.changed.load(Ordering::Relaxed));
        }
        assert_eq!(leaver.join().unwrap(), Unlinked::Mine);
    });
}
