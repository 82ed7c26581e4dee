//! Waits for descriptors, of contexts at one worker: a table, and one report at a time.
//!
//! README.md beside this file has the states, the steps and the proof. The epoll instance, the lock
//! and the memory of the table, and the sleeps of the waiters are the caller's.

use std::ops::DerefMut;
use std::ptr::NonNull;

use crate::atomic::{AtomicBool, AtomicU32, Ordering, UnsafeCell};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The epoll instance of a worker, and the table of the waits for it.
pub trait Instance {
    /// The queue of a waiter, in its frame.
    type Waiter: Sync;
    /// The memory of the table.
    type Firsts: Firsts<Waiter = Self::Waiter>;
    /// The time at which a sleep ends.
    type Due;

    /// Locks the table.
    fn table(&self) -> impl DerefMut<Target = Table<Self::Firsts>>;

    /// Asks for one report, that one of these events has come to the file which has the number
    /// `descriptor` now, or is there. Takes the place of an earlier request. Returns false if the
    /// kernel refuses it.
    fn ask(&self, descriptor: usize, events: u32) -> bool;

    /// Takes reports without waiting, calls `each` with their descriptors and returns their number.
    /// A ring that is found is kept for the next sleep.
    ///
    /// # Errors
    ///
    /// The instance is gone.
    fn poll(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone>;

    /// Polls as [`poll`](Self::poll) does, in place of the owner. A ring that is found is rung
    /// again.
    ///
    /// # Errors
    ///
    /// The instance is gone.
    fn poll_elsewhere(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone>;

    /// Waits for a report, a ring or the time `due`; then acts as [`poll`](Self::poll).
    ///
    /// # Errors
    ///
    /// The instance is gone.
    fn sleep(&self, due: Self::Due, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone>;

    /// Ends the present sleep, or the next one.
    fn ring(&self);
}

/// The program has closed the epoll instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceIsGone;

/// The memory of a table: a place for each number of a descriptor.
pub trait Firsts {
    /// As in [`Instance`].
    type Waiter;

    /// Returns the places that there are.
    fn places(&self) -> &[FirstWait<Self::Waiter>];

    /// Returns the place of `descriptor`, which is new if there was none. `None`: there is no
    /// memory for it.
    fn place(&mut self, descriptor: usize) -> Option<&mut FirstWait<Self::Waiter>>;
}

/// A place in the table: the list of the waits for one descriptor.
pub struct FirstWait<W>(Option<NonNull<DescriptorWait<W>>>);

// SAFETY: a wait is used under the lock of the table by one thread at a time, and its waiter by
// reference.
unsafe impl<W: Sync> Send for FirstWait<W> {}

impl<W> Default for FirstWait<W> {
    fn default() -> Self {
        FirstWait(None)
    }
}

impl<W> Clone for FirstWait<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for FirstWait<W> {}

impl<W> FirstWait<W> {
    /// Returns the waits of the list.
    ///
    /// # Safety
    ///
    /// No wait leaves the list during `'t`.
    unsafe fn walk<'t>(self) -> impl Iterator<Item = &'t DescriptorWait<W>>
    where
        W: 't,
    {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: a listed wait is alive, and stays in the list, by this function's contract.
            let wait = unsafe { next?.as_ref() };
            next = wait.next();
            Some(wait)
        })
    }
}

/// A wait for events of one descriptor, in the frame of the waiter.
pub struct DescriptorWait<W> {
    /// Negative: none, which no table takes.
    descriptor: i32,
    events: u32,
    waiter: NonNull<W>,
    /// The next wait for this descriptor. Used under the lock of the table.
    next: UnsafeCell<Option<NonNull<DescriptorWait<W>>>>,
}

impl<W> DescriptorWait<W> {
    /// Creates a wait that is in no table.
    pub fn new(descriptor: i32, events: u32, waiter: &W) -> Self {
        let next = UnsafeCell::new(None);
        DescriptorWait { descriptor, events, waiter: NonNull::from(waiter), next }
    }

    fn next(&self) -> Option<NonNull<Self>> {
        // SAFETY: the lock of the table is held.
        self.next.with(|next| unsafe { *next })
    }

    fn set_next(&self, next: Option<NonNull<Self>>) {
        // SAFETY: as in `next`.
        self.next.with_mut(|at| unsafe { *at = next });
    }

    /// Makes loom fail unless the caller may reuse the wait's memory.
    #[cfg(all(test, loom))]
    fn reclaim(&self) {
        self.next.with_mut(|_| ());
    }
}

/// The waits at one worker: for each number of a descriptor, a list.
pub struct Table<F> {
    firsts: F,
}

impl<F: Firsts> Table<F> {
    /// Creates an empty table in this memory, which has no waits.
    pub const fn new(firsts: F) -> Self {
        Table { firsts }
    }

    /// Returns the waits for a descriptor.
    fn of(&self, descriptor: usize) -> impl Iterator<Item = &DescriptorWait<F::Waiter>> {
        let first = self.firsts.places().get(descriptor);
        // SAFETY: waits leave by `remove`, which needs the table alone.
        first.into_iter().flat_map(|first| unsafe { first.walk() })
    }

    /// Enters a wait. Returns its descriptor, or `None` if there is no place for that.
    ///
    /// # Safety
    ///
    /// The wait is in no table, and stays until it was [removed](Self::remove).
    unsafe fn add(&mut self, wait: &DescriptorWait<F::Waiter>) -> Option<usize> {
        let descriptor = usize::try_from(wait.descriptor).ok()?;
        let first = self.firsts.place(descriptor)?;
        wait.set_next(first.0.replace(NonNull::from(wait)));
        Some(descriptor)
    }

    /// Takes a wait out, if it is in.
    fn remove(&mut self, wait: &DescriptorWait<F::Waiter>) {
        let this = Some(NonNull::from(wait));
        let Ok(descriptor) = usize::try_from(wait.descriptor) else { return };
        let Some(first) = self.firsts.places().get(descriptor) else { return };
        if first.0 != this {
            let before = self.of(descriptor).find(|other| other.next() == this);
            before.inspect(|before| before.set_next(wait.next()));
        } else if let Some(first) = self.firsts.place(descriptor) {
            first.0 = wait.next();
        }
    }

    /// Returns the events that are waited for.
    fn events(&self, descriptor: usize) -> u32 {
        self.of(descriptor).fold(0, |all, wait| all | wait.events)
    }
}

/// The descriptors that contexts wait for at one worker, its owner.
///
/// Budget of a wait: two read-modify-writes, and the lock of the table twice.
pub struct Descriptors<I> {
    instance: I,
    /// The waits, in the table or about to be. Raised by the owner's thread; lowered by those that
    /// waited, wherever they go on.
    count: AtomicU32,
    /// The instance is gone: waits are refused. Set once, by any poller.
    is_lost: AtomicBool,
}

impl<I: Instance> Descriptors<I> {
    /// Creates the waits for an instance, with none.
    pub fn new(instance: I) -> Self {
        Descriptors { instance, count: AtomicU32::new(0), is_lost: AtomicBool::new(false) }
    }

    /// Returns the instance.
    pub fn instance(&self) -> &I {
        &self.instance
    }

    /// Returns true if any context waits here. The owner misses none.
    pub fn has_waits(&self) -> bool {
        // Relaxed: the owner has made all additions itself. To another thread it is a hint.
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Returns true if the owner has to sleep in the instance, as reports may come. Only for the
    /// owner.
    pub fn have_bed(&self) -> bool {
        self.has_waits() && !self.is_lost()
    }

    fn is_lost(&self) -> bool {
        // Relaxed: `enter` is ordered by the lock of the table. To other threads it is a hint.
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Begins a wait, on the owner's thread.
    ///
    /// # Safety
    ///
    /// The waits, and their waiter, stay until the result has [left](Visit::leave).
    pub unsafe fn begin<'d>(&'d self, waits: &'d [DescriptorWait<I::Waiter>]) -> Visit<'d, I> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Visit { descriptors: self, waits }
    }

    /// Looks for reports, and calls `wake` with each waiter that has to look again. Returns true if
    /// there may be any. Any thread.
    pub fn poll(&self, is_owner: bool, wake: impl Fn(&I::Waiter)) -> bool {
        if !self.has_waits() || self.is_lost() {
            return false;
        }
        self.look(wake, |each| match is_owner || cfg!(weaken = "descriptors-elsewhere") {
            true => self.instance.poll(each),
            false => self.instance.poll_elsewhere(each),
        })
    }

    /// Sleeps in the instance until `due`; then acts as [`poll`](Self::poll). Only the owner.
    pub fn sleep(&self, due: I::Due, wake: impl Fn(&I::Waiter)) -> bool {
        !self.is_lost() && self.look(wake, |each| self.instance.sleep(due, each))
    }

    /// Ends the present sleep of the owner, or the next one. Any thread.
    pub fn ring(&self) {
        // Of a lost instance as well: the owner may be asleep there still.
        if !cfg!(weaken = "descriptors-ring") || !self.is_lost() {
            self.instance.ring();
        }
    }

    fn look(
        &self,
        wake: impl Fn(&I::Waiter),
        take: impl FnOnce(&mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone>,
    ) -> bool {
        let found = take(&mut |descriptor| self.report(descriptor, &wake));
        found.map_or_else(|InstanceIsGone| self.lose(&wake), |count| count > 0)
    }

    /// Wakes all waiters for a descriptor.
    fn report(&self, descriptor: usize, wake: &impl Fn(&I::Waiter)) {
        let table = self.instance.table();
        let Some(&first) = table.firsts.places().get(descriptor) else { return };
        let table = (!cfg!(weaken = "descriptors-frame")).then_some(table);
        // SAFETY: the lock is held.
        let waits = unsafe { first.walk() };
        let most = if cfg!(weaken = "descriptors-all") { 1 } else { usize::MAX };
        waits.take(most).for_each(|wait| self.wake(wait, wake));
        drop(table);
    }

    /// Wakes the waiter of a wait, under the lock of the table.
    fn wake(&self, wait: &DescriptorWait<I::Waiter>, wake: &impl Fn(&I::Waiter)) {
        // SAFETY: the waiter lies in the frame of the wait, which is in the table.
        wake(unsafe { wait.waiter.as_ref() });
    }

    /// Lets all waiters look again: the instance is gone. Returns true.
    #[cold]
    fn lose(&self, wake: &impl Fn(&I::Waiter)) -> bool {
        // Before the lock is taken: a waiter that enters afterwards is refused.
        self.is_lost.store(true, Ordering::Relaxed);
        let table = self.instance.table();
        let waits = (0..table.firsts.places().len()).flat_map(|descriptor| table.of(descriptor));
        waits.for_each(|wait| self.wake(wait, wake));
        true
    }
}

/// A wait at [`Descriptors`], for one descriptor or several.
#[must_use = "a wait that has begun has to be left"]
pub struct Visit<'d, I: Instance> {
    descriptors: &'d Descriptors<I>,
    waits: &'d [DescriptorWait<I::Waiter>],
}

impl<I: Instance> Visit<'_, I> {
    /// Enters the waits, and asks for a report on each descriptor. The waiter is in its queue, so
    /// that no report comes too early. Returns false if one is refused: then none may come, and the
    /// waiter leaves.
    ///
    /// Once for each visit, on the owner's thread.
    pub fn enter(&self) -> bool {
        let Descriptors { instance, .. } = self.descriptors;
        if cfg!(weaken = "descriptors-ask") {
            self.waits.iter().for_each(|wait| {
                let _ = instance.ask(wait.descriptor as usize, wait.events);
            });
        }
        let mut table = instance.table();
        // Under the lock, which `lose` takes once it has set it.
        if self.descriptors.is_lost() && !cfg!(weaken = "descriptors-lost") {
            return false;
        }
        self.waits.iter().all(|wait| {
            // SAFETY: by the contract of `begin`, as it has not been entered yet.
            let Some(descriptor) = (unsafe { table.add(wait) }) else { return false };
            // Other contexts may wait for it here, too.
            let events = match cfg!(weaken = "descriptors-events") {
                true => wait.events,
                false => table.events(descriptor),
            };
            cfg!(weaken = "descriptors-ask") || instance.ask(descriptor, events)
        })
    }

    /// Takes the waits out: no poller uses them any more. Once for each visit, on any thread.
    pub fn leave(&self) {
        let Descriptors { instance, count, .. } = self.descriptors;
        let mut table = instance.table();
        if !cfg!(weaken = "descriptors-leave") {
            self.waits.iter().for_each(|wait| table.remove(wait));
        }
        if cfg!(weaken = "descriptors-along") {
            self.waits.iter().for_each(|wait| {
                let _ = instance.ask(wait.descriptor as usize, 0);
            });
        }
        if cfg!(weaken = "descriptors-count") {
            count.store(count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        } else {
            // Relaxed: the owner acts on a sum that is too high as on a wait that lasts.
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
