//! Hosting: the thread of one worker runs the fibers of another worker that sleeps.
//!
//! README.md beside this file has the steps and the proof.

use crate::atomic::{AtomicU32, Ordering, const_fn, fence, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The thread of the guest runs, or is about to touch the guest.
const AWAKE: u32 = 0;
/// The thread of the guest sleeps, and touches the guest no more until it has come back.
const ASLEEP: u32 = 1;
/// A host has the guest, and does not run it at this time.
const TAKEN: u32 = 2;
/// A host runs the guest.
const HOSTED: u32 = 3;
const STATE: u32 = 3;
/// The thread of the guest is to have it as soon as the host has left it.
const WANTED: u32 = 4;
const HOST_SHIFT: u32 = 3;

/// The word by which the thread of a worker and its hosts agree which of them has the worker.
///
/// ```text
/// 31                     3      2        1       0
/// | host, if there is one | WANTED |    state     |
/// ```
#[derive(Debug)]
pub struct Hosting(AtomicU32);

/// The state in which a thread finds its worker when it has slept.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// No host has the worker: all is as without hosts.
    Alone,
    /// A host had it, and has it no more. The mark that the worker is parked has been taken, and no
    /// thread owes a token for it.
    TakenBack,
    /// The token is owed for the mark, by the host or by another thread: the thread waits for it,
    /// and then [arrives](Hosting::arrive).
    AwaitsToken,
}

/// Duty of the host when it has left a guest.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Done,
    /// It owes the guest's thread the token.
    OwesToken,
}

impl Hosting {
    const_fn! {
        /// Creates the word of a worker whose thread is awake.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Hosting(AtomicU32::new(AWAKE))
        }
    }

    /// Lets hosts run the worker from now on. The thread of the worker calls it right before it
    /// sleeps, after the last use of the worker, which is marked parked.
    pub fn sleep(&self) {
        // Release: pairs with the Acquire in `take`.
        self.0.store(ASLEEP, unless_weakened!("hosting-sleep", Ordering::Release));
    }

    /// Ends the sleep. The thread of the worker calls it before it touches the worker.
    pub fn come_back(&self) -> Return {
        let next = |word: u32| match word & STATE {
            HOSTED => Some(word | WANTED),
            _ => Some(AWAKE),
        };
        // Acquire: pairs with the Release in `leave` and in `put_back`.
        let order = unless_weakened!("hosting-back", Ordering::AcqRel);
        match self.0.fetch_update(order, Ordering::Relaxed, next) {
            Ok(word) if word & STATE == HOSTED => Return::AwaitsToken,
            Ok(word) if word & STATE == TAKEN => Return::TakenBack,
            _ => Return::Alone,
        }
    }

    /// Ends the sleep by the token, which has come.
    pub fn arrive(&self) {
        // Relaxed: the token orders.
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Makes the worker a guest of `host`. The caller has taken the mark that the worker is parked.
    /// False: the caller owes the token, as without hosts.
    #[must_use]
    pub fn take(&self, host: u32) -> bool {
        // Acquire: pairs with the Release in `sleep` and in `put_back`.
        let order = unless_weakened!("hosting-take", Ordering::Acquire);
        let taken = host << HOST_SHIFT | TAKEN;
        self.0.compare_exchange(ASLEEP, taken, order, Ordering::Relaxed).is_ok()
    }

    /// Begins to run a guest of `host`. False: it is its guest no more.
    #[must_use]
    pub fn enter(&self, host: u32) -> bool {
        let (taken, hosted) = (host << HOST_SHIFT | TAKEN, host << HOST_SHIFT | HOSTED);
        // Relaxed: this host knows its own writes, and no other thread has had the guest.
        self.0.compare_exchange(taken, hosted, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends a run of a guest, which stays with `host`, unless its thread wants it.
    pub fn leave(&self, host: u32) -> Left {
        let (hosted, taken) = (host << HOST_SHIFT | HOSTED, host << HOST_SHIFT | TAKEN);
        // Release: pairs with the Acquire in `come_back` and in `recall`.
        let order = unless_weakened!("hosting-leave", Ordering::Release);
        match self.0.compare_exchange(hosted, taken, order, Ordering::Relaxed) {
            Ok(_) => Left::Done,
            Err(_) => Left::OwesToken,
        }
    }

    /// Gives a guest back to its sleeping thread. `host` runs it, and has just marked it parked
    /// again.
    ///
    /// `pending` is the last look: true if a change was announced that the thread has to act on. As
    /// the mark may bring that thread back, it reads nothing that only the guest's owner may read.
    /// `take_mark` takes the mark: true if it did.
    pub fn put_back(
        &self,
        host: u32,
        pending: impl FnOnce() -> bool,
        take_mark: impl FnOnce() -> bool,
    ) -> Left {
        let hosted = host << HOST_SHIFT | HOSTED;
        if !cfg!(weaken = "hosting-look") {
            // Pairs with the fence of an `Announcement`: its thread finds the mark, or the change
            // is seen here.
            fence(Ordering::SeqCst);
        }
        if pending() {
            // The guest stays hosted until its thread has arrived.
            return if take_mark() { Left::OwesToken } else { Left::Done };
        }
        // Relaxed: the fence above is the Release that pairs with the Acquire in `take`.
        match self.0.compare_exchange(hosted, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) {
            // Its thread waits for the token of the thread that takes the mark.
            Err(word) if word == hosted | WANTED && take_mark() => Left::OwesToken,
            // Or that thread has given the token already.
            _ => Left::Done,
        }
    }

    /// Takes the worker from its host, for a thread that is neither. True: the caller owes the
    /// token. If the host runs it, the host gives the token as soon as it leaves.
    #[must_use]
    pub fn recall(&self) -> bool {
        let next = |word: u32| match word & STATE {
            TAKEN => Some(AWAKE),
            HOSTED => Some(word | WANTED),
            _ => None,
        };
        // AcqRel: Acquire pairs with the Release in `leave`; the token passes it on.
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        before.is_ok_and(|word| word & STATE == TAKEN)
    }

    /// Returns true if a host has the worker. The answer may be out of date at once.
    pub fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE >= TAKEN
    }
}
