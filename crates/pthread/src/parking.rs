//! Waits in the queues of objects: of contexts on workers, and of native threads.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use daiko_context::FpControl;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::missed::InterruptMark;
use daiko_core::wait::{Node, NodeState};
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::WaitTarget;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Wait, Waiter};

use crate::atomic::{Ordering, fence};
use crate::home::{self, Home};
pub(crate) use crate::interrupt::Queue;
use crate::interrupt::{Interruptible, Pending};
use crate::mask::HeldSignals;
use crate::waits::{self, Target};

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// A waker has claimed the wait, or the condition to wait for does not hold any more.
    Over,
    TimedOut,
    /// A signal or a cancellation has come. Handlers have run.
    Interrupted(Pending),
}

impl Outcome {
    pub(crate) fn is_timeout(self) -> bool {
        matches!(self, Outcome::TimedOut)
    }
}

/// A wait in the queue of an object.
struct Queued<'q> {
    wait: &'q Interruptible<'q>,
    /// True if an interrupt ends the wait: a signal handler has run on the native thread that
    /// waits, or the context has to come home.
    interrupted: Cell<bool>,
    /// For debuggers.
    target: Target,
}

impl Wait for Queued<'_> {
    fn leave(&self, call: InCall<'_>) -> Unlinked {
        let _signals = home::hold_signals();
        // SAFETY: the node is alive, and was put into that queue.
        unsafe {
            if self.interrupted.get() {
                return self.wait.interrupt(call);
            }
            self.wait.queue.unlink(ThisThread::of(call), NonNull::from(self.wait.node))
        }
    }

    fn note(&self) -> u8 {
        match self.wait.node.state() {
            NodeState::Claimed(_) => CLAIMED,
            _ => INTERRUPTED,
        }
    }

    fn give_way(&self, call: InCall<'_>, note: u8) -> bool {
        let _signals = home::hold_signals();
        wait::wake(call, self.wait.queue.pass_on(ThisThread::of(call), note));
        true
    }

    fn target(&self) -> WaitTarget {
        let Target { kind, address } = self.target;
        WaitTarget::new(kind.of_fiber(), ptr::without_provenance::<()>(address))
    }

    fn ends_by_signal(&self) -> bool {
        self.interrupted.set(true);
        true
    }
}

/// The notes of a wait that a waker, or an interrupter, has ended.
const CLAIMED: u8 = 0;
const INTERRUPTED: u8 = 1;

/// The finding of a waiter that enters the queue.
#[derive(PartialEq, Eq)]
enum Entered {
    /// It has to wait.
    Waits,
    /// It is in the queue, but has not to wait.
    Changed,
    /// It is not in the queue.
    Outside,
}

/// Waits in the `queue` of `target` for as long as `blocked` holds: for a wake by a thread that has
/// changed the object, and looks for waiters behind that.
#[inline(never)]
pub(crate) fn wait(
    queue: &Queue,
    target: Target,
    deadline: Deadline,
    blocked: impl FnOnce() -> bool,
) -> Outcome {
    wait_then(queue, target, deadline, blocked, || ()).0
}

/// Waits as [`wait`] does. An interrupt sets the mark before the waiter is out of the queue.
pub(crate) fn wait_noted(
    queue: &Queue,
    target: Target,
    deadline: Deadline,
    mark: &InterruptMark,
    blocked: impl FnOnce() -> bool,
) -> Outcome {
    let enter = enter_while(queue, blocked);
    wait_entered(queue, Some(mark), target, deadline, enter, || ()).0
}

/// Waits as [`wait`] does, and calls `leave` before handlers of signals run: one of them may end
/// the calling thread, and nothing may lead to its frame then.
#[inline]
pub(crate) fn wait_then<R>(
    queue: &Queue,
    target: Target,
    deadline: Deadline,
    blocked: impl FnOnce() -> bool,
    leave: impl FnOnce() -> R,
) -> (Outcome, R) {
    wait_entered(queue, None, target, deadline, enter_while(queue, blocked), leave)
}

/// Returns the entry into the queue of a wait for as long as `blocked` holds.
#[inline]
fn enter_while(
    queue: &Queue,
    blocked: impl FnOnce() -> bool,
) -> impl FnOnce(InCall<'_>, NonNull<Node<WaiterId>>) -> Entered {
    |call, node| {
        // SAFETY: by the promise of `wait_once`.
        unsafe { queue.enqueue(ThisThread::of(call), node) };
        if blocked() { Entered::Waits } else { Entered::Changed }
    }
}

/// Waits in the `queue` of `target` if `waits`, under the queue's lock, says so; else wakes all
/// waiters there.
pub(crate) fn wait_or_release(
    queue: &Queue,
    target: Target,
    waits: impl FnOnce() -> bool,
) -> Outcome {
    let enter = |call: InCall<'_>, node| {
        let mut locked = queue.lock(ThisThread::of(call));
        if waits() {
            // SAFETY: by the promise of `wait_once`.
            unsafe { locked.enqueue(node) };
            drop(locked);
            // Pairs with the fence of an interrupter.
            fence(Ordering::SeqCst);
            return Entered::Waits;
        }
        let taken = locked.take_all();
        drop(locked);
        wait::wake_all(call, taken);
        Entered::Outside
    };
    wait_entered(queue, None, target, Deadline::NEVER, enter, || ()).0
}

fn wait_entered<R>(
    queue: &Queue,
    mark: Option<&InterruptMark>,
    target: Target,
    deadline: Deadline,
    enter: impl FnOnce(InCall<'_>, NonNull<Node<WaiterId>>) -> Entered,
    leave: impl FnOnce() -> R,
) -> (Outcome, R) {
    let home = home::of_waiter();
    let (outcome, interrupted) = wait_once(queue, mark, target, deadline, enter, home);
    let left = leave();
    let outcome = match home {
        _ if !interrupted => {
            // A call home that has come while the wait ended by itself.
            if let Some(home) = home.filter(|home| home.interrupts().are_due()) {
                home.attend();
            }
            outcome
        }
        Some(home) => Outcome::Interrupted(home.attend()),
        // Its handler has run; those with `SA_RESTART` do not end the kernel's wait.
        None => Outcome::Interrupted(Pending { handled: true, ends_calls: true }),
    };
    (outcome, left)
}

/// Waits; also returns true if the wait was interrupted. `enter` may put the node that it gets into
/// the queue, with a fence behind that: the node is new, and stays until it was claimed or
/// unlinked.
#[inline(always)]
fn wait_once(
    queue: &Queue,
    mark: Option<&InterruptMark>,
    target: Target,
    deadline: Deadline,
    enter: impl FnOnce(InCall<'_>, NonNull<Node<WaiterId>>) -> Entered,
    home: Option<&Home>,
) -> (Outcome, bool) {
    let call = Call::enter();
    let call = call.token();
    // SAFETY: used in this call.
    let waiter = unsafe { Waiter::unasked() };
    let node = Node::new(waiter.id());
    let interruptible = Interruptible { queue, node: &node, mark };
    let wait = Queued { wait: &interruptible, interrupted: Cell::new(false), target };
    // SAFETY: retracted below.
    home.inspect(|home| unsafe { interruptible.publish_to(home.interrupts()) });
    let entered = {
        // A handler may change the same object. Workers block signals.
        let _signals = home.is_none().then(HeldSignals::hold);
        enter(call, NonNull::from(&node))
    };
    let is_due = || home.is_some_and(|home| home.interrupts().are_due());
    let ended = match entered {
        Entered::Waits if !is_due() => {
            let wait = || FpControl::lay_aside(|| waiter.wait_for(call, &wait, deadline));
            if waits::are_noted() && deadline == Deadline::NEVER {
                noted(home, target, wait)
            } else {
                wait()
            }
        }
        Entered::Waits => {
            wait.interrupted.set(true);
            leave(call, &waiter, &wait)
        }
        Entered::Changed => leave(call, &waiter, &wait),
        Entered::Outside => Ended::Claimed(CLAIMED),
    };
    home.inspect(|home| interruptible.retract_from(home.interrupts()));
    match ended {
        Ended::Claimed(note) => (Outcome::Over, note == INTERRUPTED),
        Ended::TimedOut if entered == Entered::Changed => (Outcome::Over, false),
        Ended::TimedOut if wait.interrupted.get() || is_due() => (Outcome::Over, true),
        Ended::TimedOut => (Outcome::TimedOut, false),
    }
}

/// Makes a wait without a deadline, which reports of deadlocks may find.
#[cold]
#[inline(never)]
fn noted(home: Option<&Home>, target: Target, wait: impl FnOnce() -> Ended) -> Ended {
    match home {
        Some(home) => waits::noted(Some(home.waits_for()), target, wait),
        None => waits::noted_of_native(home::thread_id(), target, wait),
    }
}

/// Ends a wait before its suspension. `TimedOut`: no other thread has ended it.
#[cold]
fn leave(call: InCall<'_>, waiter: &Waiter, wait: &Queued<'_>) -> Ended {
    if wait.leave(call) == Unlinked::Mine {
        return Ended::TimedOut;
    }
    waiter.absorb_wake(call);
    Ended::Claimed(wait.note())
}

/// Wakes the oldest waiter of an object that the caller has changed. Returns true if there was one.
#[inline]
pub(crate) fn wake_one(queue: &Queue) -> bool {
    queue.has_waiters() && wake_first(queue)
}

/// Wakes as [`wake_one`] does. The caller has changed the object by a read-modify-write of order
/// `SeqCst`.
#[inline]
pub(crate) fn wake_one_after_rmw(queue: &Queue) -> bool {
    queue.has_waiters_after_rmw() && wake_first(queue)
}

#[inline(never)]
fn wake_first(queue: &Queue) -> bool {
    let _signals = home::hold_signals();
    let call = Call::enter();
    let call = call.token();
    let waiter = queue.claim_first(ThisThread::of(call), CLAIMED);
    wait::wake(call, waiter);
    waiter.is_some()
}

/// Wakes the oldest waiter, by an agent.
pub(crate) fn wake_by(call: InCall<'_>, queue: &Queue) {
    wait::wake(call, queue.claim_first(ThisThread::of(call), CLAIMED));
}

/// Wakes all waiters of an object that the caller has changed. Returns true if there were any.
pub(crate) fn wake_all(queue: &Queue) -> bool {
    queue.has_waiters() && wake_those_in(queue)
}

/// Wakes as [`wake_all`] does. The caller has changed the object by a read-modify-write of order
/// `SeqCst`.
pub(crate) fn wake_all_after_rmw(queue: &Queue) -> bool {
    queue.has_waiters_after_rmw() && wake_those_in(queue)
}

#[inline(never)]
fn wake_those_in(queue: &Queue) -> bool {
    let _signals = home::hold_signals();
    let call = Call::enter();
    let call = call.token();
    let mut locked = queue.lock(ThisThread::of(call));
    let any = !locked.is_empty();
    let taken = locked.take_all();
    drop(locked);
    wait::wake_all(call, taken);
    any
}

/// Sleeps until the deadline, or an interrupt.
pub(crate) fn sleep_until(deadline: Deadline) -> Outcome {
    let queue = Queue::new(0);
    wait(&queue, Target::NOTHING, deadline, || true)
}
