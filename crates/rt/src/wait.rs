//! Waits that end by a wake, a deadline or a cancel. A fiber suspends, any other thread blocks.

use std::num::NonZeroU64;
use std::ptr::NonNull;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::{Node, NodeState, Taken};

use crate::call::InCall;
use crate::deadline::Deadline;
use crate::deadlock::{WaitKind, WaitTarget, thread_waits_for};
pub use crate::fiber::waiter::ticket_id;
use crate::fiber::waiter::{self, ThreadWaiter};
use crate::fiber::{ControlBlock, unwind};
use crate::process;
use crate::runtime::kernel;
use crate::worker::suspend::{self, Resumed};
use crate::worker::{self, Worker};

/// The end of a wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A waker claimed the node, with this note.
    Claimed(u8),
    /// The deadline passed before a waker claimed the node.
    TimedOut,
}

/// An object with a queue of waiters.
pub trait Object<W> {
    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was put into this object's queue last.
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<W>>) -> Unlinked;

    /// Passes a wake on to another waiter: the claimed waiter, which got `note`, is cancelled.
    /// Returns false if the wake is of no use to any other waiter; then the claimed waiter uses it,
    /// and the cancel has to wait.
    #[must_use]
    fn give_way(&self, call: InCall<'_>, note: u8) -> bool;

    /// Returns the name of the object for reports of deadlocks. With the default, waiters for the
    /// object are never taken for lost.
    fn target(&self) -> WaitTarget {
        WaitTarget::of(WaitKind::Unknown)
    }
}

/// A published wait: the ways in which it ends, except by its waker.
pub trait Wait {
    /// Withdraws the wait, unless it was claimed before.
    fn leave(&self, call: InCall<'_>) -> Unlinked;

    /// Returns the waker's note to the waiter. Only once it was claimed.
    fn note(&self) -> u8;

    /// Passes the wake on: see [`Object::give_way`].
    #[must_use]
    fn give_way(&self, call: InCall<'_>, note: u8) -> bool;

    /// Returns the target of the wait: see [`Object::target`].
    fn target(&self) -> WaitTarget;

    /// A signal handler has run on the thread that waits. Returns true if that ends the wait, as
    /// the deadline does.
    fn ends_by_signal(&self) -> bool {
        false
    }
}

/// A wait in the queue of one object.
struct Queued<'w, W, O> {
    node: &'w Node<W>,
    object: &'w O,
}

impl<W: Copy, O: Object<W>> Wait for Queued<'_, W, O> {
    fn leave(&self, call: InCall<'_>) -> Unlinked {
        // SAFETY: the node is alive, and in that queue since the caller of `Waiter::wait` put it
        // there.
        unsafe { self.object.leave(call, NonNull::from(self.node)) }
    }

    fn note(&self) -> u8 {
        match self.node.state() {
            NodeState::Claimed(note) => note,
            state => unreachable!("woken, though the node is {state:?}"),
        }
    }

    fn give_way(&self, call: InCall<'_>, note: u8) -> bool {
        self.object.give_way(call, note)
    }

    fn target(&self) -> WaitTarget {
        self.object.target()
    }
}

/// A fiber or thread that waits.
#[derive(Clone, Copy)]
pub enum Waiter {
    Fiber(&'static ControlBlock),
    Thread(&'static ThreadWaiter),
}

impl Waiter {
    /// Returns the caller, after it has [asked](Self::ask) to wait.
    ///
    /// # Safety
    ///
    /// As for the [references](crate::client#safety) of `client`.
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    #[inline(never)]
    pub unsafe fn caller(operation: &str) -> Waiter {
        let Some((_, fiber)) = worker::try_caller() else { return Self::thread(operation) };
        if fiber.flags.has_any() {
            unwind::before_suspension(fiber);
        }
        Waiter::Fiber(fiber)
    }

    #[cold]
    #[inline(never)]
    fn thread(operation: &str) -> Waiter {
        let waiter = Waiter::Thread(ThreadWaiter::this_thread());
        waiter.ask(operation);
        waiter
    }

    /// Returns the caller. Before it waits, it has to [`ask`](Self::ask).
    ///
    /// # Safety
    ///
    /// As for the [references](crate::client#safety) of `client`.
    #[inline]
    pub unsafe fn unasked() -> Waiter {
        match worker::try_caller() {
            Some((_, fiber)) => Waiter::Fiber(fiber),
            None => Waiter::Thread(ThreadWaiter::this_thread()),
        }
    }

    /// Returns the caller as [`unasked`](Self::unasked) does, and true if it is a fiber, and no
    /// other is next on its worker: then it [may look](Self::may_look_out).
    ///
    /// # Safety
    ///
    /// As for [`unasked`](Self::unasked).
    #[inline]
    pub unsafe fn unasked_and_last() -> (Waiter, bool) {
        match worker::try_caller() {
            Some((worker, fiber)) => (Waiter::Fiber(fiber), !worker.has_next()),
            None => (Waiter::Thread(ThreadWaiter::this_thread()), false),
        }
    }

    /// Returns true if [`ask`](Self::ask) may panic or raise a cancel.
    #[inline]
    pub fn may_be_refused(&self) -> bool {
        match self {
            Waiter::Fiber(fiber) => fiber.flags.has_any(),
            Waiter::Thread(_) => worker::is_agent() || process::is_active(),
        }
    }

    /// Checks that the waiter may wait in `operation`. If a cancel is due, it is raised.
    ///
    /// # Panics
    ///
    /// If the caller may not wait: a poller, a fiber inside `no_suspend`, or a thread with a
    /// frame that its wakers, in other processes, cannot see.
    pub fn ask(&self, operation: &str) {
        match self {
            Waiter::Fiber(fiber) if fiber.flags.has_any() => unwind::before_suspension(fiber),
            Waiter::Fiber(_) => {}
            Waiter::Thread(_) => {
                worker::assert_no_poller(operation);
                process::assert_frame_is_shared(operation);
            }
        }
    }

    /// Returns true if another fiber could run on the worker of this fiber during the wait.
    fn has_other_work(&self) -> bool {
        matches!(self, Waiter::Fiber(_)) && worker::current().is_some_and(Worker::has_other_work)
    }

    /// Returns the id by which wakers know the waiter.
    pub fn id(&self) -> WaiterId {
        match self {
            Waiter::Fiber(fiber) => waiter::fiber_id(fiber),
            Waiter::Thread(thread) => thread.id(),
        }
    }

    /// Returns true if the caller may [look](Self::look_out) for the end of a wait that it is about
    /// to publish: a fiber, but none in a runtime of several processes. If a process ends while its
    /// fiber looks, no wake comes for that fiber. `peer_elsewhere` states that a process with a CPU
    /// of its own ends the wait.
    #[cold]
    #[inline(never)]
    pub fn may_look_out(&self, peer_elsewhere: bool) -> bool {
        matches!(self, Waiter::Fiber(_))
            && !process::is_active()
            && worker::current().is_some_and(|worker| worker.take_look(peer_elsewhere))
    }

    /// Looks at a wait that the caller has published, without leaving its stack, until `ended`
    /// returns true. Returns false if there is other work, or after as long as a suspension takes.
    pub fn look_out(&self, ended: impl Fn() -> bool) -> bool {
        for _ in 0..Self::LOOKS {
            if ended() {
                return true;
            }
            if self.has_other_work() {
                return false;
            }
            crate::atomic::spin_loop();
        }
        ended()
    }

    /// Number of looks, with a pause after each, at a wait that is published.
    const LOOKS: u32 = 32;

    /// Returns the looks that the caller may take at the awaited object before it waits.
    pub fn polls(&self) -> Polls<'_> {
        Polls { waiter: self, round: 0 }
    }

    /// Waits until `node`, which the caller has put into the queue of `object` under this waiter's
    /// id, is claimed or the deadline has passed. A cancel unwinds.
    pub fn wait<W: Copy>(
        &self,
        call: InCall<'_>,
        node: &Node<W>,
        object: &impl Object<W>,
        deadline: Deadline,
    ) -> Ended {
        self.wait_for(call, &Queued { node, object }, deadline)
    }

    /// Waits as [`wait`](Self::wait) does, inlined up to the switch: for code that is inlined into
    /// user code (`worker/suspend.rs` gives the reason).
    #[inline(always)]
    pub fn wait_inlined<W: Copy>(
        &self,
        call: InCall<'_>,
        node: &Node<W>,
        object: &impl Object<W>,
        deadline: Deadline,
    ) -> Ended {
        let wait = Queued { node, object };
        match self {
            Waiter::Fiber(fiber) if deadline == Deadline::NEVER => {
                fiber.waiting_for(wait.target(), || match suspend::wait_inlined(call, fiber) {
                    true => Ended::Claimed(wait.note()),
                    false => wait_on(call, fiber, &wait),
                })
            }
            _ => self.wait_for(call, &wait, deadline),
        }
    }

    /// Waits as [`wait`](Self::wait) does, for any wait that the caller has published under this
    /// waiter's id.
    #[inline(never)]
    pub fn wait_for(&self, call: InCall<'_>, wait: &impl Wait, deadline: Deadline) -> Ended {
        match self {
            Waiter::Fiber(fiber) => {
                fiber.waiting_for(wait.target(), || {
                    match suspend::wait_until(call, fiber, deadline) {
                        Resumed::Woken => Ended::Claimed(wait.note()),
                        resumed => conclude_wait(call, fiber, wait, resumed),
                    }
                })
            }
            Waiter::Thread(thread) => wait_as_thread(call, thread, wait, deadline),
        }
    }

    /// Takes a ticket of this waiter back from an object that has given it out, after another
    /// object, or none, has ended the wait. Afterwards the ticket may go.
    pub fn recall(&self, call: InCall<'_>, ticket: &Ticket<WaiterId>) {
        if ticket.recall() {
            self.absorb_wake(call);
        }
    }

    /// Waits for the wake that is on its way, regardless of cancels and deadlines.
    pub fn absorb_wake(&self, call: InCall<'_>) {
        match self {
            Waiter::Fiber(fiber) => suspend::absorb_wake(call, fiber),
            Waiter::Thread(thread) => thread.block(),
        }
    }
}

/// Looks at an awaited object, at growing intervals, while there is nothing else to do: the agent's
/// work, without leaving the stack.
pub struct Polls<'w> {
    waiter: &'w Waiter,
    round: u32,
}

impl Polls<'_> {
    /// The number of looks. All of them take about as long as a wake across workers.
    const MOST: u32 = 8;

    /// Looks until `ready` returns true, or no look is left.
    pub fn until(&mut self, ready: impl Fn() -> bool) {
        while !ready() && self.again() {}
    }

    /// Returns true if the caller shall look again; waits for a short time before.
    fn again(&mut self) -> bool {
        if self.round == Self::MOST || self.waiter.has_other_work() {
            return false;
        }
        for _ in 0..1 << self.round.min(5) {
            crate::atomic::spin_loop();
        }
        self.round += 1;
        true
    }
}

/// Returns true if a thread beside the caller could end its wait: false on the only worker of a
/// runtime.
pub fn others_run() -> bool {
    worker::current().is_none_or(|worker| worker.runtime().worker_count() > 1)
}

/// Returns true if `waiter` is a fiber of the calling worker, and so runs once the caller suspends.
pub fn is_here(waiter: WaiterId) -> bool {
    // SAFETY: the ids in the queues of objects are those of `Waiter`s, which are alive while in
    // there.
    worker::current().is_some_and(|worker| unsafe { waiter::is_of(waiter, worker) })
}

/// Wakes `waiter`, if there is one. The caller has claimed its wait.
#[inline]
pub fn wake(call: InCall<'_>, waiter: Option<WaiterId>) {
    if let Some(waiter) = waiter {
        let _ = wake_one(call, waiter);
    }
}

#[inline(never)]
fn wake_one(call: InCall<'_>, waiter: WaiterId) -> bool {
    // SAFETY: the wait is claimed; the ids in the queues of objects are those of `Waiter`s.
    unsafe { waiter::wake(call, waiter, worker::current()) }
}

/// Wakes `waiter` as [`wake`] does, to hand over a permit or the like. Returns false for a select
/// that another object had ended before: the caller passes the permit on to the next in line.
#[must_use = "another waiter is in line"]
pub fn hand_over(call: InCall<'_>, waiter: WaiterId) -> bool {
    wake_one(call, waiter)
}

/// Wakes all of `waiters`, which the caller has taken out of their queue.
pub fn wake_all(call: InCall<'_>, waiters: Taken<WaiterId>) {
    waiters.for_each(|waiter| wake(call, Some(waiter)));
}

/// Returns a number that no other fiber or thread has while the caller, a fiber or thread, lives.
pub fn caller_number() -> NonZeroU64 {
    let number = match worker::try_caller() {
        // An address of a control block: even.
        Some((_, fiber)) => waiter::fiber_id(fiber).bits(),
        None => u64::from(kernel::thread_id().get()) << 1 | 1,
    };
    NonZeroU64::new(number).expect("no address and no odd number is 0")
}

/// Notes that `waiter` waits for `target` from now on. The caller has its node in hand.
pub fn moves_to(waiter: WaiterId, target: WaitTarget) {
    // SAFETY: a waiter goes on waiting while the caller has its node in hand.
    if let Some(fiber) = unsafe { waiter::fiber_of(waiter) } {
        fiber.moves_to(target);
    }
}

/// Continues a wait without a deadline after the fiber was resumed by an event other than its
/// waker.
#[cold]
#[inline(never)]
fn wait_on(call: InCall<'_>, fiber: &ControlBlock, wait: &impl Wait) -> Ended {
    if unwind::is_due(fiber) {
        return conclude_wait(call, fiber, wait, Resumed::Cancelled);
    }
    match suspend::wait_until(call, fiber, Deadline::NEVER) {
        Resumed::Woken => Ended::Claimed(wait.note()),
        resumed => conclude_wait(call, fiber, wait, resumed),
    }
}

/// Ends the wait of a fiber that was resumed by an event other than its waker.
#[cold]
#[inline(never)]
fn conclude_wait(
    call: InCall<'_>,
    fiber: &ControlBlock,
    wait: &impl Wait,
    resumed: Resumed,
) -> Ended {
    let unlinked = wait.leave(call);
    if unlinked == Unlinked::AlreadyGone {
        suspend::absorb_wake(call, fiber);
    }
    match (resumed, unlinked) {
        (Resumed::Cancelled, Unlinked::AlreadyGone) if !wait.give_way(call, wait.note()) => {
            Ended::Claimed(wait.note())
        }
        (Resumed::Cancelled, _) => unwind::raise_now(fiber),
        (_, Unlinked::AlreadyGone) => Ended::Claimed(wait.note()),
        (_, Unlinked::Mine) => Ended::TimedOut,
    }
}

fn wait_as_thread(
    call: InCall<'_>,
    thread: &ThreadWaiter,
    wait: &impl Wait,
    deadline: Deadline,
) -> Ended {
    let block = || thread.block_until(deadline, || wait.ends_by_signal());
    if !thread_waits_for(|| wait.target(), block) {
        if wait.leave(call) == Unlinked::Mine {
            return Ended::TimedOut;
        }
        thread.block();
    }
    Ended::Claimed(wait.note())
}
