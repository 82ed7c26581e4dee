//! Mail: what others want a worker to do with its fibers.
//!
//! README.md beside this file has the protocol.

use std::marker::PhantomData;
use std::ops::{BitOr, BitOrAssign};
use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicU32, Ordering, const_fn, unless_weakened};

/// What mail about a fiber says; several letters to one fiber become one.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Letters(u32);

impl Letters {
    /// No letter.
    pub const NONE: Letters = Letters(0);
    /// Unpark it.
    pub const UNPARK: Letters = Letters(1);
    /// End its wait, which the sender has claimed.
    pub const WAKE: Letters = Letters(2);
    /// Start it: the sender's placement chose this worker.
    pub const START: Letters = Letters(4);
    /// Queue it: a mover that the sender has already made active.
    pub const RUN: Letters = Letters(16);
    /// Nobody holds it any more: free it, once it has left the inbox.
    pub const FREE: Letters = Letters(32);

    /// Whether all letters of `other` are among these.
    #[inline]
    pub fn contains(self, other: Letters) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Letters {
    type Output = Letters;

    #[inline]
    fn bitor(self, other: Letters) -> Letters {
        Letters(self.0 | other.0)
    }
}

impl BitOrAssign for Letters {
    #[inline]
    fn bitor_assign(&mut self, other: Letters) {
        *self = *self | other;
    }
}

/// The letters that a fiber has got and its worker has not read: zero when it is in no inbox.
#[derive(Debug)]
pub struct Mail(AtomicU32);

/// Whether the sender must carry the fiber to the inbox.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The fiber is in no inbox: push it.
    Push,
    /// Another sender has pushed it or is about to: the letter is read along with his.
    Coalesced,
}

impl Mail {
    const_fn! {
        /// No letters.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Mail(AtomicU32::new(0))
        }
    }

    /// Adds `letters`.
    #[inline]
    pub fn post(&self, letters: Letters) -> Posted {
        // Release: pairs with the Acquire in `collect`, also when coalesced: the reader's
        // exchange follows this RMW, so what the sender did before is seen by the fiber.
        let ordering = unless_weakened!("mail-post", Ordering::AcqRel);
        // A guess first: `fetch_or` is a load and a compare-exchange on x86, and so fetches the
        // line twice, to be read and to be written.
        match self.0.compare_exchange(0, letters.0, ordering, Ordering::Relaxed) {
            Ok(_) => Posted::Push,
            Err(_) => self.post_slow(letters, ordering),
        }
    }

    #[cold]
    fn post_slow(&self, letters: Letters, ordering: Ordering) -> Posted {
        match self.0.fetch_or(letters.0, ordering) {
            0 => Posted::Push,
            _ => Posted::Coalesced,
        }
    }

    /// The letters so far, left where they are: they keep the fiber in use. For whoever has taken
    /// it out of the inbox in the owner's stead, and may have to give it back.
    pub fn peek(&self) -> Letters {
        if cfg!(weaken = "mail-peek-collect") {
            return self.collect();
        }
        // Acquire: pairs with the Release in `post`, also when coalesced.
        Letters(self.0.load(unless_weakened!("mail-peek", Ordering::Acquire)))
    }

    /// Takes all letters; from now on a new one needs a new push.
    ///
    /// The caller must have taken the fiber out of the inbox, and read its link, before.
    #[inline]
    pub fn collect(&self) -> Letters {
        // Acquire: pairs with the Release in `post`. Release: the next sender, who finds zero
        // and writes the link, comes after the caller has read it.
        Letters(self.0.swap(0, Ordering::AcqRel))
    }

    /// Whether letters wait.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint; `collect` orders.
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A type with room for the link of an inbox: one of its own, since mail comes for a fiber while
/// it is in a queue.
///
/// # Safety
///
/// `mail_link` must return the same field at every call, and nothing but [`Inbox`] and [`Batch`]
/// may write it.
pub unsafe trait Addressee: Sized {
    /// The link field of `this`.
    ///
    /// # Safety
    ///
    /// `this` must be valid for the lifetime that the caller chooses.
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self>;

    /// Asks for the line of `this` to be written: called before its link is read. Not to be read:
    /// another may have taken `this` out, and freed it.
    #[inline]
    fn prefetch(_this: NonNull<Self>) {}
}

/// "The owner is parked": an inbox without mail whose owner sleeps, or is about to.
const PARKED: usize = 1;
/// "The owner is gone": nobody will read.
const CLOSED: usize = 2;

/// The mail of one worker: any thread pushes, the owner takes all.
///
/// The word is the newest fiber of a linked list, or 0, or 1 for "empty and the owner is
/// parked": so the push learns, from its own exchange, whether it must unpark the owner. 2 says
/// that the owner has gone for good.
///
/// Budget: a push is one CAS besides the RMW of [`Mail::post`]; looking is one load; taking is
/// one exchange, and one more for each fiber's mail.
pub struct Inbox<T: Addressee>(AtomicPtr<T>);

/// Whether the sender owes the owner an unpark.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The owner is awake and will look.
    Delivered,
    /// The owner was parked; it is now marked awake, and this sender must unpark it.
    OwnerParked,
    /// The owner is gone; the item was not put in.
    Closed,
}

// SAFETY: the inbox hands pointers from pusher to owner, published by Release and Acquire; what
// may be done with a `T` behind them is up to the users of `T`.
unsafe impl<T: Addressee> Send for Inbox<T> {}
// SAFETY: as for Send; all access is atomic.
unsafe impl<T: Addressee> Sync for Inbox<T> {}

impl<T: Addressee> Inbox<T> {
    const_fn! {
        /// An inbox without mail whose owner is awake.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Inbox(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Puts `item` in.
    ///
    /// # Safety
    ///
    /// `item` must be in no inbox, and the caller the one to carry it: its [`Mail`] was empty before
    /// the caller's letter, or the caller has taken it from an inbox and left its letters alone. It
    /// must stay valid until it is taken out and its letters are collected.
    #[inline]
    pub unsafe fn push(&self, item: NonNull<T>) -> Pushed {
        // A guess instead of a load, which would fetch the line a first time, to be read.
        let mut head: *mut T = ptr::null_mut();
        loop {
            if head.addr() == CLOSED {
                return Pushed::Closed;
            }
            let parked = head.addr() == PARKED;
            let next = if parked { ptr::null_mut() } else { head };
            // SAFETY: `item` is valid, by this function's contract.
            unsafe { T::mail_link(item) }.store(next, Ordering::Relaxed);
            // Release: pairs with the Acquire in `replace_all` and `take_from`. Acquire: if the owner was parked, its
            // last look at its other sources comes before our unpark.
            let success = unless_weakened!("inbox-push", Ordering::AcqRel);
            match self.0.compare_exchange_weak(head, item.as_ptr(), success, Ordering::Relaxed) {
                Ok(_) if parked => return Pushed::OwnerParked,
                Ok(_) => return Pushed::Delivered,
                Err(seen) => head = seen,
            }
        }
    }

    /// Whether there is mail. One load: what an agent does while it polls.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.0.load(Ordering::Relaxed).addr() > CLOSED
    }

    /// Takes all mail, oldest first. Only the owner, while awake.
    pub fn take(&self) -> Batch<T> {
        self.replace_all(ptr::null_mut())
    }

    /// Takes all mail in the owner's stead, oldest first. Anyone, whatever the owner does: a mark
    /// that it is parked or gone stays, for there is no mail then.
    ///
    /// A fiber that is not for the caller is pushed again, its letters [looked at](Mail::peek) but
    /// not collected: they keep it in use.
    pub fn take_from(&self) -> Batch<T> {
        if cfg!(weaken = "inbox-take-mark") {
            return self.take();
        }
        // Acquire: pairs with the Release in `push`.
        let success = unless_weakened!("inbox-take-from", Ordering::Acquire);
        let mut head = self.0.load(Ordering::Relaxed);
        while head.addr() > CLOSED
            && let Err(seen) =
                self.0.compare_exchange_weak(head, ptr::null_mut(), success, Ordering::Relaxed)
        {
            head = seen;
        }
        Batch::from_newest(head)
    }

    /// Takes all mail, for good: no more is accepted. Only the owner, or for it once it is gone.
    pub fn close(&self) -> Batch<T> {
        let closed = if cfg!(weaken = "inbox-close") { 0 } else { CLOSED };
        self.replace_all(ptr::without_provenance_mut(closed))
    }

    fn replace_all(&self, word: *mut T) -> Batch<T> {
        // The newest item's line travels while the exchange waits for the word's.
        if let Some(newest) = NonNull::new(self.0.load(Ordering::Relaxed))
            && newest.addr().get() > CLOSED
        {
            T::prefetch(newest);
        }
        // Acquire: pairs with the Release in `push`.
        Batch::from_newest(self.0.swap(word, Ordering::Acquire))
    }

    /// Marks the owner parked, unless there is mail: then false, and it must not sleep.
    #[must_use]
    pub fn park(&self) -> bool {
        if cfg!(weaken = "inbox-park") {
            if self.has_mail() {
                return false;
            }
            self.0.store(ptr::without_provenance_mut(PARKED), Ordering::Release);
            return true;
        }
        // Release: pairs with the Acquire of the push that finds the mark.
        let parked = ptr::without_provenance_mut(PARKED);
        self.0
            .compare_exchange(ptr::null_mut(), parked, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks the owner awake; true if the caller, who may be anyone, was the one to do it and so
    /// owes the unpark. The owner calls it too, when it wakes by itself.
    pub fn unpark(&self) -> bool {
        let parked = ptr::without_provenance_mut(PARKED);
        // AcqRel: Release pairs with the Acquire of the owner that finds itself awake; Acquire
        // as in `push`.
        self.0
            .compare_exchange(parked, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the owner is marked parked, in the eyes of whoever asks.
    pub fn is_parked(&self) -> bool {
        self.0.load(Ordering::Relaxed).addr() == PARKED
    }
}

/// What was taken from an inbox, oldest first.
///
/// An item may be pushed again once it has been returned: its link has been read.
#[must_use = "whoever drops a batch forgets its fibers"]
pub struct Batch<T: Addressee> {
    oldest: *mut T,
    owned: PhantomData<*mut T>,
}

impl<T: Addressee> Batch<T> {
    /// Turns the list that was taken, whose newest item the inbox's word named, into its order.
    fn from_newest(word: *mut T) -> Self {
        let mut rest = if word.addr() > CLOSED { word } else { ptr::null_mut() };
        let mut oldest = ptr::null_mut();
        while let Some(item) = NonNull::new(rest) {
            T::prefetch(item);
            // SAFETY: whoever pushed the item keeps it valid until it is taken, which is here.
            let link = unsafe { T::mail_link(item) };
            rest = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = item.as_ptr();
        }
        Batch { oldest, owned: PhantomData }
    }
}

impl<T: Addressee> Iterator for Batch<T> {
    type Item = NonNull<T>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<T>> {
        let item = NonNull::new(self.oldest)?;
        // SAFETY: an item is valid until its letters have been read, which is later.
        self.oldest = unsafe { T::mail_link(item) }.load(Ordering::Relaxed);
        Some(item)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Item(AtomicPtr<Item>);

    // SAFETY: the one field, that only the inbox writes.
    unsafe impl Addressee for Item {
        unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
            // SAFETY: valid, by the contract of `mail_link`.
            unsafe { &this.as_ref().0 }
        }
    }

    #[test]
    fn mail_arrives_in_order_and_a_parked_owner_is_reported_once() {
        let inbox = Inbox::<Item>::new();
        let items: Vec<_> = (0..3).map(|_| Item(AtomicPtr::default())).collect();
        assert!(inbox.park());
        assert!(inbox.is_parked() && !inbox.has_mail());
        let pushed: Vec<_> =
            // SAFETY: the items are in no inbox and outlive it.
            items.iter().map(|item| unsafe { inbox.push(NonNull::from(item)) }).collect();
        assert_eq!(pushed, [Pushed::OwnerParked, Pushed::Delivered, Pushed::Delivered]);
        assert!(!inbox.park(), "there is mail");
        let taken: Vec<_> = inbox.take().collect();
        assert_eq!(taken, items.iter().map(NonNull::from).collect::<Vec<_>>());
        assert!(!inbox.has_mail());
    }

    #[test]
    fn a_closed_inbox_gives_what_it_has_and_takes_no_more() {
        let (inbox, item) = (Inbox::<Item>::new(), Item(AtomicPtr::default()));
        // SAFETY: the item is in no inbox and outlives it.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Delivered);
        assert_eq!(inbox.close().collect::<Vec<_>>(), [NonNull::from(&item)]);
        // SAFETY: as above, and it has left the inbox.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Closed);
        assert!(!inbox.has_mail() && inbox.close().next().is_none());
    }

    #[test]
    fn letters_to_one_fiber_become_one() {
        let mail = Mail::new();
        assert_eq!(mail.post(Letters::UNPARK), Posted::Push);
        assert_eq!(mail.post(Letters::WAKE), Posted::Coalesced);
        assert_eq!(mail.collect(), Letters::UNPARK | Letters::WAKE);
        assert!(mail.is_empty());
        assert_eq!(mail.post(Letters::WAKE), Posted::Push);
    }
}
