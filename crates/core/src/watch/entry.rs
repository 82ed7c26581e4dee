//! One watch, as an entry of a table.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::condition::{BitsCondition, Condition, WatchValue};
use crate::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, unless_weakened,
};
use crate::circle::{Circular, Links};

/// The way an agent learns of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Polling: agents look at the word again and again.
    Polled,
    /// Polling, for a writer that has a CPU of its own, as another process or a device: an agent
    /// may spin for it on the only CPU that the process has.
    Elsewhere,
    /// Polling while an agent is awake. A thread that changes the word rings for an agent that
    /// sleeps, if it has been told that the word is watched.
    Doorbell,
    /// The writer notifies after each change.
    Notified,
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Outside any table.
    Out,
    /// The entry is in a table.
    Listed,
    /// The condition was seen to hold with a value of these bits; the thread that saw it wakes the
    /// waiter once.
    Hit(u64),
}

/// A condition on more than one word, which agents poll as one.
pub trait Probe: Sync {
    /// Looks once. Returns the value for the waiter, if the condition holds. Short, and never
    /// blocks: it runs under the lock of a table.
    fn sample(&self) -> Option<u64>;
}

/// A word and its condition, with the type of the value taken out.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum WatchWord {
    U8(NonNull<AtomicU8>, BitsCondition),
    U16(NonNull<AtomicU16>, BitsCondition),
    U32(NonNull<AtomicU32>, BitsCondition),
    U64(NonNull<AtomicU64>, BitsCondition),
    Pointer(NonNull<AtomicPtr<()>>, BitsCondition),
    Probe(NonNull<dyn Probe>),
}

impl WatchWord {
    /// Returns the bits of the value, if it satisfies the condition.
    ///
    /// # Safety
    ///
    /// The word is alive, and an atomic of this size.
    unsafe fn sample(self) -> Option<u64> {
        // Acquire: pairs with the writer's Release, so that the waiter sees the writes before it.
        let acquire = unless_weakened!("watch-sample", Ordering::Acquire);
        // SAFETY: alive by this function's contract.
        let (bits, until) = unsafe {
            match self {
                WatchWord::U8(word, until) => (word.as_ref().load(acquire).to_bits(), until),
                WatchWord::U16(word, until) => (word.as_ref().load(acquire).to_bits(), until),
                WatchWord::U32(word, until) => (word.as_ref().load(acquire).to_bits(), until),
                WatchWord::U64(word, until) => (word.as_ref().load(acquire).to_bits(), until),
                WatchWord::Pointer(word, until) => (word.as_ref().load(acquire).to_bits(), until),
                WatchWord::Probe(probe) => return probe.as_ref().sample(),
            }
        };
        until.holds(bits).then_some(bits)
    }

    fn address(self) -> usize {
        match self {
            WatchWord::U8(word, _) => word.addr().get(),
            WatchWord::U16(word, _) => word.addr().get(),
            WatchWord::U32(word, _) => word.addr().get(),
            WatchWord::U64(word, _) => word.addr().get(),
            WatchWord::Pointer(word, _) => word.addr().get(),
            WatchWord::Probe(probe) => probe.addr().get(),
        }
    }
}

/// A borrowed word and its condition, for a probe that looks at words of several types.
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64};
///
/// use daiko_core::watch::{Condition, WatchedWord};
///
/// let (ready, count) = (AtomicBool::new(false), AtomicU64::new(7));
/// let words = [
///     WatchedWord::new(&ready, Condition::Equal(true)),
///     WatchedWord::new(&count, Condition::AtLeast(5u64)),
/// ];
/// assert_eq!(words.iter().position(WatchedWord::holds), Some(1));
/// ```
#[derive(Clone, Copy)]
pub struct WatchedWord<'w> {
    word: WatchWord,
    borrowed: PhantomData<&'w AtomicU64>,
}

// SAFETY: it stands for a shared reference to an atomic.
unsafe impl Send for WatchedWord<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for WatchedWord<'_> {}

impl<'w> WatchedWord<'w> {
    /// Creates a condition on `word`.
    pub fn new<V: WatchValue>(word: &'w V::Atomic, until: Condition<V>) -> Self {
        Self { word: V::watched(NonNull::from(word), until), borrowed: PhantomData }
    }

    /// Returns true if the condition holds now. The writes before the Release store of the word are
    /// visible then.
    pub fn holds(&self) -> bool {
        // SAFETY: the word is borrowed, and of its type's size.
        unsafe { self.word.sample() }.is_some()
    }
}

/// One waiter's watch. It lies in memory of the waiter, usually in its stack frame.
pub struct WatchEntry<W> {
    /// Touched under the table's lock, or by the waiter while the entry is in no table.
    links: Links<Self>,
    /// Stored under the table's lock; loaded by the waiter at any time.
    state: AtomicU8,
    /// The value of the hit, stored before `state` says that there was one.
    seen: AtomicU64,
    /// This and the following fields are written by the waiter before the entry is listed.
    word: WatchWord,
    notice: Notice,
    waiter: W,
}

// SAFETY: the word is an atomic that outlives the watch, and a copy of the waiter goes to the
// scanner.
unsafe impl<W: Copy + Send> Send for WatchEntry<W> {}
// SAFETY: the links are touched under the table's lock, states are atomic, the waiter is only
// copied.
unsafe impl<W: Copy + Send> Sync for WatchEntry<W> {}

// SAFETY: always the same field.
unsafe impl<W> Circular for WatchEntry<W> {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl<W: Copy> WatchEntry<W> {
    const OUT: u8 = 0;
    const LISTED: u8 = 1;
    const HIT: u8 = 2;

    /// Creates a watch of `waiter` on `word`, in no table.
    pub fn new<V: WatchValue>(
        word: &V::Atomic,
        until: Condition<V>,
        notice: Notice,
        waiter: W,
    ) -> Self {
        Self::on(V::watched(NonNull::from(word), until), notice, waiter)
    }

    /// Creates a watch of `waiter` on the words that `probe` looks at, in no table. `probe`
    /// outlives the watch, as a word does.
    pub fn probing<'p>(probe: &'p (dyn Probe + 'p), notice: Notice, waiter: W) -> Self {
        let probe: NonNull<dyn Probe + 'p> = NonNull::from(probe);
        // SAFETY: the same pointer; the contract of `WatchTable::insert` keeps the probe alive
        // while it is used.
        let probe: NonNull<dyn Probe> = unsafe { std::mem::transmute(probe) };
        Self::on(WatchWord::Probe(probe), notice, waiter)
    }

    fn on(word: WatchWord, notice: Notice, waiter: W) -> Self {
        let (state, seen) = (AtomicU8::new(Self::OUT), AtomicU64::new(0));
        Self { links: Links::new(), state, seen, word, notice, waiter }
    }

    /// Returns the place of the entry. A waiter that sees a hit owns the entry again, and sees the
    /// writes before the Release store of the word.
    pub fn state(&self) -> EntryState {
        // Acquire: pairs with the Release in `set_hit`.
        match self.state.load(Ordering::Acquire) {
            Self::OUT => EntryState::Out,
            Self::LISTED => EntryState::Listed,
            _ => EntryState::Hit(self.seen.load(Ordering::Relaxed)),
        }
    }

    /// Returns the waiter that the entry stands for.
    pub fn waiter(&self) -> W {
        self.waiter
    }

    /// Returns the way changes of its word become known.
    pub fn notice(&self) -> Notice {
        self.notice
    }

    pub(super) fn watches(&self, address: usize) -> bool {
        self.word.address() == address
    }

    /// Returns the bits of the word's value, if it satisfies the condition.
    ///
    /// # Safety
    ///
    /// The entry is listed, and the caller holds the table's lock.
    pub(super) unsafe fn sample(&self) -> Option<u64> {
        // SAFETY: a word stays alive while its entry is listed: the contract of
        // `WatchTable::insert`.
        unsafe { self.word.sample() }
    }

    pub(super) fn set_listed(&self) {
        debug_assert_ne!(self.state(), EntryState::Listed, "an entry is in one table at a time");
        self.state.store(Self::LISTED, Ordering::Relaxed);
    }

    pub(super) fn set_out(&self) {
        self.state.store(Self::OUT, Ordering::Relaxed);
    }

    /// Gives the entry back to its waiter, which may free it before this returns: hence no `&self`,
    /// which would have to be valid for longer.
    ///
    /// # Safety
    ///
    /// `entry` is alive.
    pub(super) unsafe fn set_hit(entry: NonNull<Self>, seen: u64) {
        // Release: pairs with the Acquire in `state`. From here on the entry is the waiter's.
        let ordering = unless_weakened!("watch-hit", Ordering::Release);
        // SAFETY: alive by this function's contract; the references are to atomics alone.
        unsafe {
            (*entry.as_ptr()).seen.store(seen, Ordering::Relaxed);
            (*entry.as_ptr()).state.store(Self::HIT, ordering);
        }
    }
}
