//! A wait that begins while its area is closed, or while the agent that scans the area parks.

use super::*;
use crate::announce::{Announcement, LastLook};
use crate::barrier::Fences;
use crate::fiber::{Addressee, Inbox};
use crate::modelled::bounded;

struct Waited {
    armed: Arc<Armed>,
    closing: Closing,
    /// The inbox of the worker with the scanning agent.
    inbox: Inbox<Item>,
}

/// Mail that never comes.
#[repr(align(64))]
struct Item(AtomicPtr<Item>);

// SAFETY: the one field, that only the inbox writes.
unsafe impl Addressee for Item {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &(*this.as_ptr()).0 }
    }
}

impl Waited {
    fn new() -> Arc<Self> {
        Arc::new(Self { armed: Armed::new(), closing: Closing::new(), inbox: Inbox::new() })
    }

    fn area(&self) -> Area<'_, u32, UnsafeCell<u32>> {
        self.armed.area()
    }

    fn begins(&self) -> Begun {
        // SAFETY: nothing else touches the frame before it is armed.
        self.armed.frame.with_mut(|frame| unsafe { *frame = 3 });
        self.area().begin_wait(&self.closing, 0, 1, NonNull::from(&self.armed.frame))
    }

    /// Closes the area; returns the number of waiters that it woke.
    fn closes(&self) -> usize {
        let mut woken = 0;
        self.area().close(&self.closing, |_| woken += 1);
        woken
    }

    /// The agent parks; returns true if it would sleep.
    fn parks(&self) -> bool {
        let Some(_look) = LastLook::park(&self.inbox, None, &Fences) else { return false };
        self.area().find_hit(0, 1).is_none()
    }

    /// Returns true if the agent is owed an unpark.
    fn notifies(&self) -> bool {
        self.armed.write();
        Announcement::of_changes().finds_parked(&self.inbox)
    }
}

#[test]
fn a_wait_that_begins_sees_the_end_or_is_ended() {
    loom::model(|| {
        let shared = Waited::new();
        let closes = spawn(&shared, Waited::closes);
        let begun = shared.begins();
        let out = begun != Begun::Waits && shared.area().take_waiter(0).is_some();
        let woken = closes.join().unwrap();
        assert_eq!(usize::from(out) + woken, 1, "{begun:?}");
    });
}

#[test]
fn a_notification_before_the_end_is_there_at_the_end() {
    loom::model(|| {
        let shared = Waited::new();
        let closes = spawn(&shared, |shared| {
            shared.armed.write();
            shared.closes()
        });
        if shared.begins() == Begun::Closed {
            assert_eq!(shared.armed.words[0].load(Ordering::Relaxed), 1);
        }
        let _ = closes.join().unwrap();
    });
}

/// The waiter's worker is another one, so that nothing orders its begin before the last look.
#[test]
fn no_notification_is_lost_while_its_agent_parks() {
    bounded(2, || {
        let shared = Waited::new();
        let notifies = spawn(&shared, Waited::notifies);
        let parks = spawn(&shared, Waited::parks);
        let waits = shared.begins() == Begun::Waits;
        let unparked = notifies.join().unwrap();
        let sleeps = parks.join().unwrap() && !unparked;
        assert!(!waits || !sleeps, "waiter and agent sleep beside a notification");
        // An agent that is awake finds it.
        assert!(!waits || shared.armed.scan());
    });
}
