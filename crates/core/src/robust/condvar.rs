//! The waiters for a condition, some of which may be dead.

use super::{Holder, SeenWord};
use crate::atomic::{AtomicU64, Ordering, const_fn, fence_behind_rmw, unless_weakened};

/// The state of a condition variable, of 24 bytes, and 8 more for each [`CondvarEntry`], which the
/// caller keeps behind it: a zeroed one is free.
///
/// A waiter enters while it holds the lock of its condition, frees the lock, and waits. A notifier
/// wakes a particular waiter. A waiter that finds no free entry is woken by each notification.
///
/// Budget: one RMW to enter, after a load of each entry before; one to leave. Two to notify a
/// waiter, after a load of each entry that is looked at.
///
/// ```
/// use daiko_core::robust::{CondvarEntry, Holder, RobustCondvar};
///
/// let [me, peer] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (condvar, entries) = (RobustCondvar::new(), [const { CondvarEntry::new() }; 4]);
/// let first = condvar.enter(me, &entries, |_| false);
/// let second = condvar.enter(peer, &entries, |_| false);
/// condvar.notify_one(&entries, |_| false);
/// assert!(condvar.is_notified(me, &entries, first));
/// assert!(!condvar.is_notified(peer, &entries, second));
/// assert!(condvar.leave(me, &entries, first) && !condvar.leave(peer, &entries, second));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustCondvar {
    /// Number of notifications, for waiters without an entry. Raised by any notifier, before it
    /// looks at the entries.
    notifications: AtomicU64,
    /// Number of leading entries that were ever taken. Raised by a waiter before it takes one.
    used: AtomicU64,
    /// The entry at which the next notifier of one waiter begins: a hint, stored by the last one.
    next: AtomicU64,
}

/// The entry of one waiter. It changes by exchanges that name its previous state.
///
/// ```text
/// 63        32 31   16 15     2        1          0
/// | generation | index | unused | NOTIFIED | WAITING |
/// ```
///
/// | word | meaning |
/// |---|---|
/// | without a generation | free |
/// | a [`Holder`], WAITING | its waiter waits |
/// | a [`Holder`], NOTIFIED | its waiter is woken, and has not left yet |
#[repr(transparent)]
#[derive(Debug)]
pub struct CondvarEntry(AtomicU64);

/// A wait that has begun: the entry of the waiter, or the notifications before it.
#[must_use = "a waiter leaves its entry"]
#[derive(Clone, Copy, Debug)]
pub enum CondvarWait {
    /// The waiter has this entry.
    Entry(usize),
    /// All entries belong to other waiters: each notification wakes it.
    Crowd(SeenWord),
}

impl CondvarEntry {
    const WAITING: u64 = 1;
    const NOTIFIED: u64 = 2;

    const_fn! {
        /// Creates a free entry.
        pub const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    fn change(&self, from: u64, to: u64) -> Result<u64, u64> {
        // Release: pairs with the Acquire in `load`: a woken waiter sees the writes before the
        // notification. Acquire: as in `load`.
        let order = unless_weakened!("robust-condvar-notify", Ordering::AcqRel);
        self.0.compare_exchange(from, to, order, Ordering::Relaxed)
    }

    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `change`.
        self.0.load(Ordering::Acquire)
    }

    /// Takes the entry if it is free, or its holder is dead.
    fn take(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> bool {
        // Relaxed: the exchange names the word that was seen.
        let seen = self.0.load(Ordering::Relaxed);
        Holder::of(seen).is_none_or(is_dead) && self.change(seen, me.bits() | Self::WAITING).is_ok()
    }

    /// Notifies the waiter if there is a live one, and it has not been notified.
    fn notify(&self, is_dead: impl Fn(Holder) -> bool) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let waits = Holder::of(seen).is_some_and(|holder| !is_dead(holder));
        let notified = seen & !Self::WAITING | Self::NOTIFIED;
        waits && seen & Self::WAITING != 0 && self.change(seen, notified).is_ok()
    }
}

impl RobustCondvar {
    const_fn! {
        /// Creates a condition variable without waiters.
        pub const fn new() -> Self {
            Self {
                notifications: AtomicU64::new(0),
                used: AtomicU64::new(0),
                next: AtomicU64::new(0),
            }
        }
    }

    /// Begins a wait. The caller holds the lock of its condition; it frees the lock afterwards, and
    /// waits until it [is notified](Self::is_notified).
    pub fn enter(
        &self,
        me: Holder,
        entries: &[CondvarEntry],
        is_dead: impl Fn(Holder) -> bool,
    ) -> CondvarWait {
        // Relaxed: the lock orders it before the notifications that it has to see.
        let seen = SeenWord(self.notifications.load(Ordering::Relaxed));
        let taken = entries.iter().enumerate().position(|(at, entry)| {
            let at = at as u64;
            // Relaxed: a notifier that has to see the entry is ordered behind it by the lock.
            if self.used.load(Ordering::Relaxed) <= at {
                self.used.fetch_max(at + 1, Ordering::Relaxed);
            }
            entry.take(me, &is_dead)
        });
        taken.map_or(CondvarWait::Crowd(seen), CondvarWait::Entry)
    }

    /// Returns true if a notification has come for this wait.
    #[inline]
    pub fn is_notified(&self, me: Holder, entries: &[CondvarEntry], wait: CondvarWait) -> bool {
        match wait {
            CondvarWait::Entry(at) => entries[at].load() != me.bits() | CondvarEntry::WAITING,
            // Acquire: pairs with the Release in `count`.
            CondvarWait::Crowd(seen) => self.notifications.load(Ordering::Acquire) != seen.0,
        }
    }

    /// Ends a wait, and frees its entry. Returns true if it was notified: a waiter that does not
    /// look at its condition now passes the notification on, by
    /// [`notify_one`](Self::notify_one).
    #[must_use = "a notification is used or passed on"]
    pub fn leave(&self, me: Holder, entries: &[CondvarEntry], wait: CondvarWait) -> bool {
        let CondvarWait::Entry(at) = wait else { return self.is_notified(me, entries, wait) };
        let (entry, me) = (&entries[at], me.bits());
        if entry.change(me | CondvarEntry::WAITING, 0).is_ok() {
            if !cfg!(weaken = "robust-condvar-death") {
                // Pairs with the fence in `count`, for a waiter that leaves because of a death: a
                // notifier that took the dead waiter for a live one has freed the lock before the
                // caller takes it.
                fence_behind_rmw();
            }
            return false;
        }
        // If it is not the caller's, a peer has written to it.
        let _ = entry.change(me | CondvarEntry::NOTIFIED, 0);
        true
    }

    fn count(&self) {
        // Release: pairs with the Acquire in `is_notified`.
        self.notifications.fetch_add(1, Ordering::Release);
        // Pairs with the fence in `leave`.
        fence_behind_rmw();
    }

    fn used<'e>(&self, entries: &'e [CondvarEntry]) -> &'e [CondvarEntry] {
        let used = self.used.load(Ordering::Relaxed).min(entries.len() as u64);
        &entries[..used as usize]
    }

    /// Notifies one live waiter, and all that have no entry. The caller rings. Waiters are notified
    /// in turn.
    pub fn notify_one(&self, entries: &[CondvarEntry], is_dead: impl Fn(Holder) -> bool) {
        self.count();
        let used = self.used(entries);
        let next = self.next.load(Ordering::Relaxed).min(used.len() as u64) as usize;
        let mut round = (next..used.len()).chain(0..next);
        if let Some(at) = round.find(|&at| used[at].notify(&is_dead)) {
            self.next.store(at as u64 + 1, Ordering::Relaxed);
        }
    }

    /// Notifies all waiters. The caller rings.
    pub fn notify_all(&self, entries: &[CondvarEntry]) {
        self.count();
        for entry in self.used(entries) {
            entry.notify(|_| false);
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustCondvar>() == 24 && size_of::<CondvarEntry>() == 8);

impl Default for RobustCondvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for CondvarEntry {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl RobustCondvar {
    /// Stores any words, as a peer may.
    pub(super) fn spoil(&self, words: [u64; 3]) {
        let all = [&self.notifications, &self.used, &self.next];
        all.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl CondvarEntry {
    /// Stores any word, as a peer may.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
