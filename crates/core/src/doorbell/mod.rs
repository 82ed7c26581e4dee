//! Sleep in memory that processes share: a process that changes the object of a wait rings the
//! doorbell of the sleeper.
//!
//! README.md beside this file has the steps and the proof. All types are valid when zeroed, hold no
//! pointers, and may be written by any process that has the memory mapped: the worst that a hostile
//! writer brings about is a sleeper that is woken for nothing, or not at all.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence, fence_behind_rmw};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The doorbell of one kernel thread, on which it sleeps while it waits for a change in the shared
/// memory.
///
/// Only its thread parks; any thread may ring. It has a line of its own, which is written when a
/// thread falls asleep or is woken, and only read by threads that find its owner awake.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Doorbell {
    /// The futex word.
    word: AtomicU32,
    /// The CPU plus one that the thread is bound to; 0: none. Written by the thread.
    cpu: AtomicU32,
}

impl Doorbell {
    /// The word while its owner sleeps, or is about to: the value that a futex wait expects.
    pub const PARKED: u32 = 1;
    const AWAKE: u32 = 0;
    /// The word while its owner sleeps for a condition outside the shared memory: no thread rings.
    const RESTING: u32 = 2;

    /// Creates a doorbell with an owner that is awake.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self { word: AtomicU32::new(Self::AWAKE), cpu: AtomicU32::new(0) }
    }

    /// Records that the owner is about to sleep. The owner then looks once more at all objects that
    /// it waits for here, and sleeps only if none has changed; otherwise it
    /// [unparks](Self::unpark).
    pub fn park(&self) {
        self.word.store(Self::PARKED, Ordering::Relaxed);
        if !cfg!(weaken = "doorbell-park") {
            // Pairs with the fences in `Listeners::ring_behind_store` and `ring_barrier`: either
            // the ringer sees the mark, or the look that follows sees its change.
            fence(Ordering::SeqCst);
        }
    }

    /// Records that the owner is about to sleep, and waits for nothing here. Only for the owner,
    /// which [unparks](Self::unpark) later.
    pub fn rest(&self) {
        // Relaxed: a hint.
        self.word.store(Self::RESTING, Ordering::Relaxed);
    }

    /// Takes the mark back. Only for the owner.
    pub fn unpark(&self) {
        // Relaxed: a ring at the same time meets an owner that is awake.
        self.word.store(Self::AWAKE, Ordering::Relaxed);
    }

    /// Returns true if the owner sleeps or is about to, and has not been rung for since.
    #[inline]
    pub fn is_parked(&self) -> bool {
        // Acquire: pairs with the Release in `ring`, for the ringer's writes before it.
        self.word.load(Ordering::Acquire) == Self::PARKED
    }

    /// Returns true if the owner runs, as far as is known.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.word.load(Ordering::Relaxed) == Self::AWAKE
    }

    /// Rings, once the caller, which runs on `cpu`, has changed the object of the owner's wait by a
    /// read-modify-write.
    #[inline]
    pub fn ring_behind(&self, cpu: Option<u32>) -> RingOutcome {
        ring_barrier();
        self.ring(cpu)
    }

    /// Rings, for a caller that runs on `cpu`, and has passed a barrier since it changed the object
    /// of the owner's wait.
    #[inline]
    pub fn ring(&self, cpu: Option<u32>) -> RingOutcome {
        // Acquire: pairs with the Release below, for the writes before it of a ringer that this one
        // finds to have rung. The owner's own stores of the word publish nothing.
        match self.word.load(Ordering::Acquire) {
            Self::RESTING => RingOutcome::Awake { elsewhere: false },
            // Release, not Acquire: pairs with the Acquire of the load above in another ringer, and
            // in `is_parked` if that reads this value. A ringer that finds the word changed since
            // its load has seen no writes of the ringer that changed it.
            Self::PARKED if self.word.swap(Self::AWAKE, Ordering::Release) == Self::PARKED => {
                RingOutcome::Asleep
            }
            _ => RingOutcome::Awake { elsewhere: cpu.is_none() || self.cpu() != cpu },
        }
    }

    /// Returns the word to sleep on while it holds [`PARKED`](Self::PARKED), and to wake.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Records where the owner runs; `None`: anywhere.
    pub fn set_cpu(&self, cpu: Option<u32>) {
        // Relaxed, here and in `cpu`: a hint.
        self.cpu.store(cpu.map_or(0, |cpu| cpu.wrapping_add(1)), Ordering::Relaxed);
    }

    /// Returns the CPU on which the owner runs, if that is known.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.cpu.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// The threads that may wait for an object: a bit for each doorbell, by its number modulo 64.
///
/// A bit is set once and never cleared. So a thread that waits again and again at an object pays a
/// load of the line that it has in hand anyway, and a thread that changes the object a load of a
/// doorbell that is rarely written.
#[repr(transparent)]
#[derive(Debug)]
pub struct Listeners(AtomicU64);

impl Listeners {
    const BITS: usize = 64;

    /// Creates an empty set.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Includes the owner of doorbell number `bell` in later rings. The owner then looks at the
    /// object.
    #[inline]
    pub fn listen(&self, bell: usize) {
        let bit = 1 << (bell % Self::BITS);
        // Relaxed: ordered by the fence in `Doorbell::park`; a thread that does not pass it need
        // not be rung for.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Rings for all listeners, once the caller has changed the object. Calls `wake` with the
    /// number of each doorbell of `bells` that is owed a futex wake. Returns true if a listener may
    /// be running on another CPU than `cpu`, the caller's: then it is of use to look for an answer.
    ///
    /// The change was a read-modify-write, so that no further barrier is needed on x86. Budget
    /// without sleepers: a load here and one line for each listener.
    #[inline]
    pub fn ring(&self, bells: &[Doorbell], cpu: Option<u32>, wake: impl FnMut(usize)) -> bool {
        ring_barrier();
        self.ring_all(bells, cpu, wake)
    }

    /// Rings as [`ring`](Self::ring) does, after a change by a plain store: budget one barrier
    /// more.
    #[inline]
    pub fn ring_behind_store(
        &self,
        bells: &[Doorbell],
        cpu: Option<u32>,
        wake: impl FnMut(usize),
    ) -> bool {
        if !cfg!(weaken = "doorbell-ring-store") {
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
                    RingOutcome::Asleep => wake(number),
                    RingOutcome::Awake { elsewhere } => answers |= elsewhere,
                }
                number += Self::BITS;
            }
        }
        answers
    }
}

/// The state of an owner when its doorbell was rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RingOutcome {
    /// The owner slept, or was about to: the caller owes a futex wake of [`Doorbell::word`].
    Asleep,
    /// The owner was awake, or sleeps for a condition outside the shared memory.
    Awake {
        /// The owner may be running: it does not sleep, nor is it bound to the caller's CPU.
        elsewhere: bool,
    },
}

/// Separates a change, by a read-modify-write, from the look for sleepers.
#[inline(always)]
fn ring_barrier() {
    if !cfg!(weaken = "doorbell-ring") {
        // Pairs with the fence in `Doorbell::park`.
        fence_behind_rmw();
    }
}

/// The right to spin on one CPU, for at most one thread of all processes that share the memory.
///
/// A thread that takes the seat displaces the previous one, which is not running, since the new one
/// runs on that CPU.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct SpinSeat(AtomicU32);

impl SpinSeat {
    /// Creates a free seat.
    #[allow(clippy::new_without_default, reason = "it lies in shared memory, which is zeroed")]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the seat, as the owner of doorbell number `bell`.
    #[inline]
    pub fn take(&self, bell: usize) {
        // Relaxed, here and in `is_of`: one word, which publishes nothing.
        if !self.is_of(bell) {
            self.0.store(bell as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Returns true if the owner of doorbell number `bell` still has the seat. A spinning thread
    /// asks at each look, and stops if not.
    #[inline]
    #[must_use]
    pub fn is_of(&self, bell: usize) -> bool {
        self.0.load(Ordering::Relaxed) == bell as u32 + 1
    }
}
