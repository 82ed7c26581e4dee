//! Notification areas: many adjacent words that are scanned by vector instructions. At most one
//! fiber waits for each word.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use daiko_context::scan;
use daiko_core::announce::{Announcement, LastLook};
use daiko_core::lock::{Held, QueueLock};
use daiko_core::watch::{Area, Begun, Closing, Notice, WatchValue};

use super::Word;
use crate::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::caller;
use crate::sources;
use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::{ControlBlock, unwind};
use daiko_rt::runtime::Hold;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::worker::suspend::{self, Resumed};
use daiko_rt::worker::{Round, Source, SourceKey, Worker};

// SAFETY: the table of numbers has each once.
const KEY: SourceKey<AreaList> = unsafe { SourceKey::new(sources::AREAS) };

/// The number of words that a scan reads before another area gets its turn.
const SLICE: usize = 4096;

/// A value type that vector instructions can scan.
pub trait Lane: WatchValue + Default + PartialEq + Send + Sync + 'static {
    /// Returns the lowest `i` of `from..to` for which `words[i]` has a bit of `masks[i]`.
    ///
    /// # Safety
    ///
    /// Both are arrays of at least `to` words, which other threads write only atomically.
    #[doc(hidden)]
    unsafe fn find_hit(
        words: *const Self,
        masks: *const Self,
        from: usize,
        to: usize,
    ) -> Option<usize>;

    /// The value that a plain notification stores.
    #[doc(hidden)]
    const ONE: Self;
    /// The value with all bits set.
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
        }
    };
}

lane!(u32, scan::find_hit_u32);
lane!(u64, scan::find_hit_u64);

/// The writers' side of an area: notifies the fibers that wait at its slots.
///
/// A notification is a plain store of a value other than 0 into the slot's word, which agents see
/// as they poll: no read-modify-write, no call. The waiter takes the value and leaves 0.
///
/// Handles are clones of each other. When the last one is dropped, or the runtime of the scanning
/// agent ends, waits at the slots end with [`Closed`].
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
    shared: Arc<AreaInner<V>>,
}

/// The waiter's side of one word of a [`NotificationArea`].
pub struct Slot<V: Lane = u64> {
    shared: Arc<AreaInner<V>>,
    index: usize,
}

/// Error of a wait that no notification can end any more: all handles of the notification area are
/// gone, or its runtime has ended.
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

/// Reason why a wait at a slot with a deadline ended without a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotTimeoutError {
    /// The area is closed, as [`Closed`].
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

/// The words of an area, with their owner.
struct AreaWords<A> {
    /// Borrowed of the owner, for as long as this has it.
    words: NonNull<[A]>,
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: it is a shared reference to the words, and an owner that is both.
unsafe impl<A: Sync> Send for AreaWords<A> {}
// SAFETY: as for Send.
unsafe impl<A: Sync> Sync for AreaWords<A> {}

impl<A> AreaWords<A> {
    /// Asks the owner for its words, once.
    fn of<O: AsRef<[A]> + Send + Sync + 'static>(owner: Arc<O>) -> Self {
        // The owner does not move, and no exclusive borrow of it is possible while this has a
        // share.
        let words = NonNull::from(owner.as_ref().as_ref());
        AreaWords { words, _owner: owner }
    }
}

impl<A> Deref for AreaWords<A> {
    type Target = [A];

    #[inline]
    fn deref(&self) -> &[A] {
        // SAFETY: the owner has lent them for as long as it is borrowed, and is kept borrowed.
        unsafe { self.words.as_ref() }
    }
}

struct AreaInner<V: Lane> {
    words: AreaWords<V::Atomic>,
    masks: Box<[V::Atomic]>,
    waiters: Box<[AtomicPtr<ControlBlock>]>,
    /// Start of the next scan. Written under the lock of the list.
    cursor: AtomicUsize,
    /// The number of handles of the writers' side.
    handles: AtomicU32,
    closing: Closing,
    /// The way in which agents learn of changes; they may sleep if writers call `notify`.
    notice: Notice,
    /// The worker with the agent that scans the area.
    home: NonNull<Worker>,
    /// Keeps that worker's memory alive, but not its thread.
    _runtime: Hold,
}

// SAFETY: the worker is shared by its own rules; all other fields are Send and Sync.
unsafe impl<V: Lane> Send for AreaInner<V> {}
// SAFETY: as for Send.
unsafe impl<V: Lane> Sync for AreaInner<V> {}

impl<V: Lane> NotificationArea<V>
where
    V::Atomic: Word<Value = V> + Send + Sync + Default,
{
    /// Creates a polled area of `len` words and its slots: writers only store. While the area
    /// exists, an agent polls it: [`Preset`](crate::Preset) says how often.
    ///
    /// The agent of the caller's worker scans it; if the caller is not a fiber, that of the default
    /// runtime's first worker. A wait is fastest there. Fibers of other runtimes may wait, too,
    /// until that runtime ends.
    pub fn new(len: usize) -> (Self, Vec<Slot<V>>) {
        Self::with_notice(len, Notice::Polled)
    }

    /// Creates a notified area: all of its writers call [`notify`](Self::notify), so that agents
    /// may sleep while fibers wait. A notification costs an additional fence.
    pub fn notified(len: usize) -> (Self, Vec<Slot<V>>) {
        Self::with_notice(len, Notice::Notified)
    }

    /// Creates an area as [`new`](Self::new) does, and states that its writers have a CPU of their
    /// own, as [`WatchBuilder::peer_elsewhere`](super::WatchBuilder::peer_elsewhere) does of the
    /// writer of one word. The statement holds as long as the area does, also while no fiber waits.
    ///
    /// ```
    /// use daiko::watch::NotificationArea;
    ///
    /// daiko::run(|| {
    ///     let (area, mut slots) = NotificationArea::<u32>::peer_elsewhere(8);
    ///     // On another CPU, or a device by the address of the word.
    ///     std::thread::spawn(move || area.notify(3));
    ///     assert_eq!(slots[3].wait(), Ok(1));
    /// });
    /// ```
    pub fn peer_elsewhere(len: usize) -> (Self, Vec<Slot<V>>) {
        Self::with_notice(len, Notice::Elsewhere)
    }

    /// Creates a polled area over words that exist already: in a mapping or a segment that other
    /// processes write. A word that is not 0 is a notification that has come.
    ///
    /// `words` is kept until the area and its slots are dropped, so that its memory stays mapped.
    /// Writers store into the words, atomically, and need no handle of the area. They may store
    /// anything: the words are read by atomic operations, and lead nowhere. Each word has one area,
    /// as a waiter takes the value away.
    ///
    /// The slots' waits end with [`Closed`] as those of other areas do: when the handles in this
    /// process are dropped.
    ///
    /// ```
    /// use daiko::shm::{Segment, Words};
    /// use daiko::watch::NotificationArea;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let segment = Segment::anonymous(1 << 20)?;
    /// let words = Words::<AtomicU64>::create(&segment, "doors", 8)?;
    /// let theirs = Words::<AtomicU64>::open(&segment, "doors")?;
    /// daiko::run(move || {
    ///     let (_area, mut slots) = NotificationArea::<u64>::over(Arc::new(words));
    ///     // In another process; here in a thread.
    ///     std::thread::spawn(move || theirs[3].store(7, Ordering::Release));
    ///     assert_eq!(slots[3].wait(), Ok(7));
    /// });
    /// # Ok::<(), daiko::shm::SegmentError>(())
    /// ```
    pub fn over<O>(words: Arc<O>) -> (Self, Vec<Slot<V>>)
    where
        O: AsRef<[V::Atomic]> + Send + Sync + 'static,
    {
        Self::over_with(words, Notice::Polled)
    }

    fn with_notice(len: usize, notice: Notice) -> (Self, Vec<Slot<V>>) {
        let words: Vec<_> = (0..len).map(|_| V::Atomic::default()).collect();
        Self::over_with(Arc::new(words), notice)
    }

    pub(super) fn over_with<O>(words: Arc<O>, notice: Notice) -> (Self, Vec<Slot<V>>)
    where
        O: AsRef<[V::Atomic]> + Send + Sync + 'static,
    {
        let words = AreaWords::of(words);
        let len = words.len();
        let home = match caller::current() {
            Some(worker) => worker,
            None => &caller::runtime_of(None).workers()[0],
        };
        let call = Call::enter();
        let call = call.token();
        let shared = Arc::new(AreaInner {
            words,
            masks: (0..len).map(|_| V::Atomic::default()).collect(),
            waiters: (0..len).map(|_| AtomicPtr::default()).collect(),
            cursor: AtomicUsize::new(0),
            handles: AtomicU32::new(1),
            closing: Closing::new(),
            notice,
            home: NonNull::from(home),
            _runtime: home.runtime().hold(call),
        });
        AreaList::of(shared.home()).add(call, shared.clone());
        // The worker may sleep, and has to poll from now on.
        shared.home().unpark_for(&Announcement::of_changes());
        let slots = (0..len).map(|index| Slot { shared: shared.clone(), index }).collect();
        (NotificationArea { shared }, slots)
    }

    /// Returns the number of words in the area.
    pub fn len(&self) -> usize {
        self.shared.words.len()
    }

    /// Returns true if the area has no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notifies the present or next waiter at slot `index`.
    ///
    /// The caller's earlier writes are visible to the waiter.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    #[inline]
    pub fn notify(&self, index: usize) {
        self.notify_with(index, V::ONE);
    }

    /// Notifies as [`notify`](Self::notify) does, with another value than 1. A value not yet taken
    /// is overwritten; 0 is no notification.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    #[inline]
    pub fn notify_with(&self, index: usize, value: V) {
        if self.shared.notice == Notice::Notified {
            // A writer that has stored must also notify, so the call covers both.
            let _call = Call::enter();
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

    /// Returns the word of slot `index`, for writers that need an address.
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
        let call = Call::enter();
        // AcqRel: the actions of all handles happen before the end.
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.close(call.token());
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
    /// Returns the slot's index in the area.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Takes the notification, if one has come; never waits.
    #[inline]
    pub fn try_take(&mut self) -> Option<V> {
        let area = self.shared.area();
        // The load comes first to avoid a store to a line that the writer uses.
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

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`. A notification that is
    /// already there is taken, however short the timeout is.
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

    /// Suspends until a notification may be there. Returns an error if none has come before the
    /// area closed or the deadline passed.
    fn suspend(&mut self, deadline: Deadline) -> Result<(), SlotTimeoutError> {
        let call = Call::enter();
        let call = call.token();
        let (worker, fiber) = caller::caller("Slot::wait");
        if fiber.flags.has_any() {
            unwind::before_suspension(fiber);
        }
        let area = self.shared.area();
        let waiter = NonNull::from(fiber);
        let begun = area.begin_wait(&self.shared.closing, self.index, V::ALL, waiter);
        let target = WaitTarget::new(WaitKind::Watch, &area.words()[self.index]);
        let wait = || suspend::wait_from(call, worker, fiber, deadline);
        let resumed = (begun == Begun::Waits).then(|| fiber.waiting_for(target, wait));
        if resumed == Some(Resumed::Woken) {
            return Ok(());
        }
        if area.take_waiter(self.index).is_none() {
            suspend::absorb_wake(call, fiber);
        }
        unwind::raise(fiber);
        let left = V::load(&area.words()[self.index], Ordering::Relaxed) != V::default();
        match resumed {
            _ if left => Ok(()),
            None if begun == Begun::Closed => Err(SlotTimeoutError::Closed),
            Some(Resumed::TimedOut) => Err(SlotTimeoutError::TimedOut),
            _ => Ok(()),
        }
    }
}

impl<V: Lane> AreaInner<V> {
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

    /// Makes the home worker poll, if it sleeps.
    #[inline]
    fn tell(&self) {
        self.home().unpark_for(&Announcement::of_changes());
    }

    #[cold]
    fn close(&self, call: InCall<'_>) {
        AreaList::of(self.home()).remove(call, std::ptr::from_ref(self).cast());
        self.end_waits(call);
    }
}

/// The agent's interface to an area.
trait Scanned: Send + Sync {
    /// Scans one slice; on a hit ends that wait and returns the waiter.
    fn scan(&self) -> Option<NonNull<ControlBlock>>;
    /// Returns the number of slices.
    fn slices(&self) -> usize;
    /// Returns true if some wait could be ended now.
    fn has_hit(&self) -> bool;
    /// Returns the way in which agents learn of changes.
    fn notice(&self) -> Notice;
    /// Ends all waits, present and future.
    fn end_waits(&self, call: InCall<'_>);
}

impl<V: Lane> Scanned for AreaInner<V> {
    fn end_waits(&self, call: InCall<'_>) {
        self.area().close(&self.closing, |waiter| {
            // SAFETY: a waiter waits until it is woken, and its wait was just claimed.
            unsafe { waiter.as_ref() }.wake(call, caller::current());
        });
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

    fn slices(&self) -> usize {
        self.words.len().div_ceil(SLICE)
    }

    fn has_hit(&self) -> bool {
        self.find_hit(0, self.words.len()).is_some()
    }

    fn notice(&self) -> Notice {
        self.notice
    }
}

/// The areas that one worker's agent scans.
pub(crate) struct AreaList {
    /// The scan lock: one exchange per pass, and try only.
    lock: QueueLock,
    /// Accessed under the lock.
    areas: UnsafeCell<Vec<Arc<dyn Scanned>>>,
    /// The number of polled areas, and of those for writers elsewhere among them. Written under the
    /// lock.
    polled: AtomicUsize,
    elsewhere: AtomicUsize,
    /// The number of slices of the longest area. Written under the lock.
    slices: AtomicUsize,
    /// Index of the first area of the next pass. Written under the lock.
    turn: AtomicUsize,
}

// SAFETY: the list is accessed under the lock only.
unsafe impl Sync for AreaList {}
// SAFETY: as for Sync.
unsafe impl Send for AreaList {}

impl AreaList {
    /// Returns the list of `worker`.
    fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&KEY, AreaList::new)
    }

    fn new() -> Self {
        AreaList {
            lock: QueueLock::new(),
            areas: UnsafeCell::new(Vec::new()),
            polled: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
            slices: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    fn add(&self, call: InCall<'_>, area: Arc<dyn Scanned>) {
        let held = self.lock.lock(ThisThread::of(call));
        self.areas(&held).push(area);
        self.recount(&held);
    }

    fn remove(&self, call: InCall<'_>, area: *const ()) {
        let held = self.lock.lock(ThisThread::of(call));
        let areas = self.areas(&held);
        let at = areas.iter().position(|other| Arc::as_ptr(other).cast() == area);
        let removed = at.map(|at| areas.swap_remove(at));
        self.recount(&held);
        drop(held);
        // Dropped without the lock, as the drop may end a runtime.
        drop(removed);
    }

    fn recount(&self, held: &Held<'_>) {
        let areas = self.areas(held);
        let of = |notice| areas.iter().filter(|area| area.notice() == notice).count();
        let (all, notified, elsewhere) = (areas.len(), of(Notice::Notified), of(Notice::Elsewhere));
        self.polled.store(all - notified, Ordering::Relaxed);
        self.elsewhere.store(elsewhere, Ordering::Relaxed);
        let slices = areas.iter().map(|area| area.slices()).max().unwrap_or(0);
        self.slices.store(slices, Ordering::Relaxed);
    }

    /// Samples one slice of each area up to the first hit, and wakes that waiter; returns true if
    /// there was a hit.
    fn scan(&self, call: InCall<'_>) -> bool {
        let Some(held) = self.lock.try_lock(ThisThread::of(call)) else {
            return false;
        };
        let areas = self.areas(&held);
        let turn = self.turn.load(Ordering::Relaxed).min(areas.len());
        let (before, from) = areas.split_at(turn);
        let hit = from.iter().chain(before).find_map(|area| area.scan());
        self.turn.store(if turn + 1 < areas.len() { turn + 1 } else { 0 }, Ordering::Relaxed);
        // Released before the waiter runs, so that another agent may poll.
        drop(held);
        // SAFETY: a waiter waits until it is woken, and the scan has claimed its wait.
        hit.inspect(|waiter| unsafe { waiter.as_ref() }.wake(call, caller::current())).is_some()
    }

    #[allow(clippy::mut_from_ref)]
    fn areas<'l>(&'l self, _held: &'l Held<'_>) -> &'l mut Vec<Arc<dyn Scanned>> {
        // SAFETY: the lock is held, and no caller keeps the reference beyond its next call.
        unsafe { &mut *self.areas.get() }
    }
}

impl Source for AreaList {
    fn poll(&self, by: &Worker, round: Round) -> bool {
        let slices = round.slices(self.slices.load(Ordering::Relaxed));
        let hit = by.scan_slices(slices, || self.scan(InCall::agent(by)));
        if hit {
            by.counters.watch_hits.add(1);
        }
        hit
    }

    fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed) > 0
    }

    fn has_peer_elsewhere(&self) -> bool {
        self.elsewhere.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a wait could be ended now.
    fn is_pending(&self, by: &Worker, _: &LastLook) -> bool {
        if self.slices.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let held = self.lock.lock(ThisThread::of(InCall::agent(by)));
        self.areas(&held).iter().any(|area| area.has_hit())
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }

    /// Ends all waits at the areas. Fibers of other runtimes may wait there.
    fn close(&self, call: InCall<'_>) {
        let held = self.lock.lock(ThisThread::of(call));
        let areas = std::mem::take(self.areas(&held));
        self.recount(&held);
        drop(held);
        areas.iter().for_each(|area| area.end_waits(call));
    }
}
