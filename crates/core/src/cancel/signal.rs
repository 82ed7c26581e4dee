//! A signal with many listeners that is given once.

use std::ptr::NonNull;

use crate::atomic::{Ordering, const_fn};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

const GIVEN: u32 = 1;

/// A signal that is given once, for good, with a call for each listener `W`.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use std::ptr::NonNull;
///
/// use daiko_core::lock::Contender;
/// use daiko_core::cancel::Signal;
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
/// let (signal, node) = (Signal::new(), Node::new("listener"));
/// // SAFETY: the node is in no queue, and is called for below before it goes.
/// assert!(unsafe { signal.listen(&Caller, NonNull::from(&node)) });
/// assert!(signal.give(&Caller, |listener| assert_eq!(listener, "listener")));
/// assert!(signal.is_given());
/// ```
pub struct Signal<W> {
    /// The listeners. The word says whether the signal was given, and is stored under the lock.
    listeners: WaitQueue<W>,
}

impl<W: Copy> Signal<W> {
    const_fn! {
        /// Creates a signal that was not given, without listeners.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Signal { listeners: WaitQueue::new(0) }
        }
    }

    /// Returns true if it was given. The caller then sees the writes before that.
    #[inline]
    pub fn is_given(&self) -> bool {
        // Acquire: pairs with the Release in `give`.
        self.listeners.word().load(Ordering::Acquire) == GIVEN
    }

    /// Adds the waiter of `node` as a listener, for which a call is made once the signal is given.
    /// Returns false if it was given before: then the node is in no queue.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`].
    #[must_use = "one that is not in the queue is not called for"]
    pub unsafe fn listen(&self, by: &impl Contender, node: NonNull<Node<W>>) -> bool {
        if cfg!(weaken = "cancel-listen") && self.is_given() {
            return false;
        }
        let mut listeners = self.listeners.lock(by);
        if self.is_given() && !cfg!(weaken = "cancel-listen") {
            return false;
        }
        // SAFETY: passed on to the caller.
        unsafe { listeners.enqueue(node) };
        true
    }

    /// Takes `node` out. Afterwards no call for its waiter is under way, nor will one come.
    ///
    /// [`Unlinked::AlreadyGone`]: it was called for, or never listened.
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`].
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.listeners.unlink(by, node) }
    }

    /// Gives the signal, and makes one call with the waiter of each listener. Returns false if it
    /// was given before.
    ///
    /// `call` runs under the lock, which is free between two calls: it may queue and send messages,
    /// but not use this signal. It should not panic: the listeners not called yet would wait for
    /// ever.
    pub fn give(&self, by: &impl Contender, mut call: impl FnMut(W)) -> bool {
        let listeners = self.listeners.lock(by);
        if self.is_given() {
            return false;
        }
        // Release: pairs with the Acquire in `is_given`.
        self.listeners.word().store(GIVEN, Ordering::Release);
        drop(listeners);
        while call_first(self.listeners.lock(by), &mut call) {}
        true
    }
}

/// Makes the call for the listener that came first; returns false if there is none.
fn call_first<W: Copy>(mut listeners: Locked<'_, W>, call: &mut impl FnMut(W)) -> bool {
    let Some(waiter) = listeners.claim_first(0) else { return false };
    if cfg!(weaken = "cancel-call") {
        drop(listeners);
    }
    call(waiter);
    true
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::lock::testing::Tester;

    const BY: Tester = Tester(1);

    #[test]
    fn all_listeners_are_called_once_in_order() {
        let (signal, nodes) = (Signal::new(), [0, 1, 2].map(Node::new));
        let place = |i: usize| NonNull::from(&nodes[i]);
        for i in 0..3 {
            // SAFETY: in no queue, and called for or taken out below.
            assert!(unsafe { signal.listen(&BY, place(i)) });
        }
        // SAFETY: alive, and in this queue.
        assert_eq!(unsafe { signal.leave(&BY, place(1)) }, Unlinked::Mine);
        let mut called = Vec::new();
        assert!(!signal.is_given() && signal.give(&BY, |i| called.push(i)));
        assert_eq!(called, [0, 2]);
        assert!(signal.is_given() && !signal.give(&BY, |_| unreachable!("no fiber listens")));
        // SAFETY: alive, and was in this queue.
        assert_eq!(unsafe { signal.leave(&BY, place(0)) }, Unlinked::AlreadyGone);
    }

    #[test]
    fn a_late_listener_sees_the_signal() {
        let (signal, node) = (Signal::new(), Node::new(0));
        assert!(signal.give(&BY, |_| ()));
        // SAFETY: in no queue, and it outlives the signal's use of it.
        assert!(!unsafe { signal.listen(&BY, NonNull::from(&node)) });
    }
}
