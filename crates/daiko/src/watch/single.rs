//! Watches of single words, each an entry in the frame of the fiber that waits.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daiko_core::list::Unlinked;
use daiko_core::watch::{Condition, Entry, EntryState, Notice, Probe, Scan, Table, Value};

use super::Word;
use super::area::Lane as _;
use crate::deadlock::{Kind, Target};
use crate::fiber::{ControlBlock, unwind};
use crate::process;
use crate::runtime::kernel::ThisThread;
use crate::runtime::{self, Shared};
use crate::sync::TimedOut;
use crate::wait::Deadline;
use crate::worker::suspend::{self, Resumed};
use crate::worker::{self, Worker};

/// Entries that a scan looks at before others have their turn.
const SLICE: usize = 256;

/// The fiber that an entry wakes.
#[derive(Clone, Copy)]
pub(crate) struct Waiter(NonNull<ControlBlock>);

// SAFETY: a control block may be woken from any thread.
unsafe impl Send for Waiter {}

impl Waiter {
    fn wake(self) {
        // SAFETY: a fiber whose entry was listed waits until this wake.
        unsafe { self.0.as_ref() }.wake(worker::current());
    }
}

/// The watches of the fibers that began to wait on one worker.
pub(crate) struct Watches(Table<Waiter>);

impl Watches {
    pub(crate) fn new() -> Self {
        Watches(Table::new())
    }

    /// Whether somebody has to sample.
    #[inline]
    pub(crate) fn any_silent(&self) -> bool {
        self.0.silent() > 0
    }

    /// Whether somebody has to sample until it sleeps.
    #[inline]
    pub(crate) fn any_rung(&self) -> bool {
        self.0.rung() > 0
    }

    /// Samples one slice; true if there was a hit.
    #[inline]
    pub(crate) fn scan(&self) -> bool {
        if !self.any_silent() && !self.any_rung() {
            return false;
        }
        let scan = self.0.scan(&ThisThread, SLICE, Waiter::wake);
        matches!(scan, Scan::Done { hits: 1.., .. })
    }

    /// Samples all, whoever else does; true if there was a hit.
    pub(crate) fn scan_all(&self) -> bool {
        self.0.scan_all(&ThisThread, Waiter::wake) > 0
    }
}

/// Suspends the calling fiber until `word` meets the condition, and returns the value that did.
///
/// Whoever writes the word need not know of it. The value was read with Acquire: what its writer
/// did before, with a Release store, is seen.
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
    wait_for_ever(word, until, Notice::Silent)
}

/// As [`wait_until`], for at most `timeout`. A value that is there already is found, however short that is.
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
/// If the time is over. Nobody looks at `word` any more then.
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_timeout<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    timeout: Duration,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Silent, Deadline::after(timeout)).ok_or(TimedOut)
}

/// As [`wait_until`], until `deadline` at most.
///
/// # Errors
///
/// As [`wait_until_timeout`].
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_deadline<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    deadline: Instant,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Silent, Deadline::at(deadline)).ok_or(TimedOut)
}

/// As [`wait_until`], for a word whose writer calls [`notify`] afterwards: nobody samples it.
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
///     watch::wait_until_told(&READY, equal(1));
/// });
/// ```
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_told<W: Word>(word: &W, until: Condition<W::Value>) -> W::Value {
    wait_for_ever(word, until, Notice::Told)
}

/// As [`wait_until_told`], for at most `timeout`.
///
/// # Errors
///
/// As [`wait_until_timeout`].
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_told_timeout<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    timeout: Duration,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Told, Deadline::after(timeout)).ok_or(TimedOut)
}

/// As [`wait_until_told`], until `deadline` at most.
///
/// # Errors
///
/// As [`wait_until_timeout`].
///
/// # Panics
///
/// As [`wait_until`].
pub fn wait_until_told_deadline<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    deadline: Instant,
) -> Result<W::Value, TimedOut> {
    wait(word, until, Notice::Told, Deadline::at(deadline)).ok_or(TimedOut)
}

/// Resumes the fibers whose told watch of `word` now holds; returns how many.
///
/// Of the caller's runtime if the caller is a fiber, else of the default runtime;
/// [`Runtime::notify`](crate::Runtime::notify) names another. Without told watches it costs a
/// fence and a load for each worker.
pub fn notify<W: Word>(word: &W) -> usize {
    let _call = process::call();
    runtime::of(worker::current()).notify(ptr::from_ref(word).addr())
}

impl Shared {
    pub(crate) fn notify(&self, address: usize) -> usize {
        let by = ThisThread;
        let tables = self.all_workers().iter().map(|worker| &worker.watches.0);
        tables.map(|table| table.notify(&by, address, Waiter::wake)).sum()
    }
}

fn wait_for_ever<W: Word>(word: &W, until: Condition<W::Value>, notice: Notice) -> W::Value {
    match wait(word, until, notice, Deadline::NEVER) {
        Some(value) => value,
        None => unreachable!("never has come"),
    }
}

/// Waits until `word` meets the condition; `None`: the deadline has passed before.
fn wait<W: Word>(
    word: &W,
    until: Condition<W::Value>,
    notice: Notice,
    deadline: Deadline,
) -> Option<W::Value> {
    let _call = process::call();
    let (worker, fiber) = suspend::caller("watch::wait_until");
    if fiber.flags.get() != 0 {
        unwind::before_suspension(fiber);
    }
    sample(word, until).or_else(|| watch(worker, fiber, word, until, notice, deadline))
}

/// Watches `word` until the condition holds; `None`: the deadline has passed before.
fn watch<W: Word>(
    worker: &'static Worker,
    fiber: &ControlBlock,
    word: &W,
    until: Condition<W::Value>,
    notice: Notice,
    deadline: Deadline,
) -> Option<W::Value> {
    let entry = Entry::new::<W::Value>(word, until, notice, Waiter(NonNull::from(fiber)));
    // A told word may have changed before its writer could know of the watch.
    let told_before = || sample(word, until).filter(|_| notice == Notice::Told).map(Into::into);
    let target = Target::new(Kind::Watch, word);
    // SAFETY: the entry is new, and its word is borrowed.
    let seen = unsafe { wait_listed(worker, fiber, &entry, told_before, target, deadline) };
    seen.map(W::Value::from_u64)
}

/// Waits until agents of this runtime see what `probe` looks for, unless the deadline passes before: `None`. The fiber that
/// calls is about to suspend on `worker`, and whoever changes what is looked at rings.
pub(crate) fn wait_rung(
    worker: &'static Worker,
    fiber: &ControlBlock,
    probe: &dyn Probe,
    notice: Notice,
    deadline: Deadline,
) -> Option<u64> {
    let entry = Entry::probing(probe, notice, Waiter(NonNull::from(fiber)));
    let target = Target::new(Kind::Watch, &entry);
    // SAFETY: the entry is new, and its probe is borrowed.
    unsafe { wait_listed(worker, fiber, &entry, || None, target, deadline) }
}

/// Lists `entry` and waits until it is hit, unless `seen_before` has seen something; `None`: the deadline has passed
/// before.
///
/// # Safety
///
/// `entry` is new, and what it looks at is borrowed by the caller.
unsafe fn wait_listed(
    worker: &'static Worker,
    fiber: &ControlBlock,
    entry: &Entry<Waiter>,
    seen_before: impl FnOnce() -> Option<u64>,
    target: Target,
    deadline: Deadline,
) -> Option<u64> {
    let table = &worker.watches.0;
    // SAFETY: new; entry and word outlive the watch, which ends in `leave` below or by the hit after which
    // this fiber is woken.
    unsafe { table.insert(&ThisThread, NonNull::from(entry)) };
    if let Some(value) = seen_before() {
        let _ = leave(table, entry, fiber);
        return Some(value);
    }
    let wait = || suspend::wait_from(worker, fiber, deadline);
    match fiber.waiting_for(target, wait) {
        Resumed::Woken => seen_by(entry),
        _ if leave(table, entry, fiber) == Unlinked::AlreadyGone => seen_by(entry),
        Resumed::Cancelled => unwind::raise_now(fiber),
        Resumed::TimedOut => None,
    }
}

/// The value that has met the condition of an entry that was hit.
fn seen_by(entry: &Entry<Waiter>) -> Option<u64> {
    let EntryState::Hit(seen) = entry.state() else { unreachable!("woken without a hit") };
    Some(seen)
}

/// Ends a watch; if it was hit meanwhile, waits for the wake that is on its way.
fn leave(table: &Table<Waiter>, entry: &Entry<Waiter>, fiber: &ControlBlock) -> Unlinked {
    // SAFETY: the entry is alive, and this is its table.
    let unlinked = unsafe { table.remove(&ThisThread, NonNull::from(entry)) };
    if unlinked == Unlinked::AlreadyGone {
        suspend::absorb_wake(fiber);
    }
    unlinked
}

fn sample<W: Word>(word: &W, until: Condition<W::Value>) -> Option<W::Value> {
    // Acquire: pairs with the Release of whoever writes the word.
    let value = W::Value::load(word, Ordering::Acquire);
    until.holds(value).then_some(value)
}
