//! The completion word: whether a fiber has ended, and which waiter waits for that.

use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

const PENDING: u64 = 0;
const DONE: u64 = 1;
const DETACHED: u64 = 2;
const ABANDONED: u64 = 3;
const DIED: u64 = 4;

/// The end of one fiber and its one waiter.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | not finished, no waiter |
/// | 1 | finished; the result is the handle's |
/// | 2 | detached; if not finished, the fiber drops the result |
/// | 3 | will probably never finish: its runtime has left it behind |
/// | 4 | will never finish: its worker has died; there is no result |
/// | above | not finished; this waiter waits |
///
/// Budget: one RMW to finish, one to wait, one to detach.
#[derive(Debug)]
pub struct Completion(AtomicU64);

/// A waiter, encoded by the caller: any value above 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterId(u64);

impl WaiterId {
    /// Creates the id with these bits.
    ///
    /// # Safety
    ///
    /// The bits are above 4. The code that wakes waiters by their ids finds one by these bits, as
    /// long as the id is used.
    pub const unsafe fn from_bits(bits: u64) -> Self {
        WaiterId(bits)
    }

    /// Creates the id of a waiter that no test wakes.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) const fn for_test(bits: u64) -> Self {
        WaiterId(bits)
    }

    /// Returns the bits, which no other waiter of this process has at the same time.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The state that the fiber finds at its end.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The handle is there and will look.
    Unobserved,
    /// Wake this waiter; its wait is claimed.
    Wake(WaiterId),
    /// The handle is gone: drop the result.
    Detached,
}

impl Completion {
    const_fn! {
        /// Creates the word of an unfinished fiber without a waiter.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Completion(AtomicU64::new(PENDING))
        }
    }

    /// Resets the word for a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(PENDING, Ordering::Relaxed);
    }

    /// Ends the fiber. The result must be in place. If it has ended before, there is no waiter.
    #[inline]
    pub fn finish(&self) -> Finish {
        // Release: publishes the result to the Acquire in `is_done`, `wait`, `leave` or `detach`.
        // Acquire: pairs with the Release in `wait`, which publishes the waiter, and in `detach`.
        match self.0.swap(DONE, unless_weakened!("completion", Ordering::AcqRel)) {
            // An id is never made of a word that names a state.
            PENDING | DONE | ABANDONED | DIED => Finish::Unobserved,
            DETACHED => Finish::Detached,
            waiter => Finish::Wake(WaiterId(waiter)),
        }
    }

    /// Returns true if the fiber has ended, so that the result may be taken.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the Release in `finish`.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Returns true if the fiber was left behind unfinished.
    pub fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ABANDONED
    }

    /// Returns true if a waiter waits for the end.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        // Relaxed: a hint.
        self.0.load(Ordering::Relaxed) > DIED
    }

    /// Leaves the fiber behind unfinished, and returns its waiter: that wait is claimed.
    #[must_use]
    pub fn abandon(&self) -> Option<WaiterId> {
        // Acquire: pairs with the Release in `wait`. No Release: no result comes with it.
        let update = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            (word > DETACHED && word != DIED || word == PENDING).then_some(ABANDONED)
        });
        update.ok().filter(|&word| word > DIED).map(WaiterId)
    }

    /// Ends the fiber without a result, on behalf of its worker, which has died. Returns the
    /// waiter: that wait is claimed. Not to be called once the fiber has finished.
    #[must_use]
    pub fn die(&self) -> Option<WaiterId> {
        // Acquire: pairs with the Release in `wait`. No result comes with it.
        let before = self.0.swap(DIED, unless_weakened!("completion-die", Ordering::Acquire));
        debug_assert!(before != DONE);
        (before > DIED).then_some(WaiterId(before))
    }

    /// Returns true if the fiber has ended with its worker, without a result.
    pub fn is_dead(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DIED
    }

    /// Returns true if the claim to the result was given up. Only for its last holder.
    pub fn is_detached(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DETACHED
    }

    /// Publishes that `waiter` waits. Returns false if there is nothing to wait for any more.
    #[must_use]
    pub fn wait(&self, waiter: WaiterId) -> bool {
        debug_assert!(waiter.0 > DIED);
        // Release: pairs with the Acquire in `finish`, `abandon` and `die`. Acquire on failure: as
        // in `is_done`.
        let release = unless_weakened!("completion-wait", Ordering::Release);
        self.0.compare_exchange(PENDING, waiter.0, release, Ordering::Acquire).is_ok()
    }

    /// Takes back that `waiter` waits. Returns false if the end claimed the wait.
    #[must_use]
    pub fn leave(&self, waiter: WaiterId) -> bool {
        // Acquire on failure: as in `is_done`. Leaving publishes nothing.
        self.0.compare_exchange(waiter.0, PENDING, Ordering::Relaxed, Ordering::Acquire).is_ok()
    }

    /// Gives up the claim to the result. Returns true if the fiber had ended, so that the caller
    /// drops the result.
    #[must_use]
    pub fn detach(&self) -> bool {
        // Acquire: pairs with the Release in `finish`. Release: pairs with the Acquire in `finish`,
        // so that the fiber drops the result after the handle's last use of the block.
        let ordering = match cfg!(weaken = "completion-detach-release") {
            true => Ordering::Acquire,
            false => unless_weakened!("completion-detach", Ordering::AcqRel),
        };
        self.0.swap(DETACHED, ordering) == DONE
    }

    /// Makes loom fail unless the caller may reuse the word's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { self.0.unsync_load() };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_end_wakes_the_waiter_once() {
        let (word, waiter) = (Completion::new(), WaiterId::for_test(64));
        assert!(!word.is_awaited() && word.wait(waiter) && !word.is_done());
        assert!(word.is_awaited());
        assert_eq!(word.finish(), Finish::Wake(waiter));
        assert!(!word.is_awaited());
        assert!(word.is_done() && !word.wait(waiter) && !word.leave(waiter));
        assert!(word.detach());
    }

    #[test]
    fn an_end_after_the_end_finds_no_waiter() {
        let (word, dead) = (Completion::new(), Completion::new());
        assert_eq!(word.finish(), Finish::Unobserved);
        assert_eq!(word.finish(), Finish::Unobserved);
        assert_eq!(dead.die(), None);
        assert_eq!(dead.finish(), Finish::Unobserved);
    }

    #[test]
    fn a_joiner_that_leaves_in_time_is_not_woken() {
        let (word, waiter) = (Completion::new(), WaiterId::for_test(64));
        assert!(word.wait(waiter) && word.leave(waiter));
        assert_eq!(word.finish(), Finish::Unobserved);
    }

    #[test]
    fn the_joiner_of_an_abandoned_fiber_is_told() {
        let (word, waiter) = (Completion::new(), WaiterId::for_test(64));
        assert!(word.wait(waiter));
        assert_eq!(word.abandon(), Some(waiter));
        assert!(word.is_abandoned() && !word.is_done() && !word.wait(waiter));
        assert_eq!(word.finish(), Finish::Unobserved);
        assert!(word.is_done() && !word.is_abandoned());
        assert_eq!(word.abandon(), None);
    }

    #[test]
    fn the_joiner_of_a_fiber_with_a_dead_worker_is_told_and_drops_no_result() {
        let (word, waiter) = (Completion::new(), WaiterId::for_test(64));
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
