//! The word of a mutex, and what each step makes of it.

use super::{Arrival, MOST_BARGED};

/// The word.
///
/// ```text
/// 31      8 7   6   5         4         3         2           1         0
/// | barged | unused | URGENT | HANDED | WAKING | POISONED | QUEUED | LOCKED |
/// ```
///
/// * `LOCKED`: somebody has it. * `QUEUED`: somebody is in the queue.
/// * `POISONED`: a holder panicked.
/// * `WAKING`: a waiter was claimed and woken, and is on its way; one at a time. `barged` counts who
///   had the lock meanwhile.
/// * `HANDED`: `LOCKED` stands for that waiter: nobody else may take it.
/// * `URGENT`: whoever is first in the queue gets the lock handed over, not a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u32);

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const POISONED: u32 = 4;
const WAKING: u32 = 8;
const HANDED: u32 = 16;
const URGENT: u32 = 32;
const BARGED_ONE: u32 = 1 << 8;
const BARGED: u32 = !0 << 8;

impl Word {
    /// Free, and nobody waits.
    pub(super) const FREE: Word = Word(0);
    /// What is said of the queue.
    pub(super) const QUEUE: Word = Word(QUEUED | URGENT);
    pub(super) const POISON: Word = Word(POISONED);

    const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    pub(super) const fn is_locked(self) -> bool {
        self.has(LOCKED)
    }

    pub(super) const fn is_poisoned(self) -> bool {
        self.has(POISONED)
    }

    pub(super) const fn is_urgent(self) -> bool {
        self.has(URGENT)
    }

    pub(super) const fn locked(self) -> Word {
        Word(self.0 | LOCKED)
    }

    /// With a waiter on its way; `None` if the lock is somebody's, or one is on his way already.
    pub(super) fn waking(self) -> Option<Word> {
        (self.0 & (LOCKED | WAKING) == 0).then_some(Word(self.0 | WAKING))
    }

    /// Without the waiter that was on its way.
    pub(super) const fn without_waking(self) -> Word {
        Word(self.0 & !(WAKING | HANDED | BARGED))
    }

    /// After who arrives so has taken the lock; `None` if he may not.
    pub(super) fn taken(self, arrival: Arrival) -> Option<Word> {
        let woken = arrival != Arrival::New;
        let may = !self.is_locked() || woken && self.has(HANDED);
        may.then(|| if woken { self.without_waking().locked() } else { self.locked() })
    }

    /// After who arrives so is queued.
    pub(super) fn announced(self, arrival: Arrival) -> Word {
        match arrival {
            Arrival::New => Word(self.0 | QUEUED),
            Arrival::Woken => Word(self.without_waking().0 | QUEUED),
            Arrival::Late => Word(self.without_waking().0 | QUEUED | URGENT),
        }
    }

    /// After the lock was freed without a look into the queue; `None` if one is due.
    pub(super) fn released(self) -> Option<Word> {
        let free = self.0 & !LOCKED;
        match self.0 & (WAKING | QUEUED) {
            0 => Some(Word(free)),
            QUEUED => None,
            _waking if self.0 / BARGED_ONE < MOST_BARGED => Some(Word(free + BARGED_ONE)),
            _waking => Some(Word(self.0 | HANDED)),
        }
    }

    /// After the lock was freed by who had looked into the queue, where others wait still or not.
    pub(super) fn released_to(self, released: Released, others: bool) -> Word {
        let queued = if others { QUEUED } else { 0 };
        Word(self.0 & POISONED | queued | released as u32)
    }
}

/// What somebody who frees the lock has done with it: the bits that say so.
#[derive(Clone, Copy)]
pub(super) enum Released {
    /// Nobody was in the queue.
    Free = 0,
    /// The first has been woken.
    Waking = WAKING as isize,
    /// The first has it.
    HandedOver = LOCKED as isize,
}
