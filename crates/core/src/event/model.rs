//! An automatic event as a lock, or with a waiter that leaves; a manual event that is reset.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, Turn, spawn};

struct Shared {
    event: RawEvent<usize>,
    wakes: [Sleep; 3],
    /// Written before a set.
    data: UnsafeCell<u32>,
    turn: Turn,
}

// SAFETY: the model checks that only a released waiter touches the data.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new(event: RawEvent<usize>) -> Arc<Self> {
        Arc::new(Self {
            event,
            wakes: [Sleep::new(), Sleep::new(), Sleep::new()],
            data: UnsafeCell::new(0),
            turn: Turn::new(),
        })
    }

    fn wait(&self, actor: usize) {
        self.turn.take();
        if self.event.try_pass() {
            return;
        }
        let node = Node::new(actor);
        self.turn.take();
        // SAFETY: the node is in no queue, and stays until it is claimed.
        if !unsafe { self.event.pass(&Tester(actor as u32 + 1), NonNull::from(&node)) } {
            self.wakes[actor].wait();
        }
    }

    fn set(&self, actor: usize) {
        self.turn.take();
        if !self.event.set_fast() {
            self.event.set(&Tester(actor as u32 + 1)).for_each(|waiter| self.wakes[waiter].wake());
        }
    }

    /// Uses the event as a lock for a moment.
    fn add(&self, actor: usize) {
        self.wait(actor);
        // SAFETY: each set releases one thread.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.set(actor);
    }

    /// Queues `node`, which stays until it has left or is claimed, as the event is not set.
    fn queue(&self, node: &Node<usize>) {
        // SAFETY: in no queue, and it stays, by this function's contract.
        assert!(!unsafe { self.event.pass(&Tester(1), NonNull::from(node)) });
    }

    fn read(&self) -> u32 {
        // SAFETY: written before the set that released the caller, or before the joins.
        self.data.with(|data| unsafe { *data })
    }
}

#[test]
fn an_automatic_event_lets_one_go_for_each_set() {
    loom::model(|| {
        let shared = Shared::new(RawEvent::auto());
        shared.set(0);
        let other = spawn(&shared, |shared| (0..2).for_each(|_| shared.add(1)));
        (0..2).for_each(|_| shared.add(0));
        other.join().unwrap();
        assert_eq!(shared.read(), 4);
        assert!(shared.event.try_pass() && !shared.event.is_set());
    });
}

#[test]
fn a_leaving_waiter_takes_no_set_along() {
    loom::model(|| {
        let shared = Shared::new(RawEvent::auto());
        let nodes = [0, 1].map(Node::new);
        nodes.iter().for_each(|node| shared.queue(node));
        let sets = spawn(&shared, |shared| shared.set(2));
        // SAFETY: alive, and queued here.
        if unsafe { shared.event.leave(&Tester(1), NonNull::from(&nodes[0])) } != Unlinked::Mine {
            shared.wakes[0].wait();
            shared.set(0);
        }
        shared.wakes[1].wait();
        sets.join().unwrap();
        assert!(!shared.event.is_set());
    });
}

#[test]
fn each_set_lets_another_go() {
    loom::model(|| {
        let shared = Shared::new(RawEvent::auto());
        let nodes = [0, 1].map(Node::new);
        nodes.iter().for_each(|node| shared.queue(node));
        let sets = spawn(&shared, |shared| shared.set(2));
        shared.set(0);
        sets.join().unwrap();
        shared.wakes[..2].iter().for_each(Sleep::wait);
        assert!(!shared.event.is_set());
    });
}

#[test]
fn a_waiter_for_a_manual_event_goes_though_it_is_reset() {
    loom::model(|| {
        let shared = Shared::new(RawEvent::manual());
        let node = Node::new(0);
        shared.queue(&node);
        let sets = spawn(&shared, |shared| {
            // SAFETY: no thread was released before.
            shared.data.with_mut(|data| unsafe { *data = 1 });
            shared.set(1);
            shared.event.reset();
        });
        shared.turn.take();
        assert!(!shared.event.try_pass() || shared.read() == 1);
        shared.wakes[0].wait();
        assert_eq!(shared.read(), 1);
        sets.join().unwrap();
        assert!(!shared.event.is_set());
    });
}

/// Runs a model in which a thread writes the data and sets a manual event, while this one `sees`
/// the set, and reads the data.
fn a_set_publishes(sees: fn(&RawEvent<usize>) -> bool) {
    loom::model(move || {
        let shared = Shared::new(RawEvent::manual());
        let sets = spawn(&shared, |shared| {
            // SAFETY: no thread reads before the set; the model checks that.
            shared.data.with_mut(|data| unsafe { *data = 1 });
            shared.set(1);
        });
        shared.turn.take();
        assert!(!sees(&shared.event) || shared.read() == 1);
        sets.join().unwrap();
    });
}

#[test]
fn a_thread_that_sees_an_event_set_sees_the_writes_before_it() {
    a_set_publishes(RawEvent::is_set);
}

#[test]
fn a_thread_that_resets_an_event_sees_the_writes_before_the_set() {
    a_set_publishes(|event| {
        let was_set = event.load(Ordering::Relaxed).is_set();
        event.reset();
        was_set
    });
}

#[test]
fn a_set_that_finds_the_event_set_is_seen_by_the_thread_that_passes() {
    loom::model(|| {
        let shared = Arc::new((RawEvent::<usize>::auto(), AtomicU32::new(0), Turn::new()));
        assert!(shared.0.set_fast());
        let sets = spawn(&shared, |(event, data, turn)| {
            data.store(1, Ordering::Relaxed);
            turn.take();
            assert!(event.set_fast());
        });
        let (event, data, turn) = &*shared;
        turn.take();
        assert!(event.try_pass());
        let seen = data.load(Ordering::Relaxed);
        sets.join().unwrap();
        assert!(seen == 1 || event.is_set(), "neither the data nor a set is left for the next");
    });
}
