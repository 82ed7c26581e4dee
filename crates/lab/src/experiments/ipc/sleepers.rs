//! Slots whose sides sleep on futexes when they have looked often enough.
//!
//! A client that sleeps says so in its slot's state, and the server in the doorbell, both before
//! they look a last time; whoever gives the other the turn looks there afterwards.

use std::convert::Infallible;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use daiko_sys::futex::{self, Scope};

use super::client::{Calls, answer};
use super::method::Link;
use super::slot::{ANSWERED, ASKED, Slot};
use crate::kit::{Failure, Shared, Zeroed};

/// State of a slot: as [`ASKED`], and the client sleeps on it.
const SLEEPING: u32 = 2;

/// Whether the server sleeps. On a line of its own, which clients read at each call and which
/// changes only when it falls asleep or is woken.
#[repr(C, align(128))]
struct Doorbell(AtomicU32);

// SAFETY: an atomic number, for which zero is a value.
unsafe impl Zeroed for Doorbell {}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// `futex`: both sides sleep on a word at once. What a hand-made wait costs without spinning.
pub(super) type Futex = Sleepers<0>;

/// `spin-futex`: both sides look some hundred times, then sleep on a word. What one makes by hand for
/// processes that wait for each other. It is some microseconds: longer than an answer takes from another
/// CPU, shorter than a sleep.
pub(super) type SpinFutex = Sleepers<300>;

/// Both sides look so often, then sleep.
pub(super) struct Sleepers<const LOOKS: u32> {
    slots: Shared<Slot>,
    doorbell: Shared<Doorbell>,
}

impl<const LOOKS: u32> Link for Sleepers<LOOKS> {
    const NAME: &'static str = if LOOKS == 0 { "futex" } else { "spin-futex" };

    fn open(clients: usize) -> Result<Self, Failure> {
        Ok(Self { slots: Shared::new(clients)?, doorbell: Shared::new(1)? })
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
    /// Whether anybody had asked.
    #[inline]
    fn answer_all<const WORDS: usize>(&self) -> bool {
        let mut found = false;
        for slot in self.slots.iter() {
            // SeqCst: in `sleep`, not before the doorbell says so. Pairs with the exchange in `call`.
            if slot.state.load(Ordering::SeqCst) != ANSWERED {
                slot.write::<WORDS>(&answer(slot.read()));
                // Release pairs with the Acquires in `call`. An exchange, so that a client which
                // falls asleep meanwhile is either seen or fails to.
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

    /// A call of client `client`.
    #[inline]
    fn call<const WORDS: usize>(&self, client: usize, message: &mut [u64; WORDS]) {
        let slot = &self.slots[client];
        slot.write(message);
        // SeqCst: before the look at the doorbell. Pairs with the load in `answer_all`.
        slot.state.swap(ASKED, Ordering::SeqCst);
        self.ring();
        wait(slot, LOOKS);
        *message = slot.read();
    }

    /// Wakes the server, if it sleeps.
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
fn wait(slot: &Slot, looks: u32) {
    for _ in 0..looks {
        // Pairs with the Release in `answer_all`, as both below.
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
