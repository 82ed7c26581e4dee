//! An event that comes and goes, and an event that releases one waiter at a time.

use loom::cell::UnsafeCell;

use super::*;
use crate::modelled::dies_at_each_step;

struct Shared {
    attached: Attached<2>,
    event: RobustEvent,
    /// Written before the event is set.
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that only a released waiter touches the data.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

const VICTIM: usize = 0;

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            event: RobustEvent::new(),
            data: UnsafeCell::new(0),
        })
    }

    fn add(&self) {
        // SAFETY: no waiter has been released, or the caller alone.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller was released.
        self.data.with(|data| unsafe { *data })
    }

    fn set(&self, actor: usize) {
        self.event.set();
        self.attached.ring_fenced(actor);
    }
}

#[test]
fn a_set_that_comes_and_goes_is_seen_unless_its_setter_died_before() {
    dies_at_each_step(3, |death| {
        let shared = Shared::new();
        let seen = shared.event.look();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(VICTIM, &death, || {
                    shared.add();
                    shared.event.set();
                    assert!(shared.event.reset());
                    shared.attached.ring_fenced(VICTIM);
                })
            }
        });
        let come = || shared.event.has_come(seen);
        let dead = || shared.attached.is_dead(Attached::<2>::holder(VICTIM));
        shared.attached.sleep_fenced(1, || come() || dead());
        if come() {
            assert_eq!(shared.read(), 1);
        }
        let lived = victim.join().unwrap().is_some();
        assert!(!lived || come() && !shared.event.is_set());
    });
}

#[test]
fn each_set_lets_one_go_though_a_waiter_dies() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        shared.set(1);
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(VICTIM, &death, || {
                    if !shared.event.reset() {
                        return false;
                    }
                    shared.add();
                    shared.set(VICTIM);
                    true
                })
            }
        });
        let mine = shared.event.reset();
        if mine {
            shared.add();
            shared.set(1);
        }
        let other = victim.join().unwrap();
        // A victim that was released and died has released no other waiter.
        assert!(shared.event.reset() || other.is_none());
        if let Some(other) = other {
            assert_eq!(shared.read(), u32::from(mine) + u32::from(other));
        }
    });
}
