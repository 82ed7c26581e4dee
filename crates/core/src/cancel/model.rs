//! A fiber in a scope, and threads that end it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::circle::Circular;
use crate::fiber::{ByExchange as AnyThread, Effect, RunState, Transition};
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::{Turn, spawn};
use crate::wait::Node;

use std::ptr::NonNull;

struct Shared {
    signal: Signal<()>,
    node: Node<()>,
    /// The frame of the scope beside the node: the number of calls.
    frame: UnsafeCell<usize>,
}

// SAFETY: the models check that the protocol gives the frame to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let (signal, node) = (Signal::new(), Node::new(()));
        Arc::new(Self { signal, node, frame: UnsafeCell::new(0) })
    }

    fn listen(&self) -> bool {
        // SAFETY: in no queue, and it outlives the signal's use of it.
        unsafe { self.signal.listen(&Tester(1), NonNull::from(&self.node)) }
    }

    /// Leaves, and gives up the frame; returns the number of calls.
    fn leave(&self) -> (Unlinked, usize) {
        // SAFETY: alive, and only ever in this queue.
        let unlinked = unsafe { self.signal.leave(&Tester(1), NonNull::from(&self.node)) };
        self.node.links().reclaim();
        // SAFETY: no other thread touches the frame any more; the models check that.
        (unlinked, self.frame.with_mut(|calls| unsafe { *calls }))
    }

    fn give(&self, by: u32) -> bool {
        // SAFETY: a listener stays until the call is over; the models check that.
        let call = |()| self.frame.with_mut(|calls| unsafe { *calls += 1 });
        self.signal.give(&Tester(by), call)
    }
}

#[test]
fn a_listener_that_left_is_not_called() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.listen());
        let giver = spawn(&shared, |shared| shared.give(2));
        let (unlinked, calls) = shared.leave();
        assert_eq!(calls, usize::from(unlinked == Unlinked::AlreadyGone));
        assert!(giver.join().unwrap());
    });
}

#[test]
fn a_new_listener_is_called_or_sees_the_signal() {
    loom::model(|| {
        let shared = Shared::new();
        let giver = spawn(&shared, |shared| shared.give(2));
        let listens = shared.listen();
        assert!(giver.join().unwrap());
        let (_, calls) = shared.leave();
        assert_eq!(calls, usize::from(listens), "asleep for ever");
    });
}

#[test]
fn one_of_two_givers_calls() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.listen());
        let givers = [2, 3].map(|by| spawn(&shared, move |shared| shared.give(by)));
        let given = givers.map(|giver| giver.join().unwrap());
        assert!(given[0] != given[1]);
        assert_eq!(shared.leave(), (Unlinked::AlreadyGone, 1));
    });
}

/// The interrupt may be taken for that of a timer which the fiber has just disarmed.
#[test]
fn an_end_is_not_slept_through() {
    loom::model(|| {
        let fiber = Arc::new((RunState::new(), ScopeMark::new()));
        let ender = spawn(&fiber, |(state, mark)| {
            let mut resumed = false;
            let interrupt =
                || resumed = state.apply::<AnyThread>(Transition::Interrupt) == Effect::Enqueue;
            mark.end(interrupt);
            resumed
        });
        let (state, mark) = &*fiber;
        let _ = state.apply::<AnyThread>(Transition::Looked);
        let suspends = || state.apply::<AnyThread>(Transition::Wait) == Effect::Suspended;
        let suspended = !mark.is_over() && suspends();
        assert_eq!(ender.join().unwrap(), suspended, "asleep for ever");
        assert!(mark.is_over());
    });
}

#[test]
fn a_thread_that_sees_the_signal_sees_the_writes_before_it() {
    loom::model(|| {
        let (shared, turn) = (Shared::new(), Arc::new(Turn::new()));
        let givers_turn = turn.clone();
        let giver = spawn(&shared, move |shared| {
            // SAFETY: no thread reads before the signal is given; the model checks that.
            shared.frame.with_mut(|frame| unsafe { *frame = 7 });
            givers_turn.take();
            shared.give(2)
        });
        turn.take();
        if shared.signal.is_given() {
            // SAFETY: written before the signal was given; the model checks that.
            assert_eq!(shared.frame.with(|frame| unsafe { *frame }), 7);
        }
        assert!(giver.join().unwrap());
    });
}
