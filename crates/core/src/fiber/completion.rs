//! The completion word: who waits for a fiber's end, and whether it has come.

use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};

const PENDING: u64 = 0;
const DONE: u64 = 1;
const DETACHED: u64 = 2;
const ABANDONED: u64 = 3;
const DIED: u64 = 4;

/// The end of one fiber and the one who may wait for it.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | not finished, nobody waits |
/// | 1 | finished; the result is the handle's |
/// | 2 | nobody will ask; if not finished, the fiber drops the result |
/// | 3 | will probably never finish: its runtime has left it behind |
/// | 4 | will never finish: its worker has died; there is no result |
/// | above | not finished; this waiter waits |
///
/// Budget: one RMW to finish, one to wait, one to detach.
#[derive(Debug)]
pub struct Completion(AtomicU64);

/// Someone who waits, as its user encodes it: anything above 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterId(pub u64);

/// What the fiber finds at its end.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The handle is there and will look.
    Unobserved,
    /// Wake this waiter; its wait is claimed.
    Wake(WaiterId),
    /// Nobody will ask: drop the result.
    Detached,
}

impl Completion {
    const_fn! {
        /// Not finished, nobody waits.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Completion(AtomicU64::new(PENDING))
        }
    }

    /// Makes the word that of a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(PENDING, Ordering::Relaxed);
    }

    /// The fiber's end. The result must be in place.
    #[inline]
    pub fn finish(&self) -> Finish {
        // Release: the result, for the Acquire in `is_done`, `wait` or `detach`. Acquire: the
        // waiter is set up, by the Release in `wait`.
        match self.0.swap(DONE, unless_weakened!("completion", Ordering::AcqRel)) {
            PENDING | ABANDONED => Finish::Unobserved,
            DETACHED => Finish::Detached,
            waiter => Finish::Wake(WaiterId(waiter)),
        }
    }

    /// Whether the end has come, and so the result may be taken.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the Release in `finish`.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Whether the fiber was left behind unfinished.
    pub fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ABANDONED
    }

    /// Leaves the fiber behind unfinished, and returns who waited for it: that wait is claimed.
    #[must_use]
    pub fn abandon(&self) -> Option<WaiterId> {
        // Relaxed: no result comes with it. Acquire: as in `finish`.
        let update = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            (word > DETACHED && word != DIED || word == PENDING).then_some(ABANDONED)
        });
        update.ok().filter(|&word| word > DIED).map(WaiterId)
    }

    /// Ends the fiber without a result, in the stead of its worker, which has died; who waited for it: that wait is
    /// claimed. Not once it has finished.
    #[must_use]
    pub fn die(&self) -> Option<WaiterId> {
        // Acquire: as in `finish`. No result comes with it.
        let before = self.0.swap(DIED, unless_weakened!("completion-die", Ordering::Acquire));
        debug_assert!(before != DONE);
        (before > DIED).then_some(WaiterId(before))
    }

    /// Whether the fiber has ended with its worker, without a result.
    pub fn is_dead(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DIED
    }

    /// Publishes that `waiter` waits; false if nothing is to be waited for any more.
    #[must_use]
    pub fn wait(&self, waiter: WaiterId) -> bool {
        debug_assert!(waiter.0 > DIED);
        // Release: pairs with the Acquire in `finish`. Acquire on failure: as in `is_done`.
        let release = unless_weakened!("completion-wait", Ordering::Release);
        self.0.compare_exchange(PENDING, waiter.0, release, Ordering::Acquire).is_ok()
    }

    /// Takes back that `waiter` waits; false if it was claimed by the end.
    #[must_use]
    pub fn leave(&self, waiter: WaiterId) -> bool {
        // Acquire on failure: as in `is_done`. Nothing is published by leaving.
        self.0.compare_exchange(waiter.0, PENDING, Ordering::Relaxed, Ordering::Acquire).is_ok()
    }

    /// Nobody will ask; true if the end had come, so that the result is the caller's to drop.
    #[must_use]
    pub fn detach(&self) -> bool {
        // Acquire: pairs with the Release in `finish`. Release: with its Acquire, so that whoever
        // drops the result comes after the handle's last use of the block.
        self.0.swap(DETACHED, unless_weakened!("completion-detach", Ordering::AcqRel)) == DONE
    }

    /// Lets loom complain unless the caller may reuse the word's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { self.0.unsync_load() };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_end_wakes_the_waiter_once() {
        let (word, waiter) = (Completion::new(), WaiterId(64));
        assert!(word.wait(waiter) && !word.is_done());
        assert_eq!(word.finish(), Finish::Wake(waiter));
        assert!(word.is_done() && !word.wait(waiter) && !word.leave(waiter));
        assert!(word.detach());
    }

    #[test]
    fn who_leaves_in_time_is_not_woken() {
        let (word, waiter) = (Completion::new(), WaiterId(64));
        assert!(word.wait(waiter) && word.leave(waiter));
        assert_eq!(word.finish(), Finish::Unobserved);
    }

    #[test]
    fn who_waits_for_an_abandoned_fiber_is_told() {
        let (word, waiter) = (Completion::new(), WaiterId(64));
        assert!(word.wait(waiter));
        assert_eq!(word.abandon(), Some(waiter));
        assert!(word.is_abandoned() && !word.is_done() && !word.wait(waiter));
        assert_eq!(word.finish(), Finish::Unobserved);
        assert!(word.is_done() && !word.is_abandoned());
        assert_eq!(word.abandon(), None);
    }

    #[test]
    fn who_waits_for_a_fiber_whose_worker_dies_is_told_and_there_is_no_result_to_drop() {
        let (word, waiter) = (Completion::new(), WaiterId(64));
        assert!(word.wait(waiter) && !word.is_dead());
        assert_eq!(word.die(), Some(waiter));
        assert!(word.is_dead() && !word.is_done() && !word.wait(waiter) && !word.leave(waiter));
        assert_eq!(word.abandon(), None);
        assert!(word.is_dead() && !word.detach());
        let unobserved = Completion::new();
        assert_eq!(unobserved.die(), None);
        assert!(!unobserved.wait(waiter) && unobserved.is_dead());
    }

    #[test]
    fn a_detached_fiber_drops_its_result() {
        let word = Completion::new();
        assert!(!word.detach());
        assert_eq!(word.finish(), Finish::Detached);
    }
}
