//! Fibers, workers and senders as the runtime puts them together from the types of this folder.

mod completion;
mod exec_mode;
mod inbox;
mod lifo_slot;
mod refs;

use std::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;

use super::*;
use crate::atomic::{AtomicPtr, Ordering};
use crate::modelled::spawn;

#[repr(align(64))]
struct Fiber {
    owner: OwnerWord<u32>,
    state: RunState,
    mail: Mail,
    mail_link: AtomicPtr<Fiber>,
    completion: Completion,
    /// Belongs to the worker that runs the fiber.
    stack: UnsafeCell<u32>,
    /// Written beside the reset of the run state; the thread that finds the fiber started reads it.
    reset: UnsafeCell<bool>,
    /// Data that two senders write before they send.
    sent: [UnsafeCell<u32>; 2],
}

// SAFETY: the model checks that the protocols give each cell to one thread at a time.
unsafe impl Sync for Fiber {}
// SAFETY: as for Sync.
unsafe impl Send for Fiber {}

// SAFETY: the one field, which only the inbox writes.
unsafe impl Addressee for Fiber {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &this.as_ref().mail_link }
    }
}

impl Fiber {
    fn new() -> Self {
        Fiber {
            owner: OwnerWord::new(),
            state: RunState::new(),
            mail: Mail::new(),
            mail_link: AtomicPtr::new(ptr::null_mut()),
            completion: Completion::new(),
            stack: UnsafeCell::new(0),
            reset: UnsafeCell::new(false),
            sent: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    /// Runs for a while. Only the thread that has the stack may.
    fn run(&self) {
        // SAFETY: loom checks that no other thread touches it.
        self.stack.with_mut(|stack| unsafe { *stack += 1 });
    }

    fn write(&self, sender: usize) {
        // SAFETY: it is read only after it has been sent.
        self.sent[sender].with_mut(|sent| unsafe { *sent = 5 });
    }

    fn read(&self, sender: usize) {
        // SAFETY: it is not written after it has been sent.
        assert_eq!(self.sent[sender].with(|sent| unsafe { *sent }), 5);
    }

    /// Applies `event` to a migratable fiber, as any thread may. Returns true if the caller has to
    /// queue the fiber.
    fn deliver(&self, event: Transition) -> bool {
        let enqueue = self.state.apply::<ByExchange>(event) == Effect::Enqueue;
        if enqueue {
            self.run();
        }
        enqueue
    }

    /// Unparks the fiber, before or after its start. Returns true if the caller has to queue it.
    fn unpark(&self) -> bool {
        loop {
            match self.owner.load() {
                Owner::Unstarted if self.owner.leave_early(Early::UNPARK) => return false,
                Owner::Unstarted => {}
                _started => {
                    self.see_reset();
                    return self.deliver(Transition::Unpark);
                }
            }
        }
    }

    /// Checks that a caller which finds the fiber started touches its run state behind the reset.
    fn see_reset(&self) {
        // SAFETY: loom checks that the start has written it before.
        assert!(self.reset.with(|reset| unsafe { *reset }));
    }

    /// Starts a migratable fiber, as a worker does.
    fn start(&self) {
        static WORKER: u32 = 0;
        self.state.reset();
        // SAFETY: read only by a thread that finds the fiber started; loom checks that.
        self.reset.with_mut(|reset| unsafe { *reset = true });
        if self.owner.start(&WORKER).contains(Early::UNPARK) {
            let _ = self.state.apply::<ByExchange>(Transition::Unpark);
        }
    }

    /// Applies the suspension of a migratable fiber that has left its stack. Returns true if it
    /// goes on at once.
    fn settle(&self, event: Transition) -> bool {
        let goes_on = self.state.apply::<ByExchange>(event) != Effect::Suspended;
        if goes_on {
            self.run();
        }
        goes_on
    }
}

#[test]
fn a_migratable_fiber_is_resumed_once_after_it_has_left_its_stack() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let waker = spawn(&fiber, |fiber| {
            fiber.write(0);
            fiber.deliver(Transition::Unpark)
        });
        fiber.run();
        let proceeds = fiber.settle(Transition::Park);
        if proceeds {
            fiber.read(0);
        }
        assert!(waker.join().unwrap() != proceeds, "resumed once");
    });
}

#[test]
fn of_wake_and_cancel_or_interrupt_one_ends_a_migratable_fibers_wait() {
    for event in [Transition::Cancel, Transition::Interrupt] {
        loom::model(move || {
            let fiber = Arc::new(Fiber::new());
            let waker = spawn(&fiber, |fiber| fiber.deliver(Transition::Wake));
            let other = spawn(&fiber, move |fiber| fiber.deliver(event));
            fiber.run();
            let ends =
                [fiber.settle(Transition::Wait), waker.join().unwrap(), other.join().unwrap()];
            assert_eq!(ends.into_iter().filter(|&end| end).count(), 1, "resumed once");
        });
    }
}

#[test]
fn an_interrupt_or_cancel_ends_a_migratable_fibers_wait_however_far_that_has_come() {
    for event in [Transition::Cancel, Transition::Interrupt] {
        loom::model(move || {
            let fiber = Arc::new(Fiber::new());
            let other = spawn(&fiber, move |fiber| fiber.deliver(event));
            fiber.run();
            assert!(fiber.settle(Transition::Wait) != other.join().unwrap(), "resumed once");
        });
    }
}

#[test]
fn an_unpark_meets_the_start() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let unparker = spawn(&fiber, |fiber| {
            fiber.write(0);
            fiber.unpark()
        });
        fiber.start();
        fiber.run();
        let proceeds = fiber.settle(Transition::Park);
        if proceeds {
            fiber.read(0);
        }
        assert!(unparker.join().unwrap() != proceeds, "unparked once");
    });
}

#[test]
fn the_writes_before_each_of_two_early_unparks_are_seen() {
    loom::model(|| {
        let come = [AtomicBool::new(false), AtomicBool::new(false)];
        let shared = Arc::new((Fiber::new(), come));
        let unparkers = [0, 1].map(|unparker| {
            spawn(&shared, move |(fiber, come)| {
                come[unparker].store(true, Ordering::Relaxed);
                fiber.unpark()
            })
        });
        let (fiber, come) = &*shared;
        fiber.start();
        let mut suspended = false;
        while !suspended && !come.iter().all(|come| come.load(Ordering::Relaxed)) {
            suspended = !fiber.settle(Transition::Park);
        }
        let resumed = unparkers.map(|unparker| usize::from(unparker.join().unwrap()));
        assert_eq!(resumed.iter().sum::<usize>(), usize::from(suspended), "suspended for ever");
    });
}

#[test]
fn a_fiber_that_has_moved_is_seen_as_started() {
    static OTHER: u32 = 1;
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let looks = spawn(&fiber, |fiber| {
            if let Owner::Worker(_) = fiber.owner.load() {
                fiber.see_reset();
            }
        });
        fiber.start();
        spawn(&fiber, |fiber| fiber.owner.moved_to(&OTHER)).join().unwrap();
        looks.join().unwrap();
    });
}

#[test]
fn an_event_that_comes_after_the_start_is_behind_it() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let late = spawn(&fiber, |fiber| {
            if !fiber.owner.leave_early(Early::CANCEL) {
                fiber.see_reset();
            }
        });
        fiber.start();
        late.join().unwrap();
    });
}
