//! A worker with a LIFO slot, and thieves.

use super::*;
use crate::atomic::fence;
use crate::lock::testing::Tester;

struct Slot {
    next: LifoSlot<Fiber>,
    fibers: [Fiber; 2],
}

impl Slot {
    fn new(access: Access) -> Arc<Self> {
        Arc::new(Slot { next: LifoSlot::new(access), fibers: [Fiber::new(), Fiber::new()] })
    }

    fn put(&self, index: usize) -> usize {
        let fiber = &self.fibers[index];
        fiber.run();
        self.got(
            self.next.replace(Some(LifoEntry { fiber: NonNull::from(fiber), stealable: true })),
        )
    }

    fn take(&self) -> usize {
        self.got(self.next.replace(None))
    }

    fn steal(&self, by: u32) -> usize {
        let stolen = self.next.steal(&Tester(by), || fence(Ordering::SeqCst));
        self.got(stolen.map(|fiber| LifoEntry { fiber, stealable: true }))
    }

    /// Runs the fiber that came out, and returns how many fibers that were.
    fn got(&self, entry: Option<LifoEntry<Fiber>>) -> usize {
        // SAFETY: the fibers outlive the slot.
        entry.inspect(|entry| unsafe { entry.fiber.as_ref() }.run()).iter().count()
    }
}

fn thief_and_owner(access: Access) {
    loom::model(move || {
        let slot = Slot::new(access);
        assert_eq!(slot.put(0), 0);
        let thief = spawn(&slot, |slot| slot.steal(1));
        let kept = slot.put(1) + slot.take();
        assert_eq!(kept + thief.join().unwrap(), 2, "each fiber runs once");
        assert_eq!(slot.take(), 0);
    });
}

fn two_thieves_and_owner(access: Access) {
    loom::model(move || {
        let slot = Slot::new(access);
        assert_eq!(slot.put(0), 0);
        // The first thread to run is a thief, so that two preemptions make it the slow one.
        let owner = spawn(&slot, Slot::take);
        let thief = spawn(&slot, |slot| slot.steal(1));
        let stolen = slot.steal(2) + thief.join().unwrap();
        assert_eq!(owner.join().unwrap() + stolen, 1, "the fiber runs once");
        assert_eq!(slot.take(), 0);
    });
}

#[test]
fn a_thief_meets_an_owner_with_plain_access() {
    thief_and_owner(Access::Plain);
}

#[test]
fn a_thief_meets_an_owner_that_exchanges() {
    thief_and_owner(Access::Exchange);
}

#[test]
fn a_slow_thief_does_not_take_the_fiber_that_the_next_froze() {
    two_thieves_and_owner(Access::Plain);
}

#[test]
fn two_thieves_exchange() {
    two_thieves_and_owner(Access::Exchange);
}
