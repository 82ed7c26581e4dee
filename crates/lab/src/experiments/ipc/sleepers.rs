//! Slots with futexes: each side polls a limited number of times, then sleeps.
//!
//! A client that sleeps announces it in its slot's state, and the server in the doorbell, each
//! before a last look. The side that gives the turn away checks for the announcement afterwards.

use std::convert::Infallible;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use daiko_sys::futex::{self, Scope};

use super::client::Calls;
use super::method::{IpcSpec, Link};
use super::slot::{ANSWERED, ASKED, MessageSlot};
use crate::kit::{Failure, ForkShared, Zeroed};

/// State of a slot: like [`ASKED`], and the client sleeps on it.
const SLEEPING: u32 = 2;

/// Tells whether the server sleeps. It has a cache line of its own: clients read it at each call,
/// and it changes only when the server falls asleep or is woken.
#[repr(C, align(128))]
struct Doorbell(AtomicU32);

// SAFETY: an atomic number, for which zero is a valid value.
unsafe impl Zeroed for Doorbell {}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// `futex`: both sides sleep on a word at once. Shows the cost of a hand-written wait without
/// spinning.
pub(super) type Futex = Sleepers<0>;

/// `spin-futex`: both sides look some hundred times, then sleep on a word: the usual wait by hand
/// between processes. The looks take some microseconds: longer than an answer from another CPU,
/// shorter than a sleep.
pub(super) type SpinFutex = Sleepers<300>;

/// Both sides look `LOOKS` times, then sleep.
pub(super) struct Sleepers<const LOOKS: u32> {
    slots: ForkShared<MessageSlot>,
    doorbell: ForkShared<Doorbell>,
}

impl<const LOOKS: u32> Link for Sleepers<LOOKS> {
    const NAME: &'static str = if LOOKS == 0 { "futex" } else { "spin-futex" };

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        Ok(Self { slots: ForkShared::new(spec.clients)?, doorbell: ForkShared::new(1)? })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let mut looks = 0;
        loop {
            if self.answer_all::<WORDS>() {
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                spin_loop();
            } else {
                self.sleep::<WORDS>();
                looks = 0;
            }
        }
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        calls.make(|message| {
            self.call(client, message);
            Ok(())
        })
    }
}

impl<const LOOKS: u32> Sleepers<LOOKS> {
    /// Answers all questions. Returns whether there were any.
    #[inline]
    fn answer_all<const WORDS: usize>(&self) -> bool {
        let mut found = false;
        for slot in self.slots.iter() {
            // SeqCst: in `sleep`, this load must not precede the store to the doorbell. Pairs with
            // the exchange in `call`.
            if slot.state.load(Ordering::SeqCst) != ANSWERED {
                slot.answer_in_place::<WORDS>();
                // Release pairs with the Acquires in `wait`. It is an exchange, so that a client
                // that falls asleep at the same time is either seen here or fails to fall asleep.
                if slot.state.swap(ANSWERED, Ordering::AcqRel) == SLEEPING {
                    futex::wake(&slot.state, 1, Scope::Shared);
                }
                found = true;
            }
        }
        found
    }

    fn sleep<const WORDS: usize>(&self) {
        let doorbell = &self.doorbell[0].0;
        doorbell.store(ASLEEP, Ordering::SeqCst);
        if !self.answer_all::<WORDS>() {
            let _ = futex::wait(doorbell, ASLEEP, None, Scope::Shared);
        }
        doorbell.store(AWAKE, Ordering::SeqCst);
    }

    /// Makes a call of client `client`.
    #[inline]
    fn call<const WORDS: usize>(&self, client: usize, message: &mut [u64; WORDS]) {
        let slot = &self.slots[client];
        slot.write(message);
        // SeqCst: precedes the load of the doorbell. Pairs with the load in `answer_all`.
        slot.state.swap(ASKED, Ordering::SeqCst);
        self.ring();
        wait(slot, LOOKS);
        slot.read(message);
    }

    /// Wakes the server if it sleeps.
    #[inline]
    fn ring(&self) {
        let doorbell = &self.doorbell[0].0;
        let asleep = doorbell.load(Ordering::SeqCst) == ASLEEP;
        if asleep && doorbell.swap(AWAKE, Ordering::SeqCst) == ASLEEP {
            futex::wake(doorbell, 1, Scope::Shared);
        }
    }
}

/// Waits for the answer in `slot`.
#[inline]
fn wait(slot: &MessageSlot, looks: u32) {
    for _ in 0..looks {
        // Pairs with the Release in `answer_all`, as do both loads below.
        if slot.state.load(Ordering::Acquire) == ANSWERED {
            return;
        }
        spin_loop();
    }
    let sleeps =
        slot.state.compare_exchange(ASKED, SLEEPING, Ordering::Acquire, Ordering::Acquire).is_ok();
    while sleeps && slot.state.load(Ordering::Acquire) == SLEEPING {
        let _ = futex::wait(&slot.state, SLEEPING, None, Scope::Shared);
    }
}
