//! Sleep in memory that processes share: whoever changes what a sleeper waits for rings his doorbell.
//!
//! README.md beside this file has the steps and the proof. All types are valid when zeroed, hold no
//! pointers, and may be written by anyone who has the memory mapped: the worst that a hostile writer
//! brings about is a sleeper that is woken for nothing, or not at all.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, fence_behind_rmw};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// What one kernel thread sleeps on while it waits for something in the shared memory.
///
/// Its thread alone parks; anyone may ring. A line of its own: it is written when a thread falls asleep
/// or is woken, and only read by those who find its owner awake.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Doorbell {
    /// The futex word.
    word: AtomicU32,
    /// The CPU that the thread is bound to, and one; 0: none. Written by the thread.
    cpu: AtomicU32,
}

impl Doorbell {
    /// What the word holds while its owner sleeps, or is about to: what a futex wait expects.
    pub const PARKED: u32 = 1;
    const AWAKE: u32 = 0;
    /// What it holds while its owner sleeps, but not for anything here: nobody rings.
    const RESTING: u32 = 2;

    /// One whose owner is awake.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self { word: AtomicU32::new(Self::AWAKE), cpu: AtomicU32::new(0) }
    }

    /// Says that the owner is about to sleep. He then looks once more at all that he waits for here,
    /// and sleeps only if nothing has come; otherwise he [unparks](Self::unpark).
    pub fn park(&self) {
        self.word.store(Self::PARKED, Ordering::Relaxed);
        if !cfg!(weaken = "doorbell-park") {
            // Pairs with the fence in `Listeners::ring`: either the ringer sees the mark, or the look
            // that follows sees his change.
            fence(Ordering::SeqCst);
        }
    }

    /// Says that the owner is about to sleep, and waits for nothing here. Only the owner, who [unparks](Self::unpark) later.
    pub fn rest(&self) {
        // Relaxed: a hint.
        self.word.store(Self::RESTING, Ordering::Relaxed);
    }

    /// Takes the mark back. Only the owner.
    pub fn unpark(&self) {
        // Relaxed: a ring that comes at the same time is for one who is awake.
        self.word.store(Self::AWAKE, Ordering::Relaxed);
    }

    /// Whether the owner sleeps or is about to, and nobody has rung since.
    #[inline]
    pub fn is_parked(&self) -> bool {
        // Acquire: pairs with the Release in `ring`, for what the ringer has done before.
        self.word.load(Ordering::Acquire) == Self::PARKED
    }

    /// Whether the owner runs, as far as is known.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.word.load(Ordering::Relaxed) == Self::AWAKE
    }

    /// Rings, once the caller, who runs on `cpu`, has changed by a read-modify-write what the owner waits for.
    #[inline]
    pub fn ring_behind(&self, cpu: Option<u32>) -> Rung {
        ring_barrier();
        self.ring(cpu)
    }

    /// Rings, on behalf of one who runs on `cpu`, and has passed a barrier since he changed what the owner waits for.
    #[inline]
    pub fn ring(&self, cpu: Option<u32>) -> Rung {
        // Acquire: pairs with the Release below, for what another ringer has done before.
        match self.word.load(Ordering::Acquire) {
            Self::RESTING => Rung::Awake { elsewhere: false },
            // Release: pairs with the Acquire in `is_parked`.
            Self::PARKED if self.word.swap(Self::AWAKE, Ordering::Release) == Self::PARKED => {
                Rung::Asleep
            }
            _ => Rung::Awake { elsewhere: cpu.is_none() || self.cpu() != cpu },
        }
    }

    /// The word to sleep on while it holds [`PARKED`](Self::PARKED), and to wake.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Says where the owner runs; `None`: anywhere.
    pub fn set_cpu(&self, cpu: Option<u32>) {
        // Relaxed, here and below: a hint.
        self.cpu.store(cpu.map_or(0, |cpu| cpu.wrapping_add(1)), Ordering::Relaxed);
    }

    /// Where the owner runs, if that is known.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.cpu.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// Who may wait for an object: a bit for each doorbell, by its number modulo 64.
///
/// Set once and never cleared, so that who waits again and again at an object pays a load of the line that
/// he has in hand anyway, and who changes it a load of a doorbell that is rarely written.
#[repr(transparent)]
#[derive(Debug)]
pub struct Listeners(AtomicU64);

impl Listeners {
    const BITS: usize = 64;

    /// Nobody.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Has the owner of doorbell number `bell` rung for from now on. He then looks at the object.
    #[inline]
    pub fn listen(&self, bell: usize) {
        let bit = 1 << (bell % Self::BITS);
        // Relaxed: ordered by the fence in `Doorbell::park`, without which nobody has to be rung for.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Rings for all who listen, once the caller has changed the object: `wake` is given the number of
    /// each doorbell of `bells` whose owner is owed a futex wake. Whether one of the others runs, on another CPU than `cpu`, the
    /// caller's: then looking for an answer is of use.
    ///
    /// The change was a read-modify-write, so that no further barrier is needed on x86. Budget where nobody sleeps: a
    /// load here and one line for each that listens.
    #[inline]
    pub fn ring(&self, bells: &[Doorbell], cpu: Option<u32>, wake: impl FnMut(usize)) -> bool {
        ring_barrier();
        self.ring_all(bells, cpu, wake)
    }

    /// As [`ring`](Self::ring), where the change was a plain store: budget one barrier more.
    #[inline]
    pub fn ring_behind_store(
        &self,
        bells: &[Doorbell],
        cpu: Option<u32>,
        wake: impl FnMut(usize),
    ) -> bool {
        if !cfg!(weaken = "doorbell-ring") {
            // Pairs with the fence in `Doorbell::park`.
            fence(Ordering::SeqCst);
        }
        self.ring_all(bells, cpu, wake)
    }

    #[inline]
    fn ring_all(&self, bells: &[Doorbell], cpu: Option<u32>, mut wake: impl FnMut(usize)) -> bool {
        let mut listening = self.0.load(Ordering::Relaxed);
        let mut answers = false;
        while listening != 0 {
            let first = listening.trailing_zeros() as usize;
            listening &= listening - 1;
            let mut number = first;
            while let Some(bell) = bells.get(number) {
                match bell.ring(cpu) {
                    Rung::Asleep => wake(number),
                    Rung::Awake { elsewhere } => answers |= elsewhere,
                }
                number += Self::BITS;
            }
        }
        answers
    }
}

/// What somebody did whose doorbell was rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rung {
    /// He slept, or was about to: the caller owes a futex wake of [`Doorbell::word`].
    Asleep,
    /// He did not, or not for anything here.
    Awake {
        /// He may run at this moment, as he does not sleep, nor is he bound to the caller's CPU.
        elsewhere: bool,
    },
}

/// Between a change, by a read-modify-write, and the look for sleepers.
#[inline(always)]
fn ring_barrier() {
    if !cfg!(weaken = "doorbell-ring") {
        // Pairs with the fence in `Doorbell::park`.
        fence_behind_rmw();
    }
}

/// The right to spin on one CPU, for at most one of all who share the memory.
///
/// Who sits down displaces who sat there: he is not running, since the other runs on that CPU.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Seat(AtomicU32);

impl Seat {
    /// A free one.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sits down, as the owner of doorbell number `bell`.
    #[inline]
    pub fn take(&self, bell: usize) {
        // Relaxed, here and below: one word, and nothing that it would publish.
        if !self.is_of(bell) {
            self.0.store(bell as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Whether the owner of doorbell number `bell` still sits here: asked at each look, he ends spinning if not.
    #[inline]
    #[must_use]
    pub fn is_of(&self, bell: usize) -> bool {
        self.0.load(Ordering::Relaxed) == bell as u32 + 1
    }
}
