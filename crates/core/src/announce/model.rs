//! An owner that goes to sleep while other threads change the state that it looks at.

use std::ptr::NonNull;

use loom::sync::Arc;

use super::*;
use crate::atomic::{AtomicPtr, AtomicU32};
use crate::barrier::Fences;
use crate::fiber::Pushed;
use crate::modelled::{bounded, spawn};

#[repr(align(64))]
struct Item(AtomicPtr<Item>);

// SAFETY: the one field, that only the inbox writes.
unsafe impl Addressee for Item {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &(*this.as_ptr()).0 }
    }
}

struct Shared {
    inbox: Inbox<Item>,
    item: Item,
    idle: IdleSet,
    flag: Flag,
    /// State that is no flag: a hit, a phase.
    state: AtomicU32,
    /// Unparks that were owed.
    unparks: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(),
            item: Item(AtomicPtr::new(std::ptr::null_mut())),
            idle: IdleSet::new(1),
            flag: Flag::new(),
            state: AtomicU32::new(0),
            unparks: AtomicU32::new(0),
        })
    }

    fn announce(&self) {
        if Announcement::of_changes().finds_parked(&self.inbox) {
            self.unparks.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn raise(&self) {
        self.flag.raise();
        self.announce();
    }

    fn change(&self) {
        self.state.store(1, Ordering::Relaxed);
        self.announce();
    }

    fn mail(&self) {
        // SAFETY: in no inbox, and outlives it.
        if unsafe { self.inbox.push(NonNull::from(&self.item)) } == Pushed::OwnerParked {
            self.unparks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Parks; returns true if the owner would sleep. The models look for the unpark once all
    /// threads have ended.
    fn sleeps(&self, shares: bool) -> bool {
        let shared = shares.then_some((&self.idle, 0));
        let Some(look) = LastLook::park(&self.inbox, shared, &Fences) else { return false };
        !self.flag.is_raised_at(&look) && self.state.load(Ordering::Relaxed) == 0
    }

    fn check(&self, sleeps: bool) {
        let unparks = self.unparks.load(Ordering::Relaxed);
        assert!(unparks <= 1, "{unparks} unparks of one sleep");
        assert!(!sleeps || unparks == 1, "the owner sleeps through a change");
        assert!(!sleeps || !self.inbox.is_parked());
    }
}

#[test]
fn a_flag_is_seen_or_its_announcement_finds_the_mark() {
    loom::model(|| {
        let shared = Shared::new();
        let raises = spawn(&shared, Shared::raise);
        let sleeps = shared.sleeps(false);
        raises.join().unwrap();
        shared.check(sleeps);
    });
}

#[test]
fn an_owner_in_the_set_of_parked_workers_misses_no_change() {
    loom::model(|| {
        let shared = Shared::new();
        let changes = spawn(&shared, Shared::change);
        let sleeps = shared.sleeps(true);
        changes.join().unwrap();
        shared.check(sleeps);
    });
}

#[test]
fn of_two_changes_one_unparks() {
    bounded(2, || {
        let shared = Shared::new();
        let raises = spawn(&shared, Shared::raise);
        let changes = spawn(&shared, Shared::change);
        let sleeps = shared.sleeps(false);
        raises.join().unwrap();
        changes.join().unwrap();
        shared.check(sleeps);
    });
}

#[test]
fn of_mail_and_a_change_one_unparks() {
    bounded(2, || {
        let shared = Shared::new();
        let raises = spawn(&shared, Shared::raise);
        let mails = spawn(&shared, Shared::mail);
        let sleeps = shared.sleeps(false);
        raises.join().unwrap();
        mails.join().unwrap();
        shared.check(sleeps);
        let _ = shared.inbox.close().count();
    });
}
