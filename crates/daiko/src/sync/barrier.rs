//! Barriers, at which a number of parties wait for each other.

use std::fmt;
use std::ptr::NonNull;

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::{Node, WaitQueue};

use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object};

use crate::atomic::Ordering;
use crate::caller;

/// A point where a fixed number of parties wait for each other, again and again, as
/// [`std::sync::Barrier`].
///
/// A fiber suspends until the last party has arrived; any other thread blocks. A party that leaves
/// before, by a timeout or a cancel, has not arrived: the barrier still waits for as many parties
/// as before.
///
/// ```
/// use daiko::sync::Barrier;
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let barrier = Arc::new(Barrier::new(4));
///     let parties: Vec<_> = (0..4)
///         .map(|_| {
///             let barrier = Arc::clone(&barrier);
///             daiko::spawn(move || barrier.wait().is_leader())
///         })
///         .collect();
///     let leaders = parties.into_iter().map(|party| party.join().unwrap());
///     assert_eq!(leaders.filter(|&leads| leads).count(), 1);
/// });
/// ```
pub struct Barrier {
    /// Its word counts the parties that have arrived: all in the queue. Changed under its lock.
    queue: WaitQueue<WaiterId>,
    /// The number of parties.
    parties: usize,
}

const _: () = assert!(size_of::<Barrier>() == 24);

/// Result of [`Barrier::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns true if the caller arrived last.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for `parties` parties.
    ///
    /// # Panics
    ///
    /// If `parties` is 0: no party would ever come.
    pub const fn new(parties: usize) -> Self {
        assert!(parties > 0, "daiko: a Barrier of 0 lets no caller through; use 1 or more");
        Barrier { queue: WaitQueue::new(0), parties }
    }

    /// Waits until all parties have arrived.
    ///
    /// # Panics
    ///
    /// Inside [`no_suspend`](crate::no_suspend), and in a [`Poller`](crate::agent::Poller), whether
    /// or not the caller is the last.
    pub fn wait(&self) -> BarrierWaitResult {
        match self.wait_until(Deadline::NEVER) {
            Ok(result) => result,
            Err(TimedOut) => unreachable!("never"),
        }
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over. Then the caller has not arrived.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> Result<BarrierWaitResult, TimedOut> {
        self.wait_until(timeout.into())
    }

    fn wait_until(&self, deadline: Deadline) -> Result<BarrierWaitResult, TimedOut> {
        let call = Call::enter();
        let call = call.token();
        // Made before the arrival, so that a cancel that is due has no arrival to undo.
        let waiter = caller::waiter("Barrier::wait");
        let node = Node::new(waiter.id());
        if self.arrive(call, &node) {
            return Ok(BarrierWaitResult(true));
        }
        match waiter.wait(call, &node, self, deadline) {
            Ended::Claimed(_) => Ok(BarrierWaitResult(false)),
            Ended::TimedOut => Err(TimedOut),
        }
    }

    /// Lets all parties go if `node` is the last to arrive; otherwise queues it.
    fn arrive(&self, call: InCall<'_>, node: &Node<WaiterId>) -> bool {
        let mut queue = self.queue.lock(ThisThread::of(call));
        let arrived = self.arrived() + 1;
        if arrived as usize == self.parties {
            self.set_arrived(0);
            let others = queue.take_all();
            drop(queue);
            wait::wake_all(call, others);
            return true;
        }
        self.set_arrived(arrived);
        // SAFETY: the node is new, and its frame is left only after it has left or was claimed.
        unsafe { queue.enqueue(NonNull::from(node)) };
        false
    }

    /// Returns the number of parties that have arrived. To be called under the queue lock.
    fn arrived(&self) -> u32 {
        self.queue.word().load(Ordering::Relaxed)
    }

    /// Sets the number of parties that have arrived. To be called under the queue lock.
    fn set_arrived(&self, arrived: u32) {
        self.queue.word().store(arrived, Ordering::Relaxed);
    }
}

impl Object<WaiterId> for Barrier {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        let mut queue = self.queue.lock(ThisThread::of(call));
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { queue.unlink(node) };
        if unlinked == Unlinked::Mine {
            self.set_arrived(self.arrived() - 1);
        }
        unlinked
    }

    /// All other parties were let go as well.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Barrier, self)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties).finish_non_exhaustive()
    }
}
