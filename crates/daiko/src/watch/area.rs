//! Notification areas: many words side by side, scanned by vectors, each with one fiber at most
//! that waits for it.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use daiko_context::scan;
use daiko_core::lock::{Held, QueueLock};
use daiko_core::watch::{Area, Value};

use super::Word;
use crate::sources;
use crate::sync::TimedOut;
use daiko_rt::deadlock::{Kind, Target};
use daiko_rt::fiber::{ControlBlock, unwind};
use daiko_rt::process;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::runtime::{self, Hold};
use daiko_rt::wait::Deadline;
use daiko_rt::worker::suspend::{self, Resumed};
use daiko_rt::worker::{self, Round, Source, Worker};

/// Words that a scan looks at before others have their turn.
const SLICE: usize = 4096;

/// A value of which vectors are scanned.
pub trait Lane: Value + Send + Sync + 'static {
    /// The lowest `i` of `from..to` for which `words[i]` has a bit of `masks[i]`.
    ///
    /// # Safety
    ///
    /// Both are arrays of at least `to` words, which others write atomically only.
    #[doc(hidden)]
    unsafe fn find_hit(
        words: *const Self,
        masks: *const Self,
        from: usize,
        to: usize,
    ) -> Option<usize>;

    /// The value that was sampled as `seen`.
    #[doc(hidden)]
    fn from_u64(seen: u64) -> Self;

    /// What a plain notification stores.
    #[doc(hidden)]
    const ONE: Self;
    /// All bits.
    #[doc(hidden)]
    const ALL: Self;
}

macro_rules! lane {
    ($value:ty, $find_hit:path) => {
        impl Lane for $value {
            const ONE: Self = 1;
            const ALL: Self = Self::MAX;

            #[inline]
            unsafe fn find_hit(
                words: *const Self,
                masks: *const Self,
                from: usize,
                to: usize,
            ) -> Option<usize> {
                // SAFETY: by this function's contract.
                unsafe { $find_hit(words, masks, from, to) }
            }

            fn from_u64(seen: u64) -> Self {
                seen as Self
            }
        }
    };
}

lane!(u32, scan::find_hit_u32);
lane!(u64, scan::find_hit_u64);

/// The writers' side of an area: notifies the fibers that wait at its slots.
///
/// A notification is a plain store of something other than 0 into the slot's word, which agents
/// see as they poll: no read-modify-write, no call. Whoever waits takes the value and leaves 0.
///
/// Handles are clones of each other; when the last one is dropped, or the runtime ends whose agent
/// scans the area, waits at the slots end with [`Closed`].
///
/// ```
/// use daiko::watch::NotificationArea;
///
/// daiko::run(|| {
///     let (area, mut slots) = NotificationArea::<u64>::new(8);
///     let mut slot = slots.remove(3);
///     let waiter = daiko::spawn(move || slot.wait());
///     area.notify(3);
///     assert_eq!(waiter.join().unwrap(), Ok(1));
/// });
/// ```
pub struct NotificationArea<V: Lane = u64> {
    shared: Arc<Shared<V>>,
}

/// The waiter's side of one word of a [`NotificationArea`].
pub struct Slot<V: Lane = u64> {
    shared: Arc<Shared<V>>,
    index: usize,
}

/// All handles of the notification area are gone, so that nobody can notify any more, or its
/// runtime has ended, so that nobody would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the notification area is closed: its last handle was dropped, or its runtime ended",
        )
    }
}

impl std::error::Error for Closed {}

/// Why a wait at a slot that has a deadline ended without a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotTimeoutError {
    /// As [`Closed`].
    Closed,
    /// The time is over.
    TimedOut,
}

impl fmt::Display for SlotTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotTimeoutError::Closed => Closed.fmt(f),
            SlotTimeoutError::TimedOut => TimedOut.fmt(f),
        }
    }
}

impl std::error::Error for SlotTimeoutError {}

struct Shared<V: Lane> {
    words: Box<[V::Atomic]>,
    masks: Box<[V::Atomic]>,
    waiters: Box<[AtomicPtr<ControlBlock>]>,
    /// Where the next scan begins. Written under the lock of the list.
    cursor: AtomicUsize,
    /// Handles of the writers' side.
    handles: AtomicU32,
    closed: AtomicBool,
    /// Whether writers tell, so that agents may sleep.
    told: bool,
    /// The worker whose agent scans the area.
    home: NonNull<Worker>,
    /// Keeps that worker's memory, though not its thread.
    _runtime: Hold,
}

// SAFETY: the worker is shared by its own rules; all else is Send and Sync.
unsafe impl<V: Lane> Send for Shared<V> {}
// SAFETY: as for Send.
unsafe impl<V: Lane> Sync for Shared<V> {}

impl<V: Lane> NotificationArea<V>
where
    V::Atomic: Word<Value = V> + Send + Sync + Default,
{
    /// An area of `len` words and their slots: a silent one, whose writers only store. While it
    /// exists somebody samples it: [`Preset`](crate::Preset) says how often.
    ///
    /// The agent of the caller's worker scans it, or if the caller is no fiber that of the
    /// default runtime's first worker; a wait is fastest there. Fibers of other runtimes may wait,
    /// too, until that runtime ends.
    pub fn new(len: usize) -> (Self, Vec<Slot<V>>) {
        Self::with_notice(len, false)
    }

    /// An area whose writers all call [`notify`](Self::notify), so that agents may sleep while
    /// fibers wait. A notification costs a fence more.
    pub fn told(len: usize) -> (Self, Vec<Slot<V>>) {
        Self::with_notice(len, true)
    }

    fn with_notice(len: usize, told: bool) -> (Self, Vec<Slot<V>>) {
        let home = match worker::current() {
            Some(worker) => worker,
            None => &runtime::of(None).workers()[0],
        };
        let _call = process::call();
        let shared = Arc::new(Shared {
            words: (0..len).map(|_| V::Atomic::default()).collect(),
            masks: (0..len).map(|_| V::Atomic::default()).collect(),
            waiters: (0..len).map(|_| AtomicPtr::default()).collect(),
            cursor: AtomicUsize::new(0),
            handles: AtomicU32::new(1),
            closed: AtomicBool::new(false),
            told,
            home: NonNull::from(home),
            _runtime: home.runtime().hold(),
        });
        AreaList::of(shared.home()).add(shared.clone());
        // It may sleep, and has to sample from now on.
        shared.home().unpark(worker::current());
        let slots = (0..len).map(|index| Slot { shared: shared.clone(), index }).collect();
        (NotificationArea { shared }, slots)
    }

    /// How many words the area has.
    pub fn len(&self) -> usize {
        self.shared.words.len()
    }

    /// Whether the area has no word.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notifies whoever waits, or will wait, at slot `index`.
    ///
    /// What the caller did before is seen by the waiter.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    #[inline]
    pub fn notify(&self, index: usize) {
        self.notify_with(index, V::ONE);
    }

    /// [`notify`](Self::notify) with another value than 1. A value not yet taken is overwritten;
    /// 0 notifies nobody.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    #[inline]
    pub fn notify_with(&self, index: usize, value: V) {
        if self.shared.told {
            // Who has stored is to tell, too.
            let _call = process::call();
            self.store(index, value);
            self.shared.tell();
        } else {
            self.store(index, value);
        }
    }

    #[inline]
    fn store(&self, index: usize, value: V) {
        // Release: pairs with the Acquire of the taker.
        V::store(&self.shared.words[index], value, Ordering::Release);
    }

    /// The word of slot `index`, for writers that are given an address.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    pub fn word(&self, index: usize) -> &V::Atomic {
        &self.shared.words[index]
    }
}

impl<V: Lane> Clone for NotificationArea<V> {
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Ordering::Relaxed);
        NotificationArea { shared: self.shared.clone() }
    }
}

impl<V: Lane> Drop for NotificationArea<V> {
    fn drop(&mut self) {
        let _call = process::call();
        // AcqRel: what all handles did comes before the end.
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.close();
        }
    }
}

impl<V: Lane> fmt::Debug for NotificationArea<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotificationArea")
            .field("len", &self.shared.words.len())
            .finish_non_exhaustive()
    }
}

impl<V: Lane> fmt::Debug for Slot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<V: Lane> Slot<V> {
    /// Its index in the area.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Takes the notification, if one has come; never waits.
    #[inline]
    pub fn try_take(&mut self) -> Option<V> {
        let area = self.shared.area();
        // Looking first: no store to a line that the writer wants.
        let come = V::load(&area.words()[self.index], Ordering::Relaxed) != V::default();
        come.then(|| area.take(self.index)).filter(|&value| value != V::default())
    }

    /// Suspends the calling fiber until a notification comes, and takes it.
    ///
    /// # Errors
    ///
    /// If all handles of the area are gone, or the runtime that it was made in has ended, and no
    /// notification is left to take.
    ///
    /// # Panics
    ///
    /// If the caller is not a fiber, or is inside [`no_suspend`](crate::no_suspend).
    #[inline]
    pub fn wait(&mut self) -> Result<V, Closed> {
        self.wait_until(Deadline::NEVER).map_err(|_never_timed_out| Closed)
    }

    /// As [`wait`](Self::wait), for at most `timeout`. A notification that is there already is
    /// taken, however short that is.
    ///
    /// ```
    /// use daiko::watch::{NotificationArea, SlotTimeoutError};
    /// use std::time::Duration;
    ///
    /// daiko::run(|| {
    ///     let (area, mut slots) = NotificationArea::<u64>::new(1);
    ///     let timeout = Duration::from_millis(1);
    ///     assert_eq!(slots[0].wait_timeout(timeout), Err(SlotTimeoutError::TimedOut));
    ///     area.notify(0);
    ///     assert_eq!(slots[0].wait_timeout(timeout), Ok(1));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// If the time is over, and as [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: impl Into<Deadline>) -> Result<V, SlotTimeoutError> {
        self.wait_until(timeout.into())
    }

    #[inline]
    fn wait_until(&mut self, deadline: Deadline) -> Result<V, SlotTimeoutError> {
        loop {
            if let Some(value) = self.try_take() {
                return Ok(value);
            }
            self.suspend(deadline)?;
        }
    }

    /// Suspends until a notification may be there; an error if none has come before the area closed,
    /// or the deadline passed.
    fn suspend(&mut self, deadline: Deadline) -> Result<(), SlotTimeoutError> {
        let _call = process::call();
        let (worker, fiber) = suspend::caller("Slot::wait");
        if fiber.flags.get() != 0 {
            unwind::before_suspension(fiber);
        }
        let area = self.shared.area();
        area.arm(self.index, V::ALL, NonNull::from(fiber));
        // Pairs with the fence in `end_waits`: either it sees this waiter, or this sees it closed.
        // Where writers tell: also with the fence in `tell`, through the agent's last look.
        fence(Ordering::SeqCst);
        let closed = self.shared.closed.load(Ordering::Relaxed);
        let target = Target::new(Kind::Watch, &area.words()[self.index]);
        let wait = || suspend::wait_from(worker, fiber, deadline);
        let resumed = (!closed).then(|| fiber.waiting_for(target, wait));
        if resumed == Some(Resumed::Woken) {
            return Ok(());
        }
        if area.take_waiter(self.index).is_none() {
            suspend::absorb_wake(fiber);
        }
        unwind::raise(fiber);
        let left = V::load(&area.words()[self.index], Ordering::Relaxed) != V::default();
        match resumed {
            _ if left => Ok(()),
            None => Err(SlotTimeoutError::Closed),
            Some(Resumed::TimedOut) => Err(SlotTimeoutError::TimedOut),
            Some(_) => Ok(()),
        }
    }
}

impl<V: Lane> Shared<V> {
    #[inline]
    fn area(&self) -> Area<'_, V, ControlBlock> {
        Area::new(&self.words, &self.masks, &self.waiters)
    }

    #[inline]
    fn find_hit(&self, from: usize, to: usize) -> Option<usize> {
        assert!(to <= self.words.len());
        // SAFETY: words and masks have the same length, which is at least `to`; atomics are laid
        // out as their values.
        unsafe { V::find_hit(self.words.as_ptr().cast(), self.masks.as_ptr().cast(), from, to) }
    }

    fn home(&self) -> &Worker {
        // SAFETY: the runtime is held.
        unsafe { self.home.as_ref() }
    }

    /// Lets the home worker look, if it sleeps.
    #[inline]
    fn tell(&self) {
        // Pairs with the barrier between the worker's parked mark and its last look.
        fence(Ordering::SeqCst);
        if self.home().is_parked() {
            self.home().unpark(worker::current());
        }
    }

    #[cold]
    fn close(&self) {
        AreaList::of(self.home()).remove(std::ptr::from_ref(self).cast());
        self.end_waits();
    }
}

/// An area, as its agent sees it.
trait Scanned: Send + Sync {
    /// Looks at one slice; on a hit ends that wait and returns the waiter.
    fn scan(&self) -> Option<NonNull<ControlBlock>>;
    /// Whether some wait could be ended now.
    fn has_hit(&self) -> bool;
    /// Whether writers tell.
    fn is_told(&self) -> bool;
    /// Ends all waits, and those that are to come.
    fn end_waits(&self);
}

impl<V: Lane> Scanned for Shared<V> {
    fn end_waits(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `suspend`.
        fence(Ordering::SeqCst);
        for index in 0..self.words.len() {
            if let Some(waiter) = self.area().take_waiter(index) {
                // SAFETY: a waiter waits until it is woken, and its wait was just claimed.
                unsafe { waiter.as_ref() }.wake(worker::current());
            }
        }
    }

    fn scan(&self) -> Option<NonNull<ControlBlock>> {
        let area = self.area();
        let from = self.cursor.load(Ordering::Relaxed);
        let to = area.len().min(from + SLICE);
        let again = from.min((from + SLICE).saturating_sub(area.len()));
        let hit = self.find_hit(from, to).or_else(|| self.find_hit(0, again));
        let next = match hit {
            Some(index) => index + 1,
            None => {
                if to < area.len() {
                    to
                } else {
                    again
                }
            }
        };
        self.cursor.store(if next < area.len() { next } else { 0 }, Ordering::Relaxed);
        area.claim_hit(hit?)
    }

    fn has_hit(&self) -> bool {
        self.find_hit(0, self.words.len()).is_some()
    }

    fn is_told(&self) -> bool {
        self.told
    }
}

/// The areas that one worker's agent scans.
pub(crate) struct AreaList {
    /// The scan lock: one exchange per pass, and try only.
    lock: QueueLock,
    /// Touched under the lock.
    areas: UnsafeCell<Vec<Arc<dyn Scanned>>>,
    /// How many there are, and how many of them are silent. Written under the lock.
    count: AtomicUsize,
    silent: AtomicUsize,
    /// Which area comes first at the next pass. Written under the lock.
    turn: AtomicUsize,
}

// SAFETY: the list is touched under the lock only.
unsafe impl Sync for AreaList {}
// SAFETY: as for Sync.
unsafe impl Send for AreaList {}

impl AreaList {
    /// The list of `worker`.
    fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&sources::AREAS, AreaList::new)
    }

    fn new() -> Self {
        AreaList {
            lock: QueueLock::new(),
            areas: UnsafeCell::new(Vec::new()),
            count: AtomicUsize::new(0),
            silent: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    fn add(&self, area: Arc<dyn Scanned>) {
        let held = self.lock.lock(&ThisThread);
        self.areas(&held).push(area);
        self.recount(&held);
    }

    fn remove(&self, area: *const ()) {
        let held = self.lock.lock(&ThisThread);
        let areas = self.areas(&held);
        let at = areas.iter().position(|other| Arc::as_ptr(other).cast() == area);
        let removed = at.map(|at| areas.swap_remove(at));
        self.recount(&held);
        drop(held);
        // Its drop may end a runtime: not under the lock.
        drop(removed);
    }

    fn recount(&self, held: &Held<'_>) {
        let areas = self.areas(held);
        self.count.store(areas.len(), Ordering::Relaxed);
        let silent = areas.iter().filter(|area| !area.is_told()).count();
        self.silent.store(silent, Ordering::Relaxed);
    }

    /// Samples one slice of each area up to the first hit, and wakes that waiter; returns true if so.
    fn scan(&self) -> bool {
        let Some(held) = self.lock.try_lock(&ThisThread) else {
            return false;
        };
        let areas = self.areas(&held);
        let turn = self.turn.load(Ordering::Relaxed).min(areas.len());
        let (before, from) = areas.split_at(turn);
        let hit = from.iter().chain(before).find_map(|area| area.scan());
        self.turn.store(if turn + 1 < areas.len() { turn + 1 } else { 0 }, Ordering::Relaxed);
        // Before the waiter runs: another agent may poll from now on.
        drop(held);
        // SAFETY: a waiter waits until it is woken, and the scan has claimed its wait.
        hit.inspect(|waiter| unsafe { waiter.as_ref() }.wake(worker::current())).is_some()
    }

    #[allow(clippy::mut_from_ref)]
    fn areas<'l>(&'l self, _held: &'l Held<'_>) -> &'l mut Vec<Arc<dyn Scanned>> {
        // SAFETY: the lock is held, and no caller keeps the reference beyond its next call.
        unsafe { &mut *self.areas.get() }
    }
}

impl Source for AreaList {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        let hit = self.count.load(Ordering::Relaxed) > 0 && self.scan();
        if hit {
            by.counters.watch_hits.add(1);
        }
        hit
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a wait could be ended now.
    fn is_pending(&self, _: &Worker) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let held = self.lock.lock(&ThisThread);
        self.areas(&held).iter().any(|area| area.has_hit())
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }

    /// Ends all waits at the areas. Fibers of other runtimes may wait there.
    fn close(&self) {
        let held = self.lock.lock(&ThisThread);
        let areas = std::mem::take(self.areas(&held));
        self.recount(&held);
        drop(held);
        areas.iter().for_each(|area| area.end_waits());
    }
}
