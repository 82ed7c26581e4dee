//! The notification area: adjacent words, each with its waiter.
//!
//! Three arrays side by side, so that a vector instruction looks at many words and masks at once.

use std::ptr::{self, NonNull};

use super::condition::WatchValue;
use crate::atomic::{AtomicPtr, Ordering, unless_weakened};

/// The bookkeeping of a notification area, over memory that the caller hands in.
///
/// Word `i` is a hit when it has a bit of mask `i`; an unarmed word has mask 0.
///
/// # Examples
///
/// ```
/// use std::ptr::{self, NonNull};
/// use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
///
/// use daiko_core::watch::Area;
///
/// let (words, masks): ([AtomicU64; 8], [AtomicU64; 8]) = Default::default();
/// let waiters: [AtomicPtr<&str>; 8] = Default::default();
/// let area = Area::<u64, _>::new(&words, &masks, &waiters);
///
/// let waiter = NonNull::from(&"fiber");
/// area.arm(3, u64::MAX, waiter);
/// assert_eq!(area.find_hit(0, 8), None);
/// words[3].store(1, Ordering::Release);
/// assert_eq!(area.find_hit(0, 8), Some(3));
/// assert_eq!(area.claim_hit(3), Some(waiter));
/// assert_eq!(area.take(3), 1);
/// ```
#[derive(Debug)]
pub struct Area<'m, V: WatchValue, T> {
    /// Stored by writers, taken by waiters, loaded by scanners.
    words: &'m [V::Atomic],
    /// Stored by waiters that arm and by the thread that ends a wait; loaded by scanners.
    masks: &'m [V::Atomic],
    /// The waiter of each word, or null. The thread that exchanges it for null ends the wait.
    waiters: &'m [AtomicPtr<T>],
}

impl<'m, V: WatchValue, T> Area<'m, V, T> {
    /// Creates an area over three arrays. All `masks` are 0 and all `waiters` null, unless another
    /// `Area` over the same arrays has armed them.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn new(
        words: &'m [V::Atomic],
        masks: &'m [V::Atomic],
        waiters: &'m [AtomicPtr<T>],
    ) -> Self {
        assert!(words.len() == masks.len() && words.len() == waiters.len(), "one length for all");
        Self { words, masks, waiters }
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there is no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words, for writers and for vector scans.
    pub fn words(&self) -> &'m [V::Atomic] {
        self.words
    }

    /// Returns the masks, for vector scans.
    pub fn masks(&self) -> &'m [V::Atomic] {
        self.masks
    }

    /// Lets `waiter` wait until word `i` has a bit of `mask`. The word must have no waiter.
    ///
    /// No second look is needed: a word that has the bit already is a hit at the next scan.
    pub fn arm(&self, i: usize, mask: V, waiter: NonNull<T>) {
        // Release: pairs with the Acquire in `take_waiter`, so that the thread that ends the wait
        // sees the waiter's earlier writes.
        let release = unless_weakened!("area-arm", Ordering::Release);
        self.waiters[i].store(waiter.as_ptr(), release);
        V::store(&self.masks[i], mask, release);
    }

    /// Returns the lowest hit of `from..to`, one word at a time: the reference for vector scans.
    ///
    /// # Panics
    ///
    /// If the range leaves the area.
    pub fn find_hit(&self, from: usize, to: usize) -> Option<usize> {
        find_hit::<V>(self.words, self.masks, from, to)
    }

    /// Ends the wait for word `i`, which a scan reported, if it is a hit indeed and no other thread
    /// ends it. The caller wakes the waiter exactly once.
    ///
    /// A scanner that was slow may end a later wait for the same word: the waiter takes the word,
    /// finds nothing, and arms again.
    pub fn claim_hit(&self, i: usize) -> Option<NonNull<T>> {
        // Relaxed: the exchange in `take_waiter` acquires the waiter, and `take` the word. If the
        // mask is that of an earlier wait, the scanner was slow: see above.
        let mask = V::load(&self.masks[i], Ordering::Relaxed);
        let hit = V::load(&self.words[i], Ordering::Relaxed).has_bit_of(mask);
        if hit { self.take_waiter(i) } else { None }
    }

    /// Ends the wait for word `i`, hit or not (cancel, timeout, the end of the area), unless
    /// another thread ends it. The caller wakes the waiter exactly once.
    pub fn take_waiter(&self, i: usize) -> Option<NonNull<T>> {
        let waiter = NonNull::new(self.exchange_waiter(i))?;
        // Relaxed: the waiter arms again only after its wake, which orders it behind this.
        V::store(&self.masks[i], V::from_bits(0), Ordering::Relaxed);
        Some(waiter)
    }

    /// Returns true if a waiter was armed for word `i` a moment ago.
    pub(super) fn has_waiter(&self, i: usize) -> bool {
        // Relaxed: `take_waiter` decides.
        !self.waiters[i].load(Ordering::Relaxed).is_null()
    }

    fn exchange_waiter(&self, i: usize) -> *mut T {
        if cfg!(weaken = "area-claim") {
            let waiter = self.waiters[i].load(Ordering::Acquire);
            self.waiters[i].store(ptr::null_mut(), Ordering::Release);
            return waiter;
        }
        // Acquire: pairs with the Release in `arm`.
        self.waiters[i].swap(ptr::null_mut(), unless_weakened!("area-end", Ordering::Acquire))
    }

    /// Takes the value of word `i` and leaves 0, so that no bit stored meanwhile is lost. The
    /// waiter does it after its wake, and before it arms.
    pub fn take(&self, i: usize) -> V {
        // Acquire: pairs with the writer's Release.
        V::swap(&self.words[i], V::from_bits(0), unless_weakened!("area-take", Ordering::Acquire))
    }

    /// Returns true if there was a waiter a moment ago. Looks at every mask: for agents about to
    /// park.
    pub fn any_armed(&self) -> bool {
        self.masks.iter().any(|mask| V::load(mask, Ordering::Relaxed).to_bits() != 0)
    }
}

impl<V: WatchValue, T> Clone for Area<'_, V, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: WatchValue, T> Copy for Area<'_, V, T> {}

/// Returns the lowest `i` of `from..to` for which `words[i]` has a bit of `masks[i]`.
///
/// A hint, loaded relaxed: a caller that acts on it looks again with Acquire.
///
/// # Panics
///
/// If the range leaves one of the arrays.
pub fn find_hit<V: WatchValue>(
    words: &[V::Atomic],
    masks: &[V::Atomic],
    from: usize,
    to: usize,
) -> Option<usize> {
    let pairs = words[from..to].iter().zip(&masks[from..to]);
    let hit = |(word, mask): (&V::Atomic, &V::Atomic)| {
        V::load(word, Ordering::Relaxed).has_bit_of(V::load(mask, Ordering::Relaxed))
    };
    pairs.map(hit).position(|hit| hit).map(|i| from + i)
}
