//! The readiness of a descriptor, in one direction: whether a call is worth while, and the queue of
//! waiters until it is.
//!
//! README.md beside this file has the protocol. The reports of the kernel, the calls themselves,
//! waiting and waking are the caller's job.

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, Taken, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The readiness of one direction of a descriptor, with a queue, 16 bytes.
///
/// Budget without waiters: one RMW for each edge, one load before a call; one RMW to record that
/// nothing is left. A wait takes the queue lock and one RMW.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use std::ptr::NonNull;
///
/// use daiko_core::lock::Contender;
/// use daiko_core::readiness::RawReadiness;
/// use daiko_core::wait::Node;
///
/// struct Caller;
///
/// impl Contender for Caller {
///     fn id(&self) -> NonZeroU32 {
///         NonZeroU32::MIN
///     }
///     fn relax(&self) {
///         std::thread::yield_now();
///     }
/// }
///
/// let (readiness, node) = (RawReadiness::new(), Node::new("reader"));
/// let seen = readiness.seen();
/// // Here a call has failed with EAGAIN.
/// readiness.drained(seen);
/// assert!(readiness.seen().is_drained());
/// // SAFETY: the node is in no queue, and is claimed below before it goes.
/// let has_changed = unsafe { readiness.wait(&Caller, NonNull::from(&node), seen) };
/// assert!(!has_changed);
/// // Here the kernel has reported a change.
/// assert!(readiness.signal(&Caller, false).eq(["reader"]));
/// assert!(!readiness.seen().is_drained());
/// ```
pub struct RawReadiness<W>(WaitQueue<W>);

/// The state of a descriptor as a reader has seen it before its call: the word.
///
/// ```text
/// 31    3   2        1         0
/// | edges | QUEUED | DRAINED | CLOSED |
/// ```
///
/// `edges`: number of changes that the kernel has reported. `QUEUED`: there is a waiter in the
/// queue. `DRAINED`: a call has found nothing left since the last edge. `CLOSED`: for good.
///
/// The number wraps. A reader that compares it has loaded it before one non-blocking call. So it
/// would have to miss a multiple of 2^29 edges, nine minutes of a million each second, and would
/// then only wait until the next edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenReadiness(u32);

impl SeenReadiness {
    const CLOSED: u32 = 1;
    const DRAINED: u32 = 2;
    const QUEUED: u32 = 4;
    const EDGE: u32 = 8;

    /// Returns true if a call would find nothing, so that a reader may wait at once.
    #[inline]
    pub const fn is_drained(self) -> bool {
        self.0 & Self::DRAINED != 0
    }

    /// Returns true if the descriptor has hung up or failed. It is never drained then.
    #[inline]
    pub const fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }

    const fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// Returns true if there was no edge in between.
    const fn is_as_of(self, seen: SeenReadiness) -> bool {
        (self.0 ^ seen.0) < Self::EDGE
    }

    const fn after_edge(self, closed: bool) -> SeenReadiness {
        let word = (self.0 & !Self::DRAINED).wrapping_add(Self::EDGE);
        SeenReadiness(if closed { word | Self::CLOSED } else { word })
    }

    /// Returns the word after a call that was made as of `seen` has left nothing; `None` if that
    /// says nothing about the present.
    fn drained(self, seen: SeenReadiness) -> Option<SeenReadiness> {
        let same = self.is_as_of(seen) || cfg!(weaken = "readiness-drained");
        let ends = self.is_closed() && !cfg!(weaken = "readiness-closed");
        (same && !ends).then_some(SeenReadiness(self.0 | Self::DRAINED))
    }

    /// Returns the word with a queued waiter that has found nothing as of `seen`; `None` if it has
    /// to look again.
    fn queued(self, seen: SeenReadiness) -> Option<SeenReadiness> {
        let same = self.is_as_of(seen) || cfg!(weaken = "readiness-announce");
        same.then_some(SeenReadiness(self.0 | Self::QUEUED))
    }
}

impl<W: Copy> RawReadiness<W> {
    const_fn! {
        /// Creates the readiness of a descriptor in an unknown state: a call may find data.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(WaitQueue::new(0))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self) -> SeenReadiness {
        // Relaxed: an exchange decides, or the queue lock is held.
        SeenReadiness(self.word().load(Ordering::Relaxed))
    }

    fn change(
        &self,
        from: SeenReadiness,
        to: SeenReadiness,
        ordering: Ordering,
    ) -> Result<(), SeenReadiness> {
        let change = self.word().compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed);
        change.map(drop).map_err(SeenReadiness)
    }

    /// Returns the present state, to be loaded before each call. The call finds all data that the
    /// kernel had at the last edge that was seen.
    #[inline]
    pub fn seen(&self) -> SeenReadiness {
        // Acquire: pairs with the Release in `count`, also if other threads have exchanged the word
        // since.
        SeenReadiness(self.word().load(unless_weakened!("readiness-seen", Ordering::Acquire)))
    }

    /// Records that a call which began after `seen` was loaded has found nothing, or left nothing.
    /// Readers need not call until the next edge. No effect if there was an edge since, or if
    /// `seen` is closed: then an end or an error may be found behind the data.
    #[inline]
    pub fn drained(&self, seen: SeenReadiness) {
        let mut word = seen;
        while let Some(next) = word.drained(seen) {
            // Relaxed: nothing is published with it, and it keeps the release sequence of the edge.
            match self.change(word, next, Ordering::Relaxed) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Records a change that the kernel has reported; `closed` if the descriptor has hung up or
    /// failed. Returns the waiters to wake, exactly once: the first in line, or all if it is
    /// closed. From any thread.
    #[inline]
    #[must_use = "the waiters are to be woken"]
    pub fn signal(&self, by: &impl Contender, closed: bool) -> Taken<W> {
        self.notify(by, closed, closed)
    }

    /// Makes all waiters, also those about to wait, look again. Returns them; the caller wakes each
    /// exactly once. For the time when the kernel is told to report no more, or to report
    /// elsewhere.
    #[must_use = "the waiters are to be woken"]
    pub fn wake_all(&self, by: &impl Contender) -> Taken<W> {
        self.notify(by, false, true)
    }

    #[inline]
    fn notify(&self, by: &impl Contender, closed: bool, all: bool) -> Taken<W> {
        if !self.count(closed).is_queued() {
            return Taken::NONE;
        }
        let mut queue = self.0.lock(by);
        let all = all && !cfg!(weaken = "readiness-all");
        let taken = if all { queue.take_all() } else { queue.take_one() };
        self.settle(&queue);
        taken
    }

    /// Counts an edge; returns the word before.
    #[inline]
    fn count(&self, closed: bool) -> SeenReadiness {
        // Release: pairs with the Acquire in `seen`.
        let release = unless_weakened!("readiness-edge", Ordering::Release);
        let mut word = self.load();
        while let Err(now) = self.change(word, word.after_edge(closed), release) {
            word = now;
        }
        word
    }

    /// Puts `node` into the queue and returns false; its waiter looks again once it is claimed.
    /// Returns true instead if there was an edge since `seen` was loaded: the waiter looks again at
    /// once.
    ///
    /// A claimed waiter that looks without finding the descriptor drained, or does not look at all,
    /// owes a [`pass_on`](Self::pass_on).
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`]; the queue is left by [`leave`](Self::leave).
    #[must_use]
    pub unsafe fn wait(
        &self,
        by: &impl Contender,
        node: NonNull<Node<W>>,
        seen: SeenReadiness,
    ) -> bool {
        let mut queue = self.0.lock(by);
        if !self.announce(seen) {
            return true;
        }
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(node) };
        false
    }

    /// Announces a waiter, so that the next edge will look for it; returns false if there was one
    /// since `seen`. Under the queue lock.
    fn announce(&self, seen: SeenReadiness) -> bool {
        let mut word = self.load();
        while let Some(next) = word.queued(seen) {
            // Relaxed: the edge that follows finds the node through the queue lock.
            match self.change(word, next, Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Returns true if there are waiters. A claimed caller sees all that were queued before its
    /// claim.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        self.load().is_queued()
    }

    /// Lets the next in line look, as the caller was claimed and leaves data, or may do so. Returns
    /// the waiter to wake, exactly once. One load if there is none.
    #[inline]
    #[must_use = "the waiter that takes over is to be woken"]
    pub fn pass_on(&self, by: &impl Contender) -> Option<W> {
        if !self.has_waiters() || cfg!(weaken = "readiness-pass") {
            return None;
        }
        let mut queue = self.0.lock(by);
        let next = queue.claim_first(0);
        self.settle(&queue);
        next
    }

    /// Takes `node` out of the queue, for a timeout or cancel, unless it was claimed before.
    ///
    /// [`Unlinked::AlreadyGone`]: its waiter is woken, and looks, or passes on.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to this object's [`wait`](Self::wait) last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        let mut queue = self.0.lock(by);
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { queue.unlink(node) };
        self.settle(&queue);
        unlinked
    }

    /// Clears QUEUED if the queue has become empty.
    fn settle(&self, queue: &Locked<'_, W>) {
        if queue.is_empty() || cfg!(weaken = "readiness-settle") {
            // Relaxed: threads that set it hold the queue lock; a thread that does not see it finds
            // an empty queue.
            self.word().fetch_and(!SeenReadiness::QUEUED, Ordering::Relaxed);
        }
    }
}
