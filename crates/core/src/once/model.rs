//! Two callers, one of which may give up, or only wait.
//!
//! Not three: loom would have two spin for the queue lock in turns for ever, while the third has
//! it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, spawn};

const RUNS: Purpose = Purpose { runs: true, despite_poison: false };
const WAITS: Purpose = Purpose { runs: false, despite_poison: false };

struct Shared {
    once: RawOnce<usize>,
    wakes: [Sleep; 2],
    /// Written by the caller that runs it.
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that only the running caller writes the data, and that it is read only
// when it is done.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            once: RawOnce::new(),
            wakes: [Sleep::new(), Sleep::new()],
            data: UnsafeCell::new(0),
        })
    }

    /// Begins for `purpose`, and ends with `end` if it runs; returns the data that it sees then.
    fn come(&self, actor: usize, purpose: Purpose, end: End) -> u32 {
        let (by, caller) = (Tester(actor as u32 + 1), NonZeroU64::new(actor as u64 + 1).unwrap());
        while !self.once.is_done() {
            match self.once.begin(&by, caller, purpose) {
                Begin::Run { .. } => {
                    // SAFETY: one caller at a time runs it.
                    self.data.with_mut(|data| unsafe { *data += 1 });
                    self.once.end(&by, end).for_each(|waiter| self.wakes[waiter].wake());
                    if end == End::Undone {
                        return 0;
                    }
                }
                Begin::Wait => self.wait(actor, caller, purpose),
                Begin::Done => break,
                other => panic!("{other:?}"),
            }
        }
        // SAFETY: it is done, so there are no more writes.
        self.data.with(|data| unsafe { *data })
    }

    fn wait(&self, actor: usize, caller: NonZeroU64, purpose: Purpose) {
        let (by, node) = (Tester(actor as u32 + 1), Node::new(actor));
        // SAFETY: the node is in no queue, and stays until it is claimed.
        if unsafe { self.once.wait(&by, NonNull::from(&node), caller, purpose) } {
            self.wakes[actor].wait();
        }
    }
}

#[test]
fn one_does_it_and_both_see_it() {
    loom::model(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| shared.come(1, RUNS, End::Done));
        assert_eq!(shared.come(0, RUNS, End::Done), 1);
        assert_eq!(other.join().unwrap(), 1);
    });
}

#[test]
fn another_does_it_if_one_gives_up() {
    loom::model(|| {
        let shared = Shared::new();
        let gives_up = spawn(&shared, |shared| shared.come(1, RUNS, End::Undone));
        let seen = shared.come(0, RUNS, End::Done);
        let before = gives_up.join().unwrap();
        // The other caller came too late, or gave up before.
        assert!((before, seen) == (1, 1) || (before, seen) == (0, 2));
    });
}

#[test]
fn a_waiter_waits_until_completion() {
    loom::model(|| {
        let shared = Shared::new();
        let does = spawn(&shared, |shared| {
            shared.come(1, RUNS, End::Undone);
            shared.come(1, RUNS, End::Done)
        });
        assert_eq!(shared.come(0, WAITS, End::Done), 2);
        assert_eq!(does.join().unwrap(), 2);
    });
}
