//! The slots of one client of a service, and its calls that wait for them.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job, and so is
//! the claim of a slot of the service.

mod word;

use std::array;
use std::ptr::NonNull;

use self::word::{Leader, WaitingCalls};
use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence, fence_behind_rmw, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Largest number of slots of one client.
pub const MOST_SLOTS: usize = if cfg!(loom) { 4 } else { 64 };

/// The place of a slot among those of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotIndex(u32);

impl SlotIndex {
    const LAST: u32 = 63;

    /// The note of a claimed follower that is the leader now.
    const LEAD: u8 = 64;

    const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// The slots that a client has claimed, and the calls that wait for a slot.
///
/// Budget without waiting calls: a load and one RMW to take a slot; two loads and one RMW to give
/// it back, all of the first line.
#[repr(C, align(64))]
pub struct ClientSlots<W> {
    /// A bit for each slot in which a call may begin. Set by its last holder, cleared by the next.
    free: AtomicU64,
    /// The followers, and in its word the [`WaitingCalls`].
    queue: WaitQueue<W>,
    /// Number of slots that the client may have.
    share: u32,
    /// Numbers of the slots within the service. An unclaimed one is claimed by any caller; a
    /// claimed one is given up by its holder.
    numbers: [AtomicU32; MOST_SLOTS],
}

/// The outcome for a call that found no free slot.
#[must_use = "the caller has a slot, leads, or waits"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEntry {
    /// A slot was free after all.
    Taken(SlotIndex),
    /// The call is the leader, until it [resigns](ClientSlots::resign).
    Leads,
    /// The call is in the queue: its node is claimed with a [`SlotGrant`].
    Follows,
}

/// The reason for which a follower was claimed.
#[must_use = "the slot is to be used or given back, the leader is to resign"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotGrant {
    /// It has this slot.
    Slot(SlotIndex),
    /// It is the leader, until it [resigns](ClientSlots::resign).
    Lead,
}

impl SlotGrant {
    /// Returns the grant that the note of a claimed node stands for.
    pub fn of(note: u8) -> Self {
        match note {
            SlotIndex::LEAD => SlotGrant::Lead,
            index => SlotGrant::Slot(SlotIndex(u32::from(index))),
        }
    }
}

/// A slot that is owed to a waiting call: this one, or a free one.
#[must_use = "the slot is to be handed over"]
#[derive(Debug, PartialEq, Eq)]
pub struct SlotOwed(Option<SlotIndex>);

/// The receiver of a slot that was handed over.
#[must_use = "the call that got it is to be woken"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotReceiver<W> {
    /// It is free, or another call has it.
    None,
    /// This follower has it, and is to be woken.
    Follower(W),
    /// The leader has it, and the doorbell is to be rung, if it has registered one.
    Leader(Option<u32>),
}

/// The end of a leader.
#[must_use = "the slot is to be used or given back, the successor is to be woken"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resigned<W> {
    /// The slot that it was granted.
    pub granted: Option<SlotIndex>,
    /// The follower that is the leader now.
    pub successor: Option<W>,
}

impl<W: Copy> ClientSlots<W> {
    const UNCLAIMED: u32 = u32::MAX;

    /// Creates an empty set, for at most `share` slots.
    ///
    /// # Panics
    ///
    /// If these are more than [`MOST_SLOTS`].
    pub fn new(share: u32) -> Self {
        assert!(share as usize <= MOST_SLOTS);
        ClientSlots {
            free: AtomicU64::new(0),
            queue: WaitQueue::new(WaitingCalls::NONE.bits()),
            share,
            numbers: array::from_fn(|_| AtomicU32::new(Self::UNCLAIMED)),
        }
    }

    /// Takes a free slot.
    #[inline]
    pub fn try_take(&self) -> Option<SlotIndex> {
        let mut free = self.free.load(Ordering::Relaxed);
        while free != 0 {
            let left = free & (free - 1);
            // Acquire: pairs with the Release in `put`.
            let (came, failed) = (Ordering::Acquire, Ordering::Relaxed);
            match self.free.compare_exchange_weak(free, left, came, failed) {
                Ok(_) => return Some(SlotIndex(free.trailing_zeros())),
                Err(now) => free = now,
            }
        }
        None
    }

    /// Makes a slot free.
    #[inline]
    fn put(&self, index: SlotIndex) {
        // Release: pairs with the Acquire in `try_take`.
        self.free.fetch_or(index.bit(), unless_weakened!("slots-release", Ordering::Release));
    }

    /// Gives a slot back, for the next call; or returns it for the call that has waited longest.
    #[inline]
    pub fn give_back(&self, index: SlotIndex) -> Option<SlotOwed> {
        // So that no new call overtakes those that wait.
        if self.waiting().expect_slot() {
            return Some(SlotOwed(Some(index)));
        }
        self.put(index);
        if !cfg!(weaken = "slots-give-back") {
            // Pairs with the fence in `enter`: either this caller sees the waiting call, or that
            // one sees the free slot.
            fence_behind_rmw();
        }
        if self.waiting().expect_slot() {
            return Some(SlotOwed(None));
        }
        None
    }

    /// Hands the slot over to the call that has waited longest.
    #[cold]
    pub fn hand_over(&self, by: &impl Contender, owed: SlotOwed) -> SlotReceiver<W> {
        let mut queue = self.queue.lock(by);
        let waiting = self.waiting();
        let Some(index) = owed.0.or_else(|| self.try_take()) else { return SlotReceiver::None };
        // The leader has waited longest.
        if waiting.leader() == Leader::Leading {
            self.set(waiting.led_by(Leader::Granted(index)));
            return SlotReceiver::Leader(waiting.bell());
        }
        let Some(follower) = queue.claim_first(index.0 as u8) else {
            // They have left. The next to come takes the lock, and sees it.
            self.put(index);
            return SlotReceiver::None;
        };
        self.set(waiting.with_followers(!queue.is_empty()));
        SlotReceiver::Follower(follower)
    }

    /// Takes a slot, or has the caller wait for one, as the leader or in the queue. The caller has
    /// tried to claim another slot of the service before.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`]; the queue is left by [`leave`](Self::leave).
    pub unsafe fn enter(&self, by: &impl Contender, node: NonNull<Node<W>>) -> SlotEntry {
        let mut queue = self.queue.lock(by);
        let before = self.waiting();
        if !before.expect_slot() {
            let leads = before.leader() == Leader::None && self.has_room();
            self.set(match leads {
                true => before.led_by(Leader::Leading),
                false => before.with_followers(true),
            });
            if !cfg!(weaken = "slots-enter") {
                // Pairs with the fence in `give_back`.
                fence(Ordering::SeqCst);
            }
            if let Some(index) = self.try_take() {
                self.set(before);
                return SlotEntry::Taken(index);
            }
            if leads {
                return SlotEntry::Leads;
            }
        } else {
            self.set(before.with_followers(true));
        }
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(node) };
        SlotEntry::Follows
    }

    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// [`Unlinked::AlreadyGone`]: its call is woken, and has its [`SlotGrant`].
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to [`enter`](Self::enter) of these slots last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        let mut queue = self.queue.lock(by);
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { queue.unlink(node) };
        self.set(self.waiting().with_followers(!queue.is_empty()));
        unlinked
    }

    /// Registers the doorbell that the leader, the caller, is about to sleep on, before it looks.
    pub fn listen(&self, by: &impl Contender, bell: Option<u32>) {
        let _queue = self.queue.lock(by);
        self.set(self.waiting().with_bell(bell));
    }

    /// Whether the leader, the caller, was granted a slot: that is in what it
    /// [resigns](Self::resign) with.
    #[inline]
    pub fn is_granted(&self) -> bool {
        matches!(self.waiting().leader(), Leader::Granted(_))
    }

    /// Ends the leader, which is the caller.
    pub fn resign(&self, by: &impl Contender) -> Resigned<W> {
        let mut queue = self.queue.lock(by);
        let granted = match self.waiting().leader() {
            Leader::Granted(index) => Some(index),
            _ => None,
        };
        self.set(self.waiting().led_by(Leader::None));
        let successor = if cfg!(weaken = "slots-resign") { None } else { self.succeed(&mut queue) };
        Resigned { granted, successor }
    }

    /// Makes a follower the leader, if the client may claim another slot, and has no leader. For a
    /// caller that has given a slot [up](Self::give_up).
    #[must_use = "the leader is to be woken"]
    pub fn elect(&self, by: &impl Contender) -> Option<W> {
        let mut queue = self.queue.lock(by);
        if self.waiting().leader() != Leader::None {
            return None;
        }
        self.succeed(&mut queue)
    }

    /// Makes the first follower the leader, if there is room for another slot.
    fn succeed(&self, queue: &mut Locked<'_, W>) -> Option<W> {
        if !self.has_room() {
            return None;
        }
        let successor = queue.claim_first(SlotIndex::LEAD)?;
        let waiting = self.waiting().with_followers(!queue.is_empty());
        self.set(waiting.led_by(Leader::Leading));
        Some(successor)
    }

    #[inline]
    fn waiting(&self) -> WaitingCalls {
        // Relaxed: ordered by the queue lock, or by the fences in `enter` and `give_back`; a leader
        // that sees its grant takes the lock to have it.
        WaitingCalls::from_bits(self.queue.word().load(Ordering::Relaxed))
    }

    /// Changes the word, under the queue lock.
    ///
    /// By an exchange, because a grant is followed by the ring of a doorbell, which takes a
    /// read-modify-write for its barrier.
    fn set(&self, to: WaitingCalls) {
        // Relaxed: as in `waiting`.
        self.queue.word().swap(to.bits(), Ordering::Relaxed);
    }

    /// Returns the number of a slot within the service.
    #[inline]
    pub fn number(&self, index: SlotIndex) -> u32 {
        // Relaxed: passes with the slot.
        self.numbers[index.0 as usize].load(Ordering::Relaxed)
    }

    /// Whether the client may claim another slot.
    pub fn has_room(&self) -> bool {
        self.share().iter().any(|number| number.load(Ordering::Relaxed) == Self::UNCLAIMED)
    }

    /// Adds a slot that the caller has claimed, and is to use; `None`: there is no room.
    pub fn add(&self, number: u32) -> Option<SlotIndex> {
        debug_assert_ne!(number, Self::UNCLAIMED);
        let (came, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let add =
            |to: &AtomicU32| to.compare_exchange(Self::UNCLAIMED, number, came, failed).is_ok();
        self.share().iter().position(add).map(|index| SlotIndex(index as u32))
    }

    /// Gives a slot up that the caller holds; returns its number. The caller then
    /// [elects](Self::elect) a leader, as there is room.
    #[must_use = "the slot of the service is claimed until it is freed"]
    pub fn give_up(&self, index: SlotIndex) -> u32 {
        // Relaxed: `elect` takes the lock, under which room is looked for.
        self.numbers[index.0 as usize].swap(Self::UNCLAIMED, Ordering::Relaxed)
    }

    fn share(&self) -> &[AtomicU32] {
        &self.numbers[..self.share as usize]
    }

    /// Returns the numbers of all claimed slots, while none is used.
    pub fn claimed(&mut self) -> impl Iterator<Item = u32> {
        let numbers = self.numbers.iter().map(|number| number.load(Ordering::Relaxed));
        numbers.filter(|&number| number != Self::UNCLAIMED)
    }
}
