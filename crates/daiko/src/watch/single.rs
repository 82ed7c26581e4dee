//! Watches of single words, each an entry in the frame of the waiting fiber.

use std::ptr::{self, NonNull};

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::watch::{Condition, EntryState, Notice, WatchEntry, WatchValue};

use super::Word;
use crate::atomic::Ordering;
use crate::caller;
use crate::select::{Look, Selectable, Selected};
use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::{ControlBlock, unwind};
use daiko_rt::runtime::{Runtime, RuntimeInner};
use daiko_rt::wait::Waiter;
use daiko_rt::worker::{Watcher, Watches, Worker};

/// Suspends the calling fiber until `word` meets the condition, and returns the value that did.
///
/// The writer of the word need not know of the watch. The value is read with Acquire: writes that
/// its writer made before a Release store are visible.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use daiko::watch::{self, at_least};
///
/// static PROGRESS: AtomicU64 = AtomicU64::new(0);
///
/// daiko::run(|| {
///     std::thread::spawn(|| PROGRESS.store(7, Ordering::Release));
///     assert_eq!(watch::wait_until(&PROGRESS, at_least(5)), 7);
/// });
/// ```
///
/// # Panics
///
/// If the caller is not a fiber, or is inside [`no_suspend`](crate::no_suspend).
pub fn wait_until<W: Word>(word: &W, until: Condition<W::Value>) -> W::Value {
    wait_for_ever(word, until, Notice::Polled)
}

/// Waits as [`wait_until`] does, but for at most `timeout`. A value that already meets the
/// condition is found, however short the timeout is.
///
/// ```
/// # daiko::run(|| {
/// use daiko::sync::TimedOut;
/// use daiko::watch::{self, at_least};
/// use std::sync::atomic::AtomicU64;
/// use std::time::Duration;
///
/// let word = AtomicU64::new(4);
/// assert_eq!(watch::wait_until_timeout(&word, at_least(4), Duration::ZERO), Ok(4));
/// let timeout = Duration::from_millis(1);
/// assert_eq!(watch::wait_until_timeout(&word, at_least(5), timeout), Err(TimedOut));
/// # });
/// ```
///
/// # Errors
///
/// If the time is over. `word` is not read any more then.
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_timeout<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    timeout: impl Into<Deadline>,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Polled, timeout.into()).ok_or(TimedOut)
}

/// Waits as [`wait_until`] does, for a word. Its writer calls [`notify`] afterwards, so the word is
/// not polled.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use daiko::watch::{self, equal};
///
/// static READY: AtomicU32 = AtomicU32::new(0);
///
/// daiko::run(|| {
///     daiko::spawn(|| {
///         READY.store(1, Ordering::Release);
///         watch::notify(&READY);
///     });
///     watch::wait_until_notified(&READY, equal(1));
/// });
/// ```
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_notified<W: Word>(word: &W, until: Condition<W::Value>) -> W::Value {
    wait_for_ever(word, until, Notice::Notified)
}

/// Waits as [`wait_until_notified`] does, but for at most `timeout`.
///
/// # Errors
///
/// As [`wait_until_timeout`].
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_notified_timeout<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    timeout: impl Into<Deadline>,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Notified, timeout.into()).ok_or(TimedOut)
}

/// Resumes the fibers that have a notified watch of `word` which now holds; returns their number.
///
/// It applies to the caller's runtime if the caller is a fiber, else to the default runtime;
/// [`notify_in`] names another. Without notified watches it costs a fence and a load for each
/// worker.
pub fn notify<W: Word>(word: &W) -> usize {
    let call = Call::enter();
    notify_by(call.token(), caller::runtime_of(caller::current()), word)
}

/// Resumes the fibers of `runtime` that have a notified watch of `word` which now holds, as
/// [`notify`] does; returns their number.
pub fn notify_in<W: Word>(runtime: &Runtime, word: &W) -> usize {
    let call = Call::enter();
    notify_by(call.token(), caller::inner(runtime), word)
}

/// Resumes fibers as [`notify_in`] does.
#[doc(hidden)]
pub fn notify_at<W: Word>(runtime: &RuntimeInner, word: &W) -> usize {
    let call = Call::enter();
    notify_by(call.token(), runtime, word)
}

fn notify_by<W: Word>(call: InCall<'_>, runtime: &RuntimeInner, word: &W) -> usize {
    let address = ptr::from_ref(word).addr();
    runtime.all_workers().iter().map(|worker| worker.watches.notify(call, address)).sum()
}

pub(super) fn wait_for_ever<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    notice: Notice,
) -> W::Value {
    match wait(word, until, notice, Deadline::NEVER) {
        Some(value) => value,
        None => unreachable!("never has come"),
    }
}

/// Waits until `word` meets the condition; returns `None` if the deadline passed before.
pub(super) fn wait<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    notice: Notice,
    deadline: Deadline,
) -> Option<W::Value> {
    let call = Call::enter();
    let (_, fiber) = caller::caller("watch::wait_until");
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let mut found = sample(word, until);
    while found.is_none() {
        // After a suspension it may be on another worker.
        let (worker, fiber) = caller::caller("watch::wait_until");
        let bits = watch(call.token(), worker, fiber, word, until, notice, deadline)?;
        found = W::Value::seen(bits, word, until);
    }
    found
}

/// Watches `word` until the condition holds, and returns the bits of the value; `None` if the
/// deadline passed before.
fn watch<W: Word>(
    call: InCall<'_>,
    worker: &'static Worker,
    fiber: &ControlBlock,
    word: &W,
    until: Condition<W::Value>,
    notice: Notice,
    deadline: Deadline,
) -> Option<u64> {
    let entry = WatchEntry::new::<W::Value>(word, until, notice, Watcher::of(fiber));
    // A notified word may have changed before its writer could know of the watch.
    let notified_before =
        || sample(word, until).filter(|_| notice == Notice::Notified).map(W::Value::to_bits);
    let target = WaitTarget::new(WaitKind::Watch, word);
    // SAFETY: the entry is new, and its word is borrowed.
    unsafe { worker.watches.wait(call, fiber, &entry, notified_before, target, deadline) }
}

fn sample<W: Word>(word: &W, until: Condition<W::Value>) -> Option<W::Value> {
    // Acquire: pairs with the Release of the word's writer.
    let value = W::Value::load(word, Ordering::Acquire);
    until.holds(value).then_some(value)
}

/// A watch in a select.
struct Watching<'w, W: Word> {
    word: &'w W,
    until: Condition<W::Value>,
    notice: Notice,
}

/// Creates a polled watch for `select!`.
#[doc(hidden)]
pub fn select_wait_until<W: Word>(
    word: &W,
    until: Condition<W::Value>,
) -> Selected<impl Selectable<Output = W::Value>> {
    Selected::new(Watching { word, until, notice: Notice::Polled })
}

/// Creates a notified watch for `select!`.
#[doc(hidden)]
pub fn select_wait_until_notified<W: Word>(
    word: &W,
    until: Condition<W::Value>,
) -> Selected<impl Selectable<Output = W::Value>> {
    Selected::new(Watching { word, until, notice: Notice::Notified })
}

impl<W: Word> Selectable for Watching<'_, W> {
    /// The entry, and the table that it is listed in: that of the worker on which the wait begins.
    type Node = (WatchEntry<Watcher>, NonNull<Watches>);
    type Output = W::Value;

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<W::Value> {
        sample(self.word, self.until)
    }

    fn begin(&self, _: &Waiter) -> (Deadline, WaitKind) {
        caller::caller("a select! of a watch");
        (Deadline::NEVER, WaitKind::Watch)
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        let (worker, _) = caller::caller("a select! of a watch");
        // SAFETY: passed on to the caller.
        let watcher = unsafe { Watcher::of_ticket(ticket) };
        let entry = WatchEntry::new::<W::Value>(self.word, self.until, self.notice, watcher);
        (entry, NonNull::from(&worker.watches))
    }

    unsafe fn enqueue(&self, call: InCall<'_>, (entry, table): &Self::Node) -> bool {
        // SAFETY: a worker lives as long as the fibers of its runtime; the entry is new and stays,
        // by this function's contract, and the word is borrowed.
        unsafe { table.as_ref().insert(call, entry) };
        true
    }

    /// A notified word may have changed before its writer could know of the watch.
    fn is_possible(&self, _: &Self::Node) -> bool {
        self.notice == Notice::Notified && sample(self.word, self.until).is_some()
    }

    unsafe fn leave(&self, call: InCall<'_>, (entry, table): &Self::Node) -> Unlinked {
        // SAFETY: as in `enqueue`; the entry is alive, and was listed there.
        unsafe { table.as_ref().remove(call, entry) }
    }

    fn claimed(&self, (entry, _): &Self::Node) -> Option<W::Value> {
        match entry.state() {
            EntryState::Hit(bits) => W::Value::seen(bits, self.word, self.until),
            _ => None,
        }
    }

    fn order(&self) -> usize {
        ptr::from_ref(self.word).addr()
    }
}
