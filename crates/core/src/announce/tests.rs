//! One step after the other.

use std::ptr::NonNull;

use super::*;
use crate::atomic::AtomicPtr;
use crate::barrier::Fences;
use crate::barrier::testing::{Half, PassedHalves};

#[repr(align(64))]
struct Item(AtomicPtr<Item>);

// SAFETY: the one field, that only the inbox writes.
unsafe impl Addressee for Item {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &this.as_ref().0 }
    }
}

#[test]
fn a_parked_owner_is_owed_one_unpark() {
    let (inbox, flag) = (Inbox::<Item>::new(), Flag::new());
    let look = LastLook::park(&inbox, None, &Fences).unwrap();
    assert!(!flag.is_raised_at(&look));
    flag.raise();
    assert!(Announcement::of_changes().finds_parked(&inbox));
    assert!(!Announcement::of_changes().finds_parked(&inbox) && !inbox.is_parked());
    assert!(flag.is_raised());
    flag.lower();
    assert!(!flag.is_raised());
}

#[test]
fn an_owner_that_takes_shared_work_is_in_the_set_behind_its_mark() {
    let (inbox, idle) = (Inbox::<Item>::new(), IdleSet::new(4));
    assert!(LastLook::park(&inbox, Some((&idle, 2)), &Fences).is_some());
    assert!(idle.contains(2) && inbox.is_parked());
}

#[test]
fn an_owner_with_mail_stays_awake() {
    let (inbox, idle, item) = (Inbox::<Item>::new(), IdleSet::new(1), Item(AtomicPtr::default()));
    // SAFETY: in no inbox, and outlives it.
    let _ = unsafe { inbox.push(NonNull::from(&item)) };
    assert!(LastLook::park(&inbox, Some((&idle, 0)), &Fences).is_none());
    assert!(!inbox.is_parked() && idle.is_empty());
}

#[test]
fn an_owner_that_parks_passes_one_heavy_half() {
    let (idle, halves) = (IdleSet::new(1), PassedHalves::default());
    for shared in [None, Some((&idle, 0))] {
        assert!(LastLook::park(&Inbox::<Item>::new(), shared, &halves).is_some());
        assert_eq!(halves.take(), [Half::Heavy]);
    }
}
