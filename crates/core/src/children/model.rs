//! Two children and the body that lends them its frame; a call among them.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, spawn};

const BODY_WAITS: WaiterId = WaiterId::for_test(64);

struct Frame {
    children: Children<usize>,
    nodes: [Node<usize>; 2],
    /// Data that each child borrows from the body.
    borrowed: [UnsafeCell<()>; 2],
    calls: [AtomicU32; 2],
    body: Sleep,
}

// SAFETY: the model checks that the protocol gives borrowed data to one thread at a time.
unsafe impl Sync for Frame {}
// SAFETY: as for Sync.
unsafe impl Send for Frame {}

impl Frame {
    fn new() -> Arc<Self> {
        Arc::new(Frame {
            children: Children::new(),
            nodes: [Node::new(0), Node::new(1)],
            borrowed: [UnsafeCell::new(()), UnsafeCell::new(())],
            calls: [AtomicU32::new(0), AtomicU32::new(0)],
            body: Sleep::new(),
        })
    }

    fn enter(&self, by: u32, child: usize) {
        // SAFETY: each enters once, and its node outlives the model.
        let entered =
            unsafe { self.children.enter(&Tester(by), NonNull::from(&self.nodes[child])) };
        if entered == Entered::Called {
            self.was_called(child);
        }
    }

    fn was_called(&self, child: usize) {
        self.calls[child].fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self, by: u32, child: usize) {
        self.borrowed[child].with_mut(|_| ());
        let (this, node) = (NonNull::from(&self.children), NonNull::from(&self.nodes[child]));
        // SAFETY: it has entered, and leaves once.
        let waiter = unsafe { Children::leave(this, &Tester(by), node, |_| false) };
        if let Some(waiter) = waiter {
            assert_eq!(waiter, BODY_WAITS);
            self.body.wake();
        }
    }

    fn call_all(&self, by: u32) {
        while let Some(child) = self.children.call(&Tester(by), |child| child) {
            self.was_called(child);
        }
    }

    /// Ends the body: afterwards its frame goes.
    fn end(&self, by: u32) {
        if self.children.wait(&Tester(by), BODY_WAITS) {
            self.body.wait();
        }
        self.borrowed.iter().for_each(|borrowed| borrowed.with_mut(|_| ()));
        self.children.reclaim();
    }
}

#[test]
fn the_body_outlasts_children_that_end_at_once() {
    loom::model(|| {
        let frame = Frame::new();
        frame.enter(1, 0);
        let first = spawn(&frame, |frame| frame.leave(2, 0));
        frame.enter(1, 1);
        // On the body's own thread, as three spinning threads are too many for loom.
        frame.leave(1, 1);
        frame.end(1);
        first.join().unwrap();
    });
}

#[test]
fn the_body_outlasts_a_child_of_a_child() {
    loom::model(|| {
        let frame = Frame::new();
        frame.enter(1, 0);
        let shared = frame.clone();
        let first = spawn(&frame, move |frame| {
            frame.enter(2, 1);
            let second = spawn(&shared, |frame| frame.leave(3, 1));
            frame.leave(2, 0);
            second
        });
        frame.end(1);
        first.join().unwrap().join().unwrap();
    });
}

#[test]
fn a_call_reaches_each_child_once() {
    loom::model(|| {
        let frame = Frame::new();
        frame.enter(1, 0);
        let first = spawn(&frame, |frame| {
            frame.enter(2, 1);
            frame.leave(2, 1);
            frame.leave(2, 0);
        });
        frame.call_all(1);
        frame.end(1);
        first.join().unwrap();
        // A child that had left before was not called.
        let calls = |child: usize| frame.calls[child].load(Ordering::Relaxed);
        assert!(calls(0) <= 1 && calls(1) <= 1, "called twice");
    });
}

#[test]
fn a_child_that_enters_during_a_call_is_called() {
    loom::model(|| {
        let frame = Frame::new();
        let caller = spawn(&frame, |frame| frame.call_all(2));
        frame.enter(1, 0);
        caller.join().unwrap();
        assert_eq!(frame.calls[0].load(Ordering::Relaxed), 1);
    });
}
