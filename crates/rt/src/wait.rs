//! Waits that something ends: a wake, a deadline, a cancel. A fiber suspends, any other thread blocks.

use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::lock::Contender;
use daiko_core::wait::{Node, NodeState, Taken};
use daiko_sys::clock;

use crate::deadlock::{self, Kind, Target};
use crate::fiber::waiter::{self, ThreadWaiter};
use crate::fiber::{ControlBlock, unwind};
use crate::process;
use crate::runtime::kernel::ThisThread;
use crate::worker::suspend::{self, Resumed};
use crate::worker::{self, Worker};

/// A point in time at which a wait gives up.
///
/// Functions whose names end in `_timeout` take one, from a [`Duration`] that begins with the call, or
/// from an [`Instant`].
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// use std::time::{Duration, Instant};
///
/// daiko::park_timeout(Duration::from_millis(1));
/// daiko::park_timeout(Instant::now() + Duration::from_millis(1));
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// On the monotonic clock; the last value is never.
    ns: u64,
}

impl From<Duration> for Deadline {
    /// The time `timeout` from now; after centuries never.
    fn from(timeout: Duration) -> Self {
        Deadline::after(timeout)
    }
}

impl From<Instant> for Deadline {
    /// The time of `instant`; now, if that has passed.
    fn from(instant: Instant) -> Self {
        Deadline::at(instant)
    }
}

impl Deadline {
    /// A time that never comes.
    pub const NEVER: Deadline = Deadline { ns: u64::MAX };

    /// So long from now; after centuries never.
    #[doc(hidden)]
    pub fn after(timeout: Duration) -> Deadline {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Deadline { ns: clock::monotonic_ns().saturating_add(timeout) }
    }

    /// At `instant`; if that has passed, now.
    #[doc(hidden)]
    pub fn at(instant: Instant) -> Deadline {
        Self::after(instant.saturating_duration_since(Instant::now()))
    }

    /// At so many nanoseconds of the clock; the last of them is never.
    #[doc(hidden)]
    pub fn from_ns(ns: u64) -> Deadline {
        Deadline { ns }
    }

    /// In nanoseconds; `None`: never.
    #[doc(hidden)]
    pub fn ns(self) -> Option<u64> {
        (self != Self::NEVER).then_some(self.ns)
    }

    /// Whether it has passed.
    #[doc(hidden)]
    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// The time that is left; `None`: all of it.
    #[doc(hidden)]
    pub fn left(self) -> Option<Duration> {
        let left = |ns: u64| Duration::from_nanos(ns.saturating_sub(clock::monotonic_ns()));
        self.ns().map(left)
    }
}

/// How a wait in a queue has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A waker claimed the node, with this note.
    Claimed(u8),
    /// The deadline has passed, and nobody had claimed it before.
    TimedOut,
}

/// What somebody waits for, by the queue that he is in.
pub trait Object<W> {
    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was put into this object's queue last.
    unsafe fn leave(&self, node: NonNull<Node<W>>) -> Unlinked;

    /// Gives a wake to somebody else whose waiter was claimed with `note`, and is cancelled. False if
    /// it is of no use to anybody else: then it is used, and the cancel has to wait.
    #[must_use]
    fn give_way(&self, note: u8) -> bool;

    /// What a report of a deadlock calls it. Where this is not said, nobody who waits for it is taken
    /// for lost.
    fn target(&self) -> Target {
        Target::of(Kind::Unknown)
    }
}

/// A wait that was published: how it ends otherwise than by its waker.
pub trait Wait {
    /// Takes it back, unless it was claimed before.
    fn leave(&self) -> Unlinked;

    /// What the waker left for the waiter. Only once it was claimed.
    fn note(&self) -> u8;

    /// As [`Object::give_way`].
    #[must_use]
    fn give_way(&self, note: u8) -> bool;

    /// As [`Object::target`].
    fn target(&self) -> Target;
}

/// A wait in the queue of one object.
struct Queued<'w, W, O> {
    node: &'w Node<W>,
    object: &'w O,
}

impl<W: Copy, O: Object<W>> Wait for Queued<'_, W, O> {
    fn leave(&self) -> Unlinked {
        // SAFETY: the node is alive, and in that queue since the caller of `Waiter::wait` put it there.
        unsafe { self.object.leave(NonNull::from(self.node)) }
    }

    fn note(&self) -> u8 {
        match self.node.state() {
            NodeState::Claimed(note) => note,
            state => unreachable!("woken, though the node is {state:?}"),
        }
    }

    fn give_way(&self, note: u8) -> bool {
        self.object.give_way(note)
    }

    fn target(&self) -> Target {
        self.object.target()
    }
}

/// Who waits.
#[derive(Clone, Copy)]
pub enum Waiter {
    Fiber(&'static ControlBlock),
    Thread(&'static ThreadWaiter),
}

impl Waiter {
    /// The caller of `what`, which may wait from here on.
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    #[inline(never)]
    pub fn caller(what: &str) -> Waiter {
        let waiter = Self::unasked();
        waiter.ask(what);
        waiter
    }

    /// The caller, which has to [`ask`](Self::ask) before it waits, if it comes to that.
    #[inline]
    pub fn unasked() -> Waiter {
        match suspend::try_caller() {
            Some((_, fiber)) => Waiter::Fiber(fiber),
            None => Waiter::Thread(ThreadWaiter::this_thread()),
        }
    }

    /// Whether [`ask`](Self::ask) may panic or raise a cancel.
    #[inline]
    pub fn may_be_refused(&self) -> bool {
        match self {
            Waiter::Fiber(fiber) => fiber.flags.get() != 0,
            Waiter::Thread(_) => worker::is_agent() || process::is_active(),
        }
    }

    /// Asks whether it may wait in `what`. If a cancel is due, it is raised.
    ///
    /// # Panics
    ///
    /// If the caller may not wait: a poller, a fiber inside `no_suspend`, or a thread whose frame those who wake
    /// it do not see, as they are other processes.
    pub fn ask(&self, what: &str) {
        match self {
            Waiter::Fiber(fiber) if fiber.flags.get() != 0 => unwind::before_suspension(fiber),
            Waiter::Fiber(_) => {}
            Waiter::Thread(_) => {
                worker::assert_no_poller(what);
                process::assert_frame_is_shared(what);
            }
        }
    }

    /// Whether others could run meanwhile on the worker of this fiber.
    fn has_other_work(&self) -> bool {
        matches!(self, Waiter::Fiber(_)) && worker::current().is_some_and(Worker::has_other_work)
    }

    /// What wakers know it by.
    pub fn id(&self) -> WaiterId {
        match self {
            Waiter::Fiber(fiber) => waiter::fiber_id(fiber),
            Waiter::Thread(thread) => thread.id(),
        }
    }

    /// Looks that it may take at what it waits for before it waits.
    pub fn polls(&self) -> Polls<'_> {
        Polls { waiter: self, round: 0 }
    }

    /// Waits until `node`, which the caller has put into the queue of `object` under this waiter's
    /// id, is claimed or the deadline has passed. A cancel unwinds.
    pub fn wait<W: Copy>(
        &self,
        node: &Node<W>,
        object: &impl Object<W>,
        deadline: Deadline,
    ) -> Ended {
        self.wait_for(&Queued { node, object }, deadline)
    }

    /// As [`wait`](Self::wait), inlined up to the switch: for what is inlined where users call it
    /// (`worker/suspend.rs` says why).
    #[inline(always)]
    pub fn wait_inlined<W: Copy>(
        &self,
        node: &Node<W>,
        object: &impl Object<W>,
        deadline: Deadline,
    ) -> Ended {
        let wait = Queued { node, object };
        match self {
            Waiter::Fiber(fiber) if deadline == Deadline::NEVER && !deadlock::is_tracking() => {
                if suspend::wait_inlined(fiber) {
                    Ended::Claimed(wait.note())
                } else {
                    wait_on(fiber, &wait)
                }
            }
            _ => self.wait_for(&wait, deadline),
        }
    }

    /// As [`wait`](Self::wait), for whatever the caller has published under this waiter's id.
    #[inline(never)]
    pub fn wait_for(&self, wait: &impl Wait, deadline: Deadline) -> Ended {
        match self {
            Waiter::Fiber(fiber) => {
                fiber.waiting_for(wait.target(), || wait_as_fiber(fiber, wait, deadline))
            }
            Waiter::Thread(thread) => wait_as_thread(thread, wait, deadline),
        }
    }

    /// Waits for the wake that is on its way, whatever else comes.
    pub fn absorb_wake(&self) {
        match self {
            Waiter::Fiber(fiber) => suspend::absorb_wake(fiber),
            Waiter::Thread(thread) => thread.block(),
        }
    }
}

/// Looks at what is waited for, a little longer apart each time, while there is nothing else to do: the
/// agent's work, without leaving the stack.
pub struct Polls<'w> {
    waiter: &'w Waiter,
    round: u32,
}

impl Polls<'_> {
    /// All of them take about as long as a wake across workers.
    const MOST: u32 = 8;

    /// Whether to look again, after a short time.
    pub fn again(&mut self) -> bool {
        if self.round == Self::MOST || self.waiter.has_other_work() {
            return false;
        }
        for _ in 0..1 << self.round.min(5) {
            std::hint::spin_loop();
        }
        self.round += 1;
        true
    }
}

/// Whether anybody runs beside the caller who could end what it waits for: not beside the only worker.
pub fn others_run() -> bool {
    worker::current().is_none_or(|worker| worker.runtime().worker_count() > 1)
}

/// Whether `waiter` is a fiber of the calling worker, and so runs once the caller suspends.
pub fn is_here(waiter: WaiterId) -> bool {
    // SAFETY: the ids in the queues of objects are those of `Waiter`, who are alive in there.
    worker::current().is_some_and(|worker| unsafe { waiter::is_of(waiter, worker) })
}

/// Wakes `waiter`, if there is one, whose wait the caller has claimed.
pub fn wake(waiter: Option<WaiterId>) {
    if let Some(id) = waiter {
        // SAFETY: claimed; the ids in the queues of objects are those of `Waiter`.
        unsafe { waiter::wake(id, worker::current()) };
    }
}

/// Wakes all of `waiters`, which the caller has taken out of their queue.
pub fn wake_all(waiters: Taken<WaiterId>) {
    waiters.for_each(|waiter| wake(Some(waiter)));
}

/// A number of the caller, fiber or thread, that nobody else has at this time.
pub fn caller_number() -> NonZeroU64 {
    let number = match suspend::try_caller() {
        // An address of a control block: even.
        Some((_, fiber)) => waiter::fiber_id(fiber).0,
        None => u64::from(ThisThread.id().get()) << 1 | 1,
    };
    NonZeroU64::new(number).expect("no address and no odd number is 0")
}

/// Notes that `waiter`, whose node the caller has in hand, waits for `target` from now on.
pub fn moves_to(waiter: WaiterId, target: Target) {
    if deadlock::is_tracking()
        // SAFETY: who waits goes on to do so while his node is in another's hand.
        && let Some(fiber) = unsafe { waiter::fiber_of(waiter) }
    {
        fiber.moves_to(target);
    }
}

fn wait_as_fiber(fiber: &ControlBlock, wait: &impl Wait, deadline: Deadline) -> Ended {
    has_ended(fiber, wait, suspend::wait_until(fiber, deadline))
}

/// Goes on with a wait without a deadline, in which something else than its waker has resumed the fiber.
#[cold]
#[inline(never)]
fn wait_on(fiber: &ControlBlock, wait: &impl Wait) -> Ended {
    if unwind::is_due(fiber) {
        return has_ended(fiber, wait, Resumed::Cancelled);
    }
    wait_as_fiber(fiber, wait, Deadline::NEVER)
}

fn has_ended(fiber: &ControlBlock, wait: &impl Wait, resumed: Resumed) -> Ended {
    if resumed == Resumed::Woken {
        return Ended::Claimed(wait.note());
    }
    let unlinked = wait.leave();
    if unlinked == Unlinked::AlreadyGone {
        suspend::absorb_wake(fiber);
    }
    match (resumed, unlinked) {
        (Resumed::Cancelled, Unlinked::AlreadyGone) if !wait.give_way(wait.note()) => {
            Ended::Claimed(wait.note())
        }
        (Resumed::Cancelled, _) => unwind::raise_now(fiber),
        (_, Unlinked::AlreadyGone) => Ended::Claimed(wait.note()),
        (_, Unlinked::Mine) => Ended::TimedOut,
    }
}

fn wait_as_thread(thread: &ThreadWaiter, wait: &impl Wait, deadline: Deadline) -> Ended {
    if !thread.block_until(deadline) {
        if wait.leave() == Unlinked::Mine {
            return Ended::TimedOut;
        }
        thread.block();
    }
    Ended::Claimed(wait.note())
}
