//! The children of a scope: the count of those that have not ended, a list of those that a call has
//! to reach, and the waiter for the last.
//!
//! README.md beside this file has the states, the steps and the proof.

use std::ptr::NonNull;

use crate::atomic::{Ordering, const_fn};
use crate::fiber::{Completion, Finish, WaiterId};
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Set once the first call was made: a child that enters later is called at once.
const CALLED: u32 = 1 << 31;
/// The body counts as a child that has not ended, until it waits.
const BODY: u32 = if cfg!(weaken = "children-body") { 0 } else { 1 };

/// The children of one scope, each known by a `C`. It lies in the frame of the scope's body, which
/// stays until [`wait`](Self::wait) releases it.
///
/// The word that comes with the list is written under its lock:
///
/// ```text
/// bit 31: CALLED       bits 30 to 0: children that have not ended, and the body
/// ```
///
/// Budget: one RMW to enter, one to leave; for the last to leave one more.
pub struct Children<C> {
    /// Children that have not ended, and that no call has reached.
    list: WaitQueue<C>,
    /// The end of the last child.
    end: Completion,
}

/// The duty of the spawning fiber for a child that has entered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// No call is due: a later call will reach the child.
    Listed,
    /// A call was made before: the spawning fiber makes it for this child.
    Called,
}

impl<C: Copy> Children<C> {
    const_fn! {
        /// Creates a scope without children.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Children { list: WaitQueue::new(BODY), end: Completion::new() }
        }
    }

    /// Counts a child in, before it can end; by the body or by another child.
    ///
    /// # Safety
    ///
    /// `node` is in no list. It stays alive and in place until the child has left.
    pub unsafe fn enter(&self, by: &impl Contender, node: NonNull<Node<C>>) -> Entered {
        let mut list = self.list.lock(by);
        let word = self.word(&list);
        assert!((word | CALLED) < u32::MAX, "too many children of one scope");
        self.set_word(&list, word + 1);
        if word & CALLED != 0 && !cfg!(weaken = "children-called") {
            return Entered::Called;
        }
        // SAFETY: passed on to the caller; `leave` takes the node out.
        unsafe { list.enqueue(node) };
        Entered::Listed
    }

    /// Counts a child out, as its last access to data of the body. If it was the last, returns the
    /// waiter: that wait is claimed. If it was not, and the body waits already, `follow` is
    /// [told](Self::any) of the others, of which one may take the turn of this child.
    ///
    /// The frame that `this` lies in may be gone before this returns: hence no `&self`.
    ///
    /// # Safety
    ///
    /// The child of `node` has entered, and leaves just once. The frame stays until
    /// [`wait`](Self::wait), which is called once at most, has returned false, or its waiter was
    /// returned by this function.
    #[must_use]
    pub unsafe fn leave(
        this: NonNull<Self>,
        by: &impl Contender,
        node: NonNull<Node<C>>,
        follow: impl FnMut(C) -> bool,
    ) -> Option<WaiterId> {
        // SAFETY: the frame stays until this child has freed the lock, and if it is the last, until
        // it has finished the completion: README.md. The node was queued here, if at all.
        unsafe {
            let this = &*this.as_ptr();
            let mut list = this.list.lock(by);
            let _ = list.unlink(node);
            let last = this.count_out(&list);
            if !last && this.end.is_awaited() {
                let _ = list.any(follow);
            }
            // The lock lies in the frame, so it is freed before the completion releases the frame.
            let _held = cfg!(weaken = "children-unlock").then_some(list);
            if last { finish(&this.end) } else { None }
        }
    }

    /// Calls the next child that no call has reached, and makes every later child be called as it
    /// enters.
    ///
    /// `hold` gets the child while it cannot leave. Returns `None` if there is none left to call.
    pub fn call<R>(&self, by: &impl Contender, hold: impl FnOnce(C) -> R) -> Option<R> {
        let mut list = self.list.lock(by);
        self.set_word(&list, self.word(&list) | CALLED);
        list.claim_first(0).map(hold)
    }

    /// Tells `takes` of the children that have not left, the oldest first, until it returns true;
    /// none of them leaves meanwhile. Returns false if it took none.
    pub fn any(&self, by: &impl Contender, takes: impl FnMut(C) -> bool) -> bool {
        self.list.lock(by).any(takes)
    }

    /// Ends the body. Returns false if all children have ended, so that the frame may go; otherwise
    /// `waiter` is woken once the last of them has left, and has to wait for that.
    #[must_use]
    pub fn wait(&self, by: &impl Contender, waiter: WaiterId) -> bool {
        let last = self.count_out(&self.list.lock(by));
        !last && self.end.wait(waiter)
    }

    /// Takes one off the count; returns true if it was the last.
    fn count_out(&self, list: &Locked<'_, C>) -> bool {
        let word = self.word(list) - 1;
        self.set_word(list, word);
        word & !CALLED == 0
    }

    // Relaxed, both: the word is touched under the lock alone.

    fn word(&self, _list: &Locked<'_, C>) -> u32 {
        self.list.word().load(Ordering::Relaxed)
    }

    fn set_word(&self, _list: &Locked<'_, C>, word: u32) {
        self.list.word().store(word, Ordering::Relaxed);
    }

    /// Makes loom fail unless the frame may go.
    #[cfg(all(test, loom))]
    fn reclaim(&self) {
        self.list.reclaim();
        self.end.reclaim();
    }
}

/// Finishes the completion at the end of the last child; returns its waiter.
fn finish(end: &Completion) -> Option<WaiterId> {
    match end.finish() {
        Finish::Wake(waiter) => Some(waiter),
        Finish::Unobserved | Finish::Detached => None,
    }
}
