//! Calls that want slots of a client, a leader among them, a release, and a call that leaves.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};

use super::*;
use crate::doorbell::{Doorbell, RingOutcome};
use crate::modelled::{Waiters, bounded, spawn};

/// Number of calls of a model.
const CALLS: usize = 3;

struct Shared {
    slots: ClientSlots<usize>,
    waiters: Waiters<CALLS>,
    /// Doorbells of the leaders, and the place where each sleeps.
    bells: [(Doorbell, Notify); CALLS],
    /// Free slots of the service, which stand for those of other clients.
    elsewhere: AtomicU32,
    /// Messages in the slots, each written by its holder.
    messages: [UnsafeCell<u32>; MOST_SLOTS],
}

// SAFETY: the model checks that a slot has one holder at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    /// Creates a client that has claimed and holds `held` of at most `share` slots.
    fn new(share: u32, held: u32) -> Arc<Self> {
        let shared = Self {
            slots: ClientSlots::new(share),
            waiters: Waiters::new(),
            bells: array::from_fn(|_| (Doorbell::new(), Notify::new())),
            elsewhere: AtomicU32::new(0),
            messages: array::from_fn(|_| UnsafeCell::new(0)),
        };
        (0..held).for_each(|number| assert!(shared.slots.add(number).is_some()));
        Arc::new(shared)
    }

    fn ring(&self, caller: usize) {
        let (bell, sleep) = &self.bells[caller];
        if bell.ring_behind(None) == RingOutcome::Asleep {
            sleep.notify();
        }
    }

    /// Frees a slot of the service.
    fn free_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Ordering::Release);
        (0..CALLS).for_each(|caller| self.ring(caller));
    }

    fn claim_another(&self) -> Option<SlotIndex> {
        if !self.slots.has_room() {
            return None;
        }
        let (came, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let less = |free: u32| free.checked_sub(1);
        self.elsewhere.fetch_update(came, failed, less).ok()?;
        let added = self.slots.add(7);
        if added.is_none() {
            self.free_elsewhere();
        }
        added
    }

    fn claim(&self, caller: usize) -> SlotIndex {
        if let Some(index) = self.slots.try_take().or_else(|| self.claim_another()) {
            return index;
        }
        let node = Node::new(caller);
        // SAFETY: the node is in no queue, and stays until it is claimed.
        match unsafe { self.slots.enter(&Waiters::<CALLS>::by(caller), NonNull::from(&node)) } {
            SlotEntry::Taken(index) => index,
            SlotEntry::Leads => self.lead(caller),
            SlotEntry::Follows => self.claimed(caller, self.waiters.wait(caller, &node)),
        }
    }

    /// Goes on as a follower that was claimed with `note`.
    fn claimed(&self, caller: usize, note: u8) -> SlotIndex {
        match SlotGrant::of(note) {
            SlotGrant::Slot(index) => index,
            SlotGrant::Lead => self.lead(caller),
        }
    }

    fn lead(&self, caller: usize) -> SlotIndex {
        let (bell, sleep) = &self.bells[caller];
        loop {
            self.slots.listen(&Waiters::<CALLS>::by(caller), Some(caller as u32));
            let found = self.slots.try_take().or_else(|| self.claim_another());
            if found.is_some() || self.slots.is_granted() {
                let granted = self.resign(caller);
                return found
                    .or(granted)
                    .inspect(|&index| {
                        if let Some(granted) = granted.filter(|&granted| granted != index) {
                            self.give_back(caller, granted);
                        }
                    })
                    .unwrap();
            }
            bell.park();
            if !self.slots.is_granted() && self.elsewhere.load(Ordering::Acquire) == 0 {
                sleep.wait();
            }
            bell.unpark();
        }
    }

    fn resign(&self, caller: usize) -> Option<SlotIndex> {
        let Resigned { granted, successor } = self.slots.resign(&Waiters::<CALLS>::by(caller));
        self.waiters.wake(successor);
        granted
    }

    fn write(&self, index: SlotIndex) {
        // SAFETY: the caller holds the slot.
        self.messages[index.0 as usize].with_mut(|message| unsafe { *message += 1 });
    }

    fn give_back(&self, caller: usize, index: SlotIndex) {
        let Some(owed) = self.slots.give_back(index) else { return };
        match self.slots.hand_over(&Waiters::<CALLS>::by(caller), owed) {
            SlotReceiver::None | SlotReceiver::Leader(None) => {}
            SlotReceiver::Leader(Some(bell)) => self.ring(bell as usize),
            SlotReceiver::Follower(call) => self.waiters.wake([call]),
        }
    }

    fn call(&self, caller: usize) {
        let index = self.claim(caller);
        self.write(index);
        self.give_back(caller, index);
    }

    /// Asks for a slot, and leaves without one if it has to wait.
    fn ask(&self, caller: usize) {
        let (by, node) = (Waiters::<CALLS>::by(caller), Node::new(caller));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        let index = match unsafe { self.slots.enter(&by, NonNull::from(&node)) } {
            SlotEntry::Taken(index) => Some(index),
            SlotEntry::Leads => self.resign(caller),
            // SAFETY: alive, and queued here.
            SlotEntry::Follows => match unsafe { self.slots.leave(&by, NonNull::from(&node)) } {
                Unlinked::Mine => None,
                Unlinked::AlreadyGone => match SlotGrant::of(self.waiters.wait(caller, &node)) {
                    SlotGrant::Slot(index) => Some(index),
                    SlotGrant::Lead => self.resign(caller),
                },
            },
        };
        if let Some(index) = index {
            self.write(index);
            self.give_back(caller, index);
        }
    }

    /// Returns the number of free slots, once all threads have ended, and that of their messages.
    fn ended(&self) -> (u32, u32) {
        // SAFETY: all other threads have ended.
        let messages = self.messages.iter().map(|one| one.with(|message| unsafe { *message }));
        assert_eq!(self.slots.waiting(), WaitingCalls::NONE);
        (self.slots.free.load(Ordering::Relaxed).count_ones(), messages.sum())
    }
}

/// A client with all the slots that it may have.
#[test]
fn a_slot_passes_from_call_to_call() {
    bounded(3, || {
        let shared = Shared::new(1, 1);
        let calls = spawn(&shared, |shared| shared.call(1));
        shared.write(SlotIndex(0));
        shared.give_back(0, SlotIndex(0));
        shared.call(0);
        calls.join().unwrap();
        assert_eq!(shared.ended(), (1, 3));
    });
}

#[test]
fn a_leader_and_its_follower_have_the_slot_in_turn() {
    bounded(2, || {
        let shared = Shared::new(2, 1);
        let calls = [1, 2].map(|caller| spawn(&shared, move |shared| shared.call(caller)));
        shared.write(SlotIndex(0));
        shared.give_back(0, SlotIndex(0));
        calls.into_iter().for_each(|call| call.join().unwrap());
        assert_eq!(shared.ended(), (1, 3));
    });
}

#[test]
fn a_leader_takes_a_slot_of_the_service_or_one_of_its_own() {
    bounded(2, || {
        let shared = Shared::new(2, 1);
        let leads = spawn(&shared, |shared| shared.call(1));
        let frees = spawn(&shared, |shared| shared.free_elsewhere());
        shared.give_back(0, SlotIndex(0));
        leads.join().unwrap();
        frees.join().unwrap();
        let (free, messages) = shared.ended();
        assert_eq!((free + shared.elsewhere.load(Ordering::Relaxed), messages), (2, 1));
    });
}

/// All the slots of the client stay in use; another client leaves two of its own.
#[test]
fn a_follower_succeeds_the_leader() {
    bounded(2, || {
        let shared = Shared::new(3, 1);
        let calls = [1, 2].map(|caller| {
            spawn(&shared, move |shared| {
                let index = shared.claim(caller);
                shared.write(index);
            })
        });
        shared.free_elsewhere();
        shared.free_elsewhere();
        calls.into_iter().for_each(|call| call.join().unwrap());
        assert_eq!(shared.ended(), (0, 2));
    });
}

/// A call gives up a slot that a server has in hand; it is free for any client after that.
#[test]
fn a_follower_becomes_the_leader_once_there_is_room() {
    bounded(3, || {
        let shared = Shared::new(1, 1);
        let calls = spawn(&shared, |shared| shared.call(1));
        let number = shared.slots.give_up(SlotIndex(0));
        assert_eq!(number, 0);
        shared.free_elsewhere();
        shared.waiters.wake(shared.slots.elect(&Waiters::<CALLS>::by(0)));
        calls.join().unwrap();
        assert_eq!(shared.ended(), (1, 1));
    });
}

#[test]
fn a_call_that_leaves_holds_no_other_call_up() {
    for share in [1, 2] {
        bounded(2, move || {
            let shared = Shared::new(share, 1);
            let asks = spawn(&shared, |shared| shared.ask(1));
            let calls = spawn(&shared, |shared| shared.call(2));
            shared.give_back(0, SlotIndex(0));
            asks.join().unwrap();
            calls.join().unwrap();
            let (free, messages) = shared.ended();
            assert!(free == 1 && (1..=2).contains(&messages));
        });
    }
}
