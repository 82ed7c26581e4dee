//! The word of a mutex, and the change that each step makes to it.

use super::{Arrival, MOST_BARGED};

/// The word of a mutex.
///
/// ```text
/// 31      8 7   6   5         4         3         2           1         0
/// | barged | unused | URGENT | HANDED | WAKING | POISONED | QUEUED | LOCKED |
/// ```
///
/// * `LOCKED`: the lock is held, or left to a waiter.
/// * `QUEUED`: there is a waiter in the queue.
/// * `POISONED`: a holder panicked.
/// * `WAKING`: a waiter was claimed and woken, and is on its way; one at a time. `barged` counts
///   the holders since then.
/// * `HANDED`: `LOCKED` stands for that waiter: no other thread may take the lock.
/// * `URGENT`: the first in the queue gets the lock handed over, not a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MutexWord(pub(super) u32);

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const POISONED: u32 = 4;
const WAKING: u32 = 8;
const HANDED: u32 = 16;
const URGENT: u32 = 32;
const BARGED_ONE: u32 = 1 << 8;
const BARGED: u32 = !0 << 8;

impl MutexWord {
    /// Free, without waiters.
    pub(super) const FREE: MutexWord = MutexWord(0);
    /// The bits about the queue.
    pub(super) const QUEUE: MutexWord = MutexWord(QUEUED | URGENT);
    pub(super) const POISON: MutexWord = MutexWord(POISONED);

    const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    pub(super) const fn is_locked(self) -> bool {
        self.has(LOCKED)
    }

    /// Returns true if the lock goes to the waiter on its way next.
    pub(super) const fn is_left_to_waiter(self) -> bool {
        self.has(HANDED)
    }

    pub(super) const fn is_poisoned(self) -> bool {
        self.has(POISONED)
    }

    pub(super) const fn is_urgent(self) -> bool {
        self.has(URGENT)
    }

    pub(super) const fn locked(self) -> MutexWord {
        MutexWord(self.0 | LOCKED)
    }

    /// Returns the word with a waiter on its way; `None` if the lock is held, or a waiter is on its
    /// way already.
    pub(super) fn waking(self) -> Option<MutexWord> {
        (self.0 & (LOCKED | WAKING) == 0).then_some(MutexWord(self.0 | WAKING))
    }

    /// Returns the word without the waiter that was on its way.
    pub(super) const fn without_waking(self) -> MutexWord {
        MutexWord(self.0 & !(WAKING | HANDED | BARGED))
    }

    /// Returns the word after this arrival has taken the lock; `None` if it may not.
    pub(super) fn taken(self, arrival: Arrival) -> Option<MutexWord> {
        let woken = arrival != Arrival::New;
        let may = !self.is_locked() || woken && self.has(HANDED);
        may.then(|| if woken { self.without_waking().locked() } else { self.locked() })
    }

    /// Returns the word after this arrival is queued.
    pub(super) fn announced(self, arrival: Arrival) -> MutexWord {
        match arrival {
            Arrival::New => MutexWord(self.0 | QUEUED),
            Arrival::Woken => MutexWord(self.without_waking().0 | QUEUED),
            Arrival::Late => MutexWord(self.without_waking().0 | QUEUED | URGENT),
        }
    }

    /// Returns the word after the lock was freed without a look into the queue; `None` if the look
    /// is needed.
    pub(super) fn released(self) -> Option<MutexWord> {
        let free = self.0 & !LOCKED;
        match self.0 & (WAKING | QUEUED) {
            0 => Some(MutexWord(free)),
            QUEUED => None,
            _waking if self.0 / BARGED_ONE < MOST_BARGED => Some(MutexWord(free + BARGED_ONE)),
            _waking => Some(MutexWord(self.0 | HANDED)),
        }
    }

    /// Returns the word after a release that looked into the queue. `others` says whether waiters
    /// remain there.
    pub(super) fn released_to(self, released: Released, others: bool) -> MutexWord {
        let queued = if others { QUEUED } else { 0 };
        MutexWord(self.0 & POISONED | queued | released as u32)
    }
}

/// The outcome of a release that looked into the queue, as the bits that say so.
#[derive(Clone, Copy)]
pub(super) enum Released {
    /// The queue was empty.
    Free = 0,
    /// The first has been woken.
    Waking = WAKING as isize,
    /// The first has the lock.
    HandedOver = LOCKED as isize,
}
