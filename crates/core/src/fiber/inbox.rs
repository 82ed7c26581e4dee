//! Mail: what others want a worker to do with its fibers.
//!
//! README.md beside this file has the protocol.

use std::marker::PhantomData;
use std::ops::{BitOr, BitOrAssign};
use std::ptr::{self, NonNull};

use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering, const_fn, unless_weakened};

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
    /// Have it unwind.
    pub const CANCEL: Letters = Letters(8);
    /// Queue it: a mover that the sender has already made active.
    pub const RUN: Letters = Letters(16);
    /// Nobody holds it any more: free it, once it has left the inbox.
    pub const FREE: Letters = Letters(32);
    /// Have it look why its suspension shall not last. It goes by mail only.
    pub const INTERRUPT: Letters = Letters(64);

    /// Whether all letters of `other` are among these.
    #[inline]
    pub fn contains(self, other: Letters) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a postcard has room for them.
    #[inline]
    pub fn fit_a_postcard(self) -> bool {
        self.0 as usize & !LETTERS == 0
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
/// The low bits of a word, where the letters of a postcard are.
const LETTERS: usize = 63;

/// The mail of one worker: any thread pushes, the owner takes all.
///
/// The word is the newest fiber of a linked list, or 0, or 1 for "empty and the owner is
/// parked": so the push learns, from its own exchange, whether it must unpark the owner. 2 says
/// that the owner has gone for good. The oldest item of the list, which needs no link, may be a
/// *postcard*: an address with letters in its low bits.
///
/// Budget: a postcard is one CAS, and touches nothing of the fiber; a push is one CAS besides the
/// RMW of [`Mail::post`]; looking is one load; taking is one exchange, and one more for each
/// fiber's mail.
pub struct Inbox<T: Addressee> {
    word: AtomicPtr<T>,
    /// Somebody else than the owner has taken mail, and not yet given back what is not for him.
    in_hand: AtomicBool,
}

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
            const { assert!(align_of::<T>() > LETTERS) };
            Inbox { word: AtomicPtr::new(ptr::null_mut()), in_hand: AtomicBool::new(false) }
        }
    }

    /// Puts `letters` to `item` in as a postcard, if there is no mail; otherwise `None`: they go
    /// through [`Mail::post`] and [`push`](Self::push) then.
    ///
    /// # Safety
    ///
    /// `item` must stay valid until the postcard has been read, by the owner or whoever takes
    /// from the inbox in its stead.
    #[inline]
    pub unsafe fn push_postcard(&self, item: NonNull<T>, letters: Letters) -> Option<Pushed> {
        debug_assert!(letters != Letters::NONE && letters.fit_a_postcard());
        let postcard = item.as_ptr().map_addr(|addr| addr | letters.0 as usize);
        // Orderings and guess as in `push`.
        let success = unless_weakened!("inbox-postcard", Ordering::AcqRel);
        let mut head: *mut T = ptr::null_mut();
        loop {
            let parked = head.addr() == PARKED;
            match self.word.compare_exchange_weak(head, postcard, success, Ordering::Relaxed) {
                Ok(_) if parked => return Some(Pushed::OwnerParked),
                Ok(_) => return Some(Pushed::Delivered),
                Err(seen) if seen.addr() == CLOSED => return Some(Pushed::Closed),
                Err(seen) if seen.addr() > CLOSED => return None,
                Err(seen) => head = seen,
            }
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
            // Release: pairs with the Acquire in `replace_all` and `take_from`. Acquire: if the
            // owner was parked, its last look at its other sources comes before our unpark.
            let success = unless_weakened!("inbox-push", Ordering::AcqRel);
            match self.word.compare_exchange_weak(head, item.as_ptr(), success, Ordering::Relaxed) {
                Ok(_) if parked => return Pushed::OwnerParked,
                Ok(_) => return Pushed::Delivered,
                Err(seen) => head = seen,
            }
        }
    }

    /// Whether there is mail. One load: what an agent does while it polls.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.word.load(Ordering::Relaxed).addr() > CLOSED
    }

    /// Takes all mail, oldest first. Only the owner, while awake.
    pub fn take(&self) -> Batch<T> {
        self.replace_all(ptr::null_mut())
    }

    /// Takes all mail in the owner's stead, oldest first. One other, whatever the owner does: a mark
    /// that it is parked or gone stays, for there is no mail then.
    ///
    /// A fiber that is not for the caller is pushed again, its letters [looked at](Mail::peek) but
    /// not collected: they keep it in use. The letters of a postcard are posted.
    pub fn take_from(&self) -> InHand<'_, T> {
        // Relaxed: published by the exchange below.
        self.in_hand.store(true, Ordering::Relaxed);
        InHand { batch: self.take_all_from(), inbox: self }
    }

    fn take_all_from(&self) -> Batch<T> {
        if cfg!(weaken = "inbox-take-mark") {
            return self.take();
        }
        // Acquire: pairs with the Release in `push`. Release: the mark that mail is in hand, for
        // the Acquire of whoever pushes next.
        let success = unless_weakened!("inbox-take-from", Ordering::AcqRel);
        let mut head = self.word.load(Ordering::Relaxed);
        while head.addr() > CLOSED
            && let Err(seen) =
                self.word.compare_exchange_weak(head, ptr::null_mut(), success, Ordering::Relaxed)
        {
            head = seen;
        }
        Batch::from_newest(head)
    }

    /// Whether mail is in the hands of somebody else than the owner: a postcard among it, which
    /// he is about to post, keeps its fiber in use.
    ///
    /// For the owner, when it reads [`Letters::FREE`]: what was in hand when that was sent, is
    /// still, or has been given back.
    pub fn is_in_hand(&self) -> bool {
        if cfg!(weaken = "inbox-in-hand") {
            return false;
        }
        // Acquire: pairs with the Release in the drop of `InHand`.
        self.in_hand.load(Ordering::Acquire)
    }

    /// Whether all mail that the caller knows of has been read, or given back.
    pub fn is_settled(&self) -> bool {
        // Acquire: pairs with the Release in `park`, before which the owner has read its mail.
        let parked = unless_weakened!("inbox-settled", Ordering::Acquire);
        self.word.load(parked).addr() == PARKED && !self.is_in_hand()
    }

    /// Takes all mail, for good: no more is accepted. Only the owner, or for it once it is gone.
    pub fn close(&self) -> Batch<T> {
        let closed = if cfg!(weaken = "inbox-close") { 0 } else { CLOSED };
        self.replace_all(ptr::without_provenance_mut(closed))
    }

    fn replace_all(&self, word: *mut T) -> Batch<T> {
        // The newest item's line travels while the exchange waits for the word's.
        if let (Some(newest), _) = split(self.word.load(Ordering::Relaxed)) {
            T::prefetch(newest);
        }
        // Acquire: pairs with the Release in `push`.
        Batch::from_newest(self.word.swap(word, Ordering::Acquire))
    }

    /// Marks the owner parked, unless there is mail: then false, and it must not sleep.
    #[must_use]
    pub fn park(&self) -> bool {
        if cfg!(weaken = "inbox-park") {
            if self.has_mail() {
                return false;
            }
            self.word.store(ptr::without_provenance_mut(PARKED), Ordering::Release);
            return true;
        }
        // Release: pairs with the Acquire of the push that finds the mark.
        let parked = ptr::without_provenance_mut(PARKED);
        self.word
            .compare_exchange(ptr::null_mut(), parked, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks the owner awake; true if the caller, who may be anyone, was the one to do it and so
    /// owes the unpark. The owner calls it too, when it wakes by itself.
    pub fn unpark(&self) -> bool {
        let parked = ptr::without_provenance_mut(PARKED);
        // AcqRel: Release pairs with the Acquire of the owner that finds itself awake; Acquire
        // as in `push`.
        self.word
            .compare_exchange(parked, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the owner is marked parked, in the eyes of whoever asks.
    pub fn is_parked(&self) -> bool {
        self.word.load(Ordering::Relaxed).addr() == PARKED
    }
}

/// The fiber that a word names, and the letters of a postcard to it.
fn split<T>(word: *mut T) -> (Option<NonNull<T>>, Letters) {
    let letters = Letters((word.addr() & LETTERS) as u32);
    (NonNull::new(word.map_addr(|addr| addr & !LETTERS)), letters)
}

/// What was taken from an inbox, oldest first: fibers that have mail, with the letters of those
/// that have a postcard instead.
///
/// An item may be pushed again once it has been returned: its link has been read.
#[must_use = "whoever drops a batch forgets its fibers"]
pub struct Batch<T: Addressee> {
    /// The postcard, or null.
    postcard: *mut T,
    oldest: *mut T,
    owned: PhantomData<*mut T>,
}

impl<T: Addressee> Batch<T> {
    /// Turns the list that was taken, whose newest item the inbox's word named, into its order.
    fn from_newest(word: *mut T) -> Self {
        let mut rest = word;
        let mut oldest = ptr::null_mut();
        while let (Some(item), Letters::NONE) = split(rest) {
            T::prefetch(item);
            // SAFETY: whoever pushed the item keeps it valid until it is taken, which is here.
            let link = unsafe { T::mail_link(item) };
            rest = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = item.as_ptr();
        }
        Batch { postcard: rest, oldest, owned: PhantomData }
    }
}

impl<T: Addressee> Iterator for Batch<T> {
    type Item = (NonNull<T>, Option<Letters>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let (Some(item), letters) = split(std::mem::replace(&mut self.postcard, ptr::null_mut()))
        {
            return Some((item, Some(letters)));
        }
        let item = NonNull::new(self.oldest)?;
        // SAFETY: an item is valid until its letters have been read, which is later.
        self.oldest = unsafe { T::mail_link(item) }.load(Ordering::Relaxed);
        Some((item, None))
    }
}

/// A [`Batch`] in the hands of somebody else than the owner: who drops it has given back what is
/// not for him.
pub struct InHand<'i, T: Addressee> {
    batch: Batch<T>,
    inbox: &'i Inbox<T>,
}

impl<T: Addressee> Iterator for InHand<'_, T> {
    type Item = (NonNull<T>, Option<Letters>);

    fn next(&mut self) -> Option<Self::Item> {
        self.batch.next()
    }
}

impl<T: Addressee> Drop for InHand<'_, T> {
    fn drop(&mut self) {
        // Release: what was given back, for the Acquire in `is_in_hand`.
        self.inbox.in_hand.store(false, unless_weakened!("inbox-given-back", Ordering::Release));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
        assert_eq!(taken, items.iter().map(|item| (NonNull::from(item), None)).collect::<Vec<_>>());
        assert!(!inbox.has_mail());
    }

    #[test]
    fn a_closed_inbox_gives_what_it_has_and_takes_no_more() {
        let (inbox, item) = (Inbox::<Item>::new(), Item(AtomicPtr::default()));
        // SAFETY: the item is in no inbox and outlives it.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Delivered);
        assert_eq!(inbox.close().collect::<Vec<_>>(), [(NonNull::from(&item), None)]);
        // SAFETY: as above, and it has left the inbox.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Closed);
        assert!(!inbox.has_mail() && inbox.close().next().is_none());
    }

    #[test]
    fn a_postcard_comes_before_the_mail_that_lies_on_it() {
        let inbox = Inbox::<Item>::new();
        let [a, b] = [(); 2].map(|()| Item(AtomicPtr::default()));
        let (letter, [a, b]) = (Letters::UNPARK, [&a, &b].map(NonNull::from));
        assert!(inbox.park());
        // SAFETY: the items outlive the inbox.
        let push_postcard = |item| unsafe { inbox.push_postcard(item, letter) };
        // SAFETY: as above, and they are in no inbox but by a postcard.
        let push = |item| unsafe { inbox.push(item) };
        assert_eq!(push_postcard(a), Some(Pushed::OwnerParked));
        assert!(inbox.has_mail() && !inbox.park());
        assert_eq!(push_postcard(b), None, "there is mail");
        assert_eq!(push(b), Pushed::Delivered);
        assert_eq!(push(a), Pushed::Delivered, "beside its postcard");
        let taken = inbox.take().collect::<Vec<_>>();
        assert_eq!(taken, [(a, Some(letter)), (b, None), (a, None)]);
        assert_eq!(push_postcard(a), Some(Pushed::Delivered));
        assert_eq!(inbox.close().collect::<Vec<_>>(), [(a, Some(letter))]);
        assert_eq!(push_postcard(a), Some(Pushed::Closed));
    }

    /// The batch of each way to take mail, after `messages` were pushed behind the inline message, if there is one.
    #[test]
    fn a_batch_of_any_size_is_oldest_first() {
        for (messages, inline) in (0..=5).flat_map(|messages| [(messages, false), (messages, true)])
        {
            let items: Vec<_> = (0..=messages).map(|_| Item(AtomicPtr::default())).collect();
            let sent = || items.iter().map(NonNull::from);
            let expected: Vec<_> = sent()
                .take(usize::from(inline))
                .map(|item| (item, Some(Letters::WAKE)))
                .chain(sent().skip(1).map(|item| (item, None)))
                .collect();
            let takes: [fn(&Inbox<Item>) -> Vec<_>; 3] = [
                |inbox| inbox.take().collect(),
                |inbox| inbox.take_from().collect(),
                |inbox| inbox.close().collect(),
            ];
            for take in takes {
                let inbox = Inbox::<Item>::new();
                // SAFETY: the items outlive the inbox.
                let pushed = inline.then(|| unsafe {
                    inbox.push_postcard(NonNull::from(&items[0]), Letters::WAKE)
                });
                assert_eq!(pushed.is_some(), inline);
                for item in sent().skip(1) {
                    // SAFETY: as above, and the items were taken out of the inbox before this one.
                    assert_eq!(unsafe { inbox.push(item) }, Pushed::Delivered);
                }
                assert_eq!(take(&inbox), expected, "{messages} messages, inline: {inline}");
                assert!(!inbox.has_mail());
            }
        }
    }

    #[test]
    fn mail_is_in_hand_until_the_rest_was_given_back() {
        let (inbox, item) = (Inbox::<Item>::new(), Item(AtomicPtr::default()));
        assert!(inbox.park() && inbox.is_settled());
        let in_hand = inbox.take_from();
        assert!(inbox.is_in_hand() && !inbox.is_settled());
        drop(in_hand);
        assert!(inbox.is_settled());
        // SAFETY: the item outlives the inbox.
        let pushed = unsafe { inbox.push_postcard(NonNull::from(&item), Letters::WAKE) };
        assert_eq!(pushed, Some(Pushed::OwnerParked));
        assert!(!inbox.is_settled());
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
