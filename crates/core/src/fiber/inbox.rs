//! Messages that ask a worker to act on its fibers, and the inbox in which they arrive.
//!
//! README.md beside this file has the protocol.

use std::marker::PhantomData;
use std::ops::{BitOr, BitOrAssign};
use std::ptr::{self, NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, const_fn, unless_weakened};

/// A set of messages about one fiber, a bit each; the messages of several senders are merged.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages(u32);

impl Messages {
    /// No message.
    pub const NONE: Messages = Messages(0);
    /// Unpark it.
    pub const UNPARK: Messages = Messages(1);
    /// End its wait, which the sender has claimed.
    pub const WAKE: Messages = Messages(2);
    /// Start it: this worker was chosen for it.
    pub const START: Messages = Messages(4);
    /// Make it unwind.
    pub const CANCEL: Messages = Messages(8);
    /// Queue it: a migratable fiber that the sender has already made active.
    pub const RUN: Messages = Messages(16);
    /// Free it once it has left the inbox: its last handle is gone.
    pub const FREE: Messages = Messages(32);
    /// Make it look why its suspension shall not last. Never sent inline.
    pub const INTERRUPT: Messages = Messages(64);
    /// Beside START: placement chose this worker, which its spawner did not name. If the worker is
    /// stuck before the start, another worker starts the fiber. Never sent inline.
    pub const MAY_LEAVE: Messages = Messages(128);

    /// Returns true if this set contains all messages of `other`.
    #[inline]
    pub fn contains(self, other: Messages) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if these messages fit into an inline message.
    #[inline]
    pub fn fits_inline(self) -> bool {
        self.0 as usize & !MESSAGES == 0
    }
}

impl BitOr for Messages {
    type Output = Messages;

    #[inline]
    fn bitor(self, other: Messages) -> Messages {
        Messages(self.0 | other.0)
    }
}

impl BitOrAssign for Messages {
    #[inline]
    fn bitor_assign(&mut self, other: Messages) {
        *self = *self | other;
    }
}

/// The messages that a fiber has received and its worker has not read: zero if it is in no inbox.
#[derive(Debug)]
pub struct Mail(AtomicU32);

/// The sender's duty after [`Mail::post`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The fiber is in no inbox: push it.
    Push,
    /// Another sender has pushed it or is about to; the reader takes this message along.
    Coalesced,
}

impl Mail {
    const_fn! {
        /// Creates a word without messages.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Mail(AtomicU32::new(0))
        }
    }

    /// Adds `messages`.
    #[inline]
    pub fn post(&self, messages: Messages) -> Posted {
        // Release: pairs with the Acquire in `collect` and in `peek`. That holds for a coalesced
        // message too: the reader's exchange follows this RMW in the release sequence, so the fiber
        // sees the sender's earlier writes. Acquire: pairs with the Release in `collect`, after
        // which the sender that finds zero may write the link.
        let ordering = unless_weakened!("mail-post", Ordering::AcqRel);
        // A guess instead of a load: `fetch_or` is a load and a compare-exchange on x86, and so
        // fetches the line twice, to be read and to be written.
        match self.0.compare_exchange(0, messages.0, ordering, Ordering::Relaxed) {
            Ok(_) => Posted::Push,
            Err(_) => self.post_slow(messages, ordering),
        }
    }

    #[cold]
    fn post_slow(&self, messages: Messages, ordering: Ordering) -> Posted {
        match self.0.fetch_or(messages.0, ordering) {
            0 => Posted::Push,
            _ => Posted::Coalesced,
        }
    }

    /// Returns the messages so far and leaves them in place, where they keep the fiber in use. For
    /// a thread that has taken the fiber out of the inbox on behalf of the owner, and may have to
    /// give it back.
    pub fn peek(&self) -> Messages {
        if cfg!(weaken = "mail-peek-collect") {
            return self.collect();
        }
        // Acquire: pairs with the Release in `post`, also of a coalesced message.
        Messages(self.0.load(unless_weakened!("mail-peek", Ordering::Acquire)))
    }

    /// Takes all messages; from now on a new one needs a new push.
    ///
    /// The caller must have taken the fiber out of the inbox, and read its link, before.
    #[inline]
    pub fn collect(&self) -> Messages {
        // Acquire: pairs with the Release in `post`. Release: pairs with the Acquire of the next
        // `post`, which finds zero; its sender then writes the link that the caller has read.
        Messages(self.0.swap(0, Ordering::AcqRel))
    }

    /// Returns true if there is no message.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint; `collect` orders.
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A type with room for the link of an inbox. The link is used for nothing else, since messages
/// arrive for a fiber while it is in a queue.
///
/// # Safety
///
/// `mail_link` must return the same field at every call, and nothing but [`Inbox`] and [`Batch`]
/// may write it.
pub unsafe trait Addressee: Sized {
    /// Returns the link field of `this`.
    ///
    /// # Safety
    ///
    /// `this` must be valid for the lifetime that the caller chooses.
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self>;

    /// Prefetches the line of `this` for writing, before its link is read. It must not read `this`:
    /// another thread may have taken it out and freed it.
    #[inline]
    fn prefetch(_this: NonNull<Self>) {}
}

/// Word of an empty inbox: its owner sleeps, or is about to.
const PARKED: usize = 1;
/// Word of a closed inbox: its owner is gone, and mail would never be read.
const CLOSED: usize = 2;
/// Mask of the low bits of a word, which hold the message bits of an inline message.
const MESSAGES: usize = 63;

/// The mail of one worker: any thread pushes, the owner takes all.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | no mail, the owner is awake |
/// | 1 | no mail, the owner is parked |
/// | 2 | closed: the owner has gone for good |
/// | address | the newest fiber of a linked list |
/// | address + bits | an *inline message*, the oldest item of the list, which needs no link |
///
/// "Parked" is a value of the word, so the push learns from its own exchange whether it must unpark
/// the owner. An inline message may stand in the word itself or at the end of the list.
///
/// Budget: an inline message is one CAS, and touches nothing of the fiber; a push is one CAS
/// besides the RMW of [`Mail::post`]; looking is one load; taking is one exchange, and one more for
/// each fiber's message word.
pub struct Inbox<T: Addressee> {
    word: AtomicPtr<T>,
    /// True while a thread other than the owner has taken mail and not yet given back its rest.
    in_hand: AtomicBool,
}

/// The sender's duty after a push.
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

// SAFETY: the inbox hands pointers from pusher to owner, published by Release and Acquire; the
// users of `T` answer for the accesses to a `T` behind them.
unsafe impl<T: Addressee> Send for Inbox<T> {}
// SAFETY: as for Send; all access is atomic.
unsafe impl<T: Addressee> Sync for Inbox<T> {}

impl<T: Addressee> Inbox<T> {
    const_fn! {
        /// Creates an empty inbox of an owner that is awake.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            const { assert!(align_of::<T>() > MESSAGES) };
            Inbox { word: AtomicPtr::new(ptr::null_mut()), in_hand: AtomicBool::new(false) }
        }
    }

    /// Sends `messages` to `item` as an inline message, if there is no mail. Otherwise returns
    /// `None`: the sender then uses [`Mail::post`] and [`push`](Self::push).
    ///
    /// # Safety
    ///
    /// `messages` is not empty, and [fits inline](Messages::fits_inline). `item` must stay valid
    /// until the message has been read, by the owner or by a thread that takes from the inbox on
    /// its behalf.
    #[inline]
    pub unsafe fn push_inline(&self, item: NonNull<T>, messages: Messages) -> Option<Pushed> {
        debug_assert!(messages != Messages::NONE && messages.fits_inline());
        let inline = item.as_ptr().map_addr(|addr| addr | messages.0 as usize);
        // Orderings and guess as in `push`.
        let success = unless_weakened!("inbox-inline", Ordering::AcqRel);
        let mut head: *mut T = ptr::null_mut();
        loop {
            let parked = head.addr() == PARKED;
            match self.word.compare_exchange_weak(head, inline, success, Ordering::Relaxed) {
                Ok(_) if parked => return Some(Pushed::OwnerParked),
                Ok(_) => return Some(Pushed::Delivered),
                Err(seen) if seen.addr() == CLOSED => return Some(Pushed::Closed),
                Err(seen) if seen.addr() > CLOSED => return None,
                Err(seen) => head = seen,
            }
        }
    }

    /// Pushes `item`.
    ///
    /// # Safety
    ///
    /// `item` must be in no inbox, and the caller has to carry it: its [`Mail`] was empty before
    /// the caller's message, or the caller has taken it from an inbox and left its messages alone.
    /// It must stay valid until a [`Batch`] has returned it and its messages are collected
    /// thereafter.
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
            // Release: pairs with the Acquire in `replace_all` and `take_all_from`. Acquire: pairs
            // with the Release in `park`, so that the last look of a parked owner at its other
            // sources comes before the sender's unpark, and with the Release of `take_all_from`,
            // which publishes the in-hand mark.
            let success = unless_weakened!("inbox-push", Ordering::AcqRel);
            match self.word.compare_exchange_weak(head, item.as_ptr(), success, Ordering::Relaxed) {
                Ok(_) if parked => return Pushed::OwnerParked,
                Ok(_) => return Pushed::Delivered,
                Err(seen) => head = seen,
            }
        }
    }

    /// Returns true if there is mail. One load: an agent calls it while it polls.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.word.load(Ordering::Relaxed).addr() > CLOSED
    }

    /// Takes all mail, oldest first. Only for the owner, while awake.
    pub fn take(&self) -> Batch<T> {
        self.replace_all(ptr::null_mut())
    }

    /// Takes all mail on behalf of the owner, oldest first. At most one thread at a time may do so,
    /// at any moment of the owner's life: a mark that the owner is parked or gone stays, since
    /// there is no mail then.
    ///
    /// A fiber that is not for the caller is pushed again, its messages [looked at](Mail::peek) but
    /// not collected: they keep it in use. The messages of an inline message are posted.
    pub fn take_from(&self) -> InHand<'_, T> {
        // Relaxed: published by the Release of the exchange in `take_all_from`.
        self.in_hand.store(true, Ordering::Relaxed);
        InHand { batch: self.take_all_from(), inbox: self }
    }

    fn take_all_from(&self) -> Batch<T> {
        if cfg!(weaken = "inbox-take-mark") {
            return self.take();
        }
        // Acquire: pairs with the Release in `push` and `push_inline`. Release: publishes the
        // in-hand mark to the Acquire of the next push.
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

    /// Returns true if a thread other than the owner has mail in hand. An inline message among it,
    /// which that thread is about to post, keeps its fiber in use.
    ///
    /// For the owner, when it reads [`Messages::FREE`]: mail that was in hand when FREE was sent is
    /// in hand still, or has been given back.
    pub fn is_in_hand(&self) -> bool {
        if cfg!(weaken = "inbox-in-hand") {
            return false;
        }
        // Acquire: pairs with the Release in the drop of `InHand`.
        self.in_hand.load(Ordering::Acquire)
    }

    /// Returns true if all mail that the caller knows of has been read or given back.
    pub fn is_settled(&self) -> bool {
        // Acquire: pairs with the Release in `park`, before which the owner has read its mail.
        let parked = unless_weakened!("inbox-settled", Ordering::Acquire);
        self.word.load(parked).addr() == PARKED && !self.is_in_hand()
    }

    /// Takes all mail and accepts no more. Only for the owner, or on its behalf once it is gone.
    pub fn close(&self) -> Batch<T> {
        let closed = if cfg!(weaken = "inbox-close") { 0 } else { CLOSED };
        self.replace_all(ptr::without_provenance_mut(closed))
    }

    fn replace_all(&self, word: *mut T) -> Batch<T> {
        // The newest item's line travels while the exchange waits for the line of the word.
        if let (Some(newest), _) = split(self.word.load(Ordering::Relaxed)) {
            T::prefetch(newest);
        }
        // Acquire: pairs with the Release in `push` and `push_inline`.
        Batch::from_newest(self.word.swap(word, Ordering::Acquire))
    }

    /// Marks the owner parked, unless there is mail: then it returns false, and the owner must not
    /// sleep.
    #[must_use]
    pub fn park(&self) -> bool {
        if cfg!(weaken = "inbox-park") {
            if self.has_mail() {
                return false;
            }
            self.word.store(ptr::without_provenance_mut(PARKED), Ordering::Release);
            return true;
        }
        // Release: pairs with the Acquire of the push that finds the mark, and with the Acquire in
        // `is_settled`. Acquire: pairs with the Release in `unpark`.
        let parked = ptr::without_provenance_mut(PARKED);
        self.word
            .compare_exchange(ptr::null_mut(), parked, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks the owner awake. Returns true if this call did so, and the caller owes the unpark. Any
    /// thread may call it; so does the owner when it wakes by itself.
    pub fn unpark(&self) -> bool {
        let parked = ptr::without_provenance_mut(PARKED);
        // AcqRel: Release pairs with the Acquire in `park`; Acquire as in `push`.
        self.word
            .compare_exchange(parked, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns true if the owner is marked parked. The answer may be out of date at once.
    pub fn is_parked(&self) -> bool {
        self.word.load(Ordering::Relaxed).addr() == PARKED
    }
}

/// Splits a word into the fiber that it names and the bits of an inline message to it.
fn split<T>(word: *mut T) -> (Option<NonNull<T>>, Messages) {
    let messages = Messages((word.addr() & MESSAGES) as u32);
    (NonNull::new(word.map_addr(|addr| addr & !MESSAGES)), messages)
}

/// Mail that was taken from an inbox, oldest first: fibers with messages in their [`Mail`], and the
/// message bits of the fiber that has an inline message instead.
///
/// An item may be pushed again once it has been returned: its link has been read.
#[must_use = "dropping a batch forgets its fibers"]
pub struct Batch<T: Addressee> {
    /// The inline message, or null.
    inline: *mut T,
    oldest: *mut T,
    owned: PhantomData<*mut T>,
}

impl<T: Addressee> Batch<T> {
    /// Reverses the list that was taken. `word` is the inbox's word, which names the newest item.
    fn from_newest(word: *mut T) -> Self {
        let mut rest = word;
        let mut oldest = ptr::null_mut();
        while let (Some(item), Messages::NONE) = split(rest) {
            T::prefetch(item);
            // SAFETY: the pusher keeps the item valid until it is taken, which is here.
            let link = unsafe { T::mail_link(item) };
            rest = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = item.as_ptr();
        }
        Batch { inline: rest, oldest, owned: PhantomData }
    }
}

impl<T: Addressee> Iterator for Batch<T> {
    type Item = (NonNull<T>, Option<Messages>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let (Some(item), messages) = split(std::mem::replace(&mut self.inline, ptr::null_mut()))
        {
            return Some((item, Some(messages)));
        }
        let item = NonNull::new(self.oldest)?;
        // SAFETY: an item is valid until its messages have been read, which is later.
        self.oldest = unsafe { T::mail_link(item) }.load(Ordering::Relaxed);
        Some((item, None))
    }
}

/// A [`Batch`] in the hands of a thread other than the owner. Dropping it says that the rest has
/// been given back.
pub struct InHand<'i, T: Addressee> {
    batch: Batch<T>,
    inbox: &'i Inbox<T>,
}

impl<T: Addressee> Iterator for InHand<'_, T> {
    type Item = (NonNull<T>, Option<Messages>);

    fn next(&mut self) -> Option<Self::Item> {
        self.batch.next()
    }
}

impl<T: Addressee> Drop for InHand<'_, T> {
    fn drop(&mut self) {
        // Release: publishes the mail that was given back to the Acquire in `is_in_hand`.
        self.inbox.in_hand.store(false, unless_weakened!("inbox-given-back", Ordering::Release));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Item(AtomicPtr<Item>);

    // SAFETY: the one field, which only the inbox writes.
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
    fn a_closed_inbox_gives_its_messages_and_takes_no_more() {
        let (inbox, item) = (Inbox::<Item>::new(), Item(AtomicPtr::default()));
        // SAFETY: the item is in no inbox and outlives it.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Delivered);
        assert_eq!(inbox.close().collect::<Vec<_>>(), [(NonNull::from(&item), None)]);
        // SAFETY: as above, and it has left the inbox.
        assert_eq!(unsafe { inbox.push(NonNull::from(&item)) }, Pushed::Closed);
        assert!(!inbox.has_mail() && inbox.close().next().is_none());
    }

    #[test]
    fn an_inline_message_comes_before_the_list_that_lies_on_it() {
        let inbox = Inbox::<Item>::new();
        let [a, b] = [(); 2].map(|()| Item(AtomicPtr::default()));
        let (message, [a, b]) = (Messages::UNPARK, [&a, &b].map(NonNull::from));
        assert!(inbox.park());
        // SAFETY: the items outlive the inbox.
        let push_inline = |item| unsafe { inbox.push_inline(item, message) };
        // SAFETY: as above, and they are in no inbox but by an inline message.
        let push = |item| unsafe { inbox.push(item) };
        assert_eq!(push_inline(a), Some(Pushed::OwnerParked));
        assert!(inbox.has_mail() && !inbox.park());
        assert_eq!(push_inline(b), None, "there is mail");
        assert_eq!(push(b), Pushed::Delivered);
        assert_eq!(push(a), Pushed::Delivered, "beside its inline message");
        let taken = inbox.take().collect::<Vec<_>>();
        assert_eq!(taken, [(a, Some(message)), (b, None), (a, None)]);
        assert_eq!(push_inline(a), Some(Pushed::Delivered));
        assert_eq!(inbox.close().collect::<Vec<_>>(), [(a, Some(message))]);
        assert_eq!(push_inline(a), Some(Pushed::Closed));
    }

    /// The batch of each way to take mail, after `messages` were pushed behind the inline message,
    /// if there is one.
    #[test]
    fn a_batch_of_any_size_is_oldest_first() {
        for (messages, inline) in (0..=5).flat_map(|messages| [(messages, false), (messages, true)])
        {
            let items: Vec<_> = (0..=messages).map(|_| Item(AtomicPtr::default())).collect();
            let sent = || items.iter().map(NonNull::from);
            let expected: Vec<_> = sent()
                .take(usize::from(inline))
                .map(|item| (item, Some(Messages::WAKE)))
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
                    inbox.push_inline(NonNull::from(&items[0]), Messages::WAKE)
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
        let pushed = unsafe { inbox.push_inline(NonNull::from(&item), Messages::WAKE) };
        assert_eq!(pushed, Some(Pushed::OwnerParked));
        assert!(!inbox.is_settled());
    }

    #[test]
    fn messages_to_one_fiber_become_one() {
        let mail = Mail::new();
        assert_eq!(mail.post(Messages::UNPARK), Posted::Push);
        assert_eq!(mail.post(Messages::WAKE), Posted::Coalesced);
        assert_eq!(mail.collect(), Messages::UNPARK | Messages::WAKE);
        assert!(mail.is_empty());
        assert_eq!(mail.post(Messages::WAKE), Posted::Push);
    }
}
