//! Sources: everything that an agent polls on behalf of waiting fibers.
//!
//! A source of the runtime itself is entered in [`Worker::each_source`], which calls it directly. A
//! source of a client is registered under a [`SourceKey`] at the first wait that needs it: at one
//! worker, or at the runtime: then all agents poll it. A worker without such sources reads
//! two words instead.
//!
//! # Sleep
//!
//! A worker that finds nothing announces that it is parked, looks once more for work that writers
//! add without a message ([`is_pending`](Source::is_pending)), and sleeps. It sleeps on its token,
//! unless a source has a [bed](Source::park) of its own: a kernel call that waits for the source as
//! well. If several sources have one, the first in the order of the keys wins, and the worker looks
//! at the rest [now and then](Bed::Own).

use std::marker::PhantomData;
use std::time::Duration;
use std::{cell::UnsafeCell, ptr};

use daiko_core::announce::LastLook;
use daiko_core::governor::Company;
use daiko_sys::Scope;
use daiko_sys::lock::Lock;

use super::Worker;
use crate::atomic::{AtomicU32, Ordering};
use crate::call::InCall;
use crate::deadline::Deadline;

/// An event source that an agent polls. The agent of the worker that owns the source calls a
/// method, unless the method says otherwise.
pub trait Source: Send + Sync {
    /// Looks once, for a bounded time; returns true if a fiber may be runnable now. Any worker may
    /// call it on a source that [may be polled elsewhere](Self::may_be_polled_elsewhere), and on a
    /// source of the runtime.
    fn poll(&self, by: &Worker, round: Round) -> bool;

    /// Looks once, by a few loads, between two looks at the clock; returns true if there was an
    /// event.
    fn peek(&self, _by: &Worker) -> bool {
        false
    }

    /// Returns true if a change may come that no writer announces, so that the worker must keep
    /// looking. Any thread.
    fn is_polled(&self) -> bool {
        false
    }

    /// Returns true if an event may come that a worker finds only by looking while it is awake. Any
    /// thread.
    fn is_awaited(&self) -> bool {
        self.is_polled()
    }

    /// Returns true if an event has come that its writer announces to no sleeping worker. This is
    /// the last look, behind the barrier, before a sleep.
    fn is_pending(&self, _by: &Worker, _look: &LastLook) -> bool {
        false
    }

    /// Returns true if other workers may poll the source while its own worker is busy.
    fn may_be_polled_elsewhere(&self) -> bool {
        false
    }

    /// Returns the time at which the source must be polled.
    fn next_due(&self) -> Deadline {
        Deadline::NEVER
    }

    /// Returns the processes that might end a wait, if other processes do so.
    fn company(&self) -> Company {
        Company::default()
    }

    /// Returns true if a wait may be ended by a party that has a CPU of its own, by the word of the
    /// waiter. Asked at each decision to spin, so a load or two.
    fn has_peer_elsewhere(&self) -> bool {
        false
    }

    /// Begins to spin on behalf of other processes, on the CPU of this worker.
    fn take_seat(&self) {}

    /// Returns true unless another process has begun to spin on the CPU of this worker.
    fn has_seat(&self) -> bool {
        true
    }

    /// Prepares a sleep, before the worker announces that it is parked. `for_good` is true if
    /// nothing is to be polled during the sleep.
    fn park(&self, _for_good: bool) -> Bed {
        Bed::Token
    }

    /// Sleeps in the source's own bed until `token` is 1, the source has changed, or it is `due`.
    fn sleep(&self, _by: &Worker, _token: &AtomicU32, _due: Deadline) {
        unreachable!("a source without a bed");
    }

    /// Ends the sleep of a worker in the source's own bed. Called by any thread that has taken the
    /// worker's parked mark, before it stores the token: afterwards the worker may be gone.
    fn ring(&self) -> WakeBy {
        WakeBy::Token
    }

    /// Ends the preparation of [`park`](Self::park).
    fn unpark(&self) {}

    /// Ends the use of the source by a worker when its thread ends.
    fn leave(&self) {}

    /// Closes the source at the end of the runtime: fibers that still wait will not be polled for
    /// any more. The thread that ends the runtime calls it, even if the worker has been left
    /// behind.
    fn close(&self, _call: InCall<'_>) {}
}

/// The state of the worker that polls, which bounds the time of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// A fiber runs on the worker, which polls only between two fibers.
    Busy,
    /// The agent has nothing to run.
    Idle,
    /// The agent has had nothing to run for some time, and has spared the lines of other workers
    /// meanwhile.
    IdleForLong,
    /// The agent has slept, and no event has ended the sleep: a source that otherwise looks at a
    /// part of its words looks at all of them, up to the first hit. Otherwise as
    /// [`IdleForLong`](Self::IdleForLong).
    Slept,
}

impl Round {
    /// Returns the number of slices to look at, of a source that has `all`.
    pub fn slices(self, all: usize) -> usize {
        match self {
            Round::Slept => all,
            Round::Busy | Round::Idle | Round::IdleForLong => all.min(1),
        }
    }
}

/// The sleep of a worker while fibers wait for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bed {
    /// The worker sleeps on its token, which the source's writers store.
    Token,
    /// The worker sleeps by [`Source::sleep`]. A worker that sleeps in another bed looks at the
    /// source every `sampled`.
    Own {
        /// The time between two looks.
        sampled: Duration,
    },
}

/// The way in which the sleep of a worker in a source's bed is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeBy {
    /// The caller has to end it by the token.
    Token,
    /// The source has ended it.
    Done,
    /// The caller has to end it by a wake of this word, which is shared by processes.
    Word(*const AtomicU32),
}

/// The maximum number of sources that clients can register.
const MOST: usize = 8;

/// The name of a client's source of type `S`.
pub struct SourceKey<S> {
    index: u32,
    source: PhantomData<fn() -> S>,
}

impl<S: Source + 'static> SourceKey<S> {
    /// Creates a key with this number, the position of the source in the order of polling.
    ///
    /// # Safety
    ///
    /// No other key has this number.
    pub const unsafe fn new(index: u32) -> Self {
        assert!((index as usize) < MOST, "there is no place for so many sources");
        SourceKey { index, source: PhantomData }
    }
}

/// The registered sources of a worker, or of a runtime. They live as long as it does.
pub struct Sources {
    /// A bit for each place that is taken.
    taken: AtomicU32,
    /// Written once, under the lock, before the bit is set; any thread reads it after it has seen
    /// the bit.
    places: [UnsafeCell<Option<Box<dyn Source>>>; MOST],
    adding: Lock<()>,
}

// SAFETY: a place is written once, under the lock, and read behind its bit; sources are Sync.
unsafe impl Sync for Sources {}
// SAFETY: sources are Send.
unsafe impl Send for Sources {}

impl Sources {
    pub(crate) fn new(scope: Scope) -> Self {
        let places = [const { UnsafeCell::new(None) }; MOST];
        Sources { taken: AtomicU32::new(0), places, adding: Lock::new(scope, ()) }
    }

    /// Returns the source under `key`, if it has been registered.
    #[inline]
    pub(crate) fn get<S: Source + 'static>(&self, key: &SourceKey<S>) -> Option<&S> {
        let source = ptr::from_ref(self.at(key.index)?).cast::<S>();
        // SAFETY: the source under a key is of the key's type, as no other key has its number.
        Some(unsafe { &*source })
    }

    /// Returns true if any source is registered.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.taken() != 0
    }

    /// Returns the source under `key`. If there is none yet, registers `new()`.
    pub fn get_or_add<S: Source + 'static>(
        &self,
        key: &SourceKey<S>,
        new: impl FnOnce() -> S,
    ) -> &S {
        match self.get(key) {
            Some(source) => source,
            None => self.add(key, new),
        }
    }

    #[cold]
    #[inline(never)]
    fn add<S: Source + 'static>(&self, key: &SourceKey<S>, new: impl FnOnce() -> S) -> &S {
        let adding = self.adding.lock();
        if self.at(key.index).is_none() {
            let source: Box<dyn Source> = Box::new(new());
            // SAFETY: the lock is held, and no thread reads the place before its bit is set.
            unsafe { *self.places[key.index as usize].get() = Some(source) };
            // Release: pairs with the Acquire in `taken`.
            self.taken.fetch_or(1 << key.index, Ordering::Release);
        }
        drop(adding);
        let Some(source) = self.get(key) else { unreachable!("it was just added") };
        source
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&dyn Source> {
        if self.taken() & 1 << index == 0 {
            return None;
        }
        // SAFETY: a place is not written any more once its bit is set.
        unsafe { (*self.places[index as usize].get()).as_deref() }
    }

    #[inline]
    fn taken(&self) -> u32 {
        // Acquire: pairs with the Release in `add`.
        self.taken.load(Ordering::Acquire)
    }

    /// Calls `each` with every source, in the order of the keys.
    #[inline]
    pub(crate) fn each(&self, mut each: impl FnMut(u32, &dyn Source)) {
        let mut left = self.taken();
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            if let Some(source) = self.at(index) {
                each(index, source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered(u32);

    impl Source for Numbered {
        fn poll(&self, _: &Worker, _: Round) -> bool {
            false
        }
    }

    #[test]
    fn each_source_is_visited_wherever_its_place_is() {
        let sources = Sources::new(Scope::Private);
        for number in [5, 0, 2] {
            // SAFETY: each place holds sources of this one type.
            let key = unsafe { SourceKey::<Numbered>::new(number) };
            assert!(sources.get(&key).is_none());
            assert_eq!(sources.get_or_add(&key, || Numbered(number)).0, number);
            assert_eq!(sources.get_or_add(&key, || unreachable!("it is there")).0, number);
        }
        let mut visited = Vec::new();
        sources.each(|index, _| visited.push(index));
        assert_eq!(visited, [0, 2, 5]);
    }
}
