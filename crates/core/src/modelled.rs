//! Helpers of the models, loom's and Shuttle's: threads over shared state, a sleep until a wake,
//! and waiters for a mutex.

#[cfg(all(test, loom))]
mod tests;

use std::array;
use std::ptr::NonNull;

#[cfg(loom)]
use loom::{
    sync::{Arc, Notify},
    thread,
};
#[cfg(shuttle)]
use shuttle::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

#[cfg(loom)]
use crate::atomic::AtomicU32;
use crate::atomic::{AtomicBool, Ordering, mortal};
use crate::lock::testing::Tester;
use crate::mutex::{Acquire, Arrival, RawMutex, note};
use crate::wait::{Node, NodeState};

pub(crate) fn spawn<T: Sync + Send + 'static, R: Send + 'static>(
    shared: &Arc<T>,
    run: impl FnOnce(&T) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Runs a model with `most` preemptions, or fewer if the environment asks for fewer.
///
/// Three threads that pass the same locks have too many executions to wait for with as many
/// preemptions as two threads can take; `scenarios` has more of both.
#[cfg(loom)]
pub(crate) fn bounded(most: usize, run: impl Fn() + Sync + Send + 'static) {
    bounded_builder(most).check(run);
}

#[cfg(loom)]
fn bounded_builder(most: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |asked| asked.min(most)));
    builder
}

/// The death of one thread of an execution: it stops for ever before one of its accesses to
/// atomics.
#[derive(Clone)]
pub(crate) struct Death {
    /// Number of accesses that take place before.
    steps: usize,
    /// Set if the death happened in any execution. Std's cell, as it is no part of the model.
    came: std::sync::Arc<std::sync::OnceLock<()>>,
}

impl Death {
    /// Creates a death before the access number `steps`, counted from 0.
    pub(crate) fn before(steps: usize) -> Self {
        Self { steps, came: Default::default() }
    }

    /// Runs `life`, which ends at the death. Returns its result, or `None` if this thread died.
    ///
    /// One thread of an execution at a time may die. A thread that joined it has learned of its
    /// death, as a parent or a pidfd reports it, and sees all its earlier writes.
    pub(crate) fn of<R>(&self, life: impl FnOnce() -> R) -> Option<R> {
        let lived = mortal::live(self.steps, life);
        if lived.is_none() {
            let _ = self.came.set(());
        }
        lived
    }
}

/// Runs a model again and again, its thread in [`Death::of`] dying before each of its accesses in
/// turn, until a round in which it dies in no execution.
///
/// ```ignore
/// dies_at_each_step(2, |death| {
///     let shared = Arc::new(Shared::new());
///     let victim = spawn(&shared, {
///         let death = death.clone();
///         move |shared| death.of(|| shared.protocol())
///     });
///     let _in_time = shared.protocol();
///     let lived = victim.join().unwrap();
///     shared.recover();
///     // for both values of `lived`, this holds
/// });
/// ```
#[cfg(loom)]
pub(crate) fn dies_at_each_step(most: usize, run: impl Fn(&Death) + Sync + Send + 'static) {
    let run = std::sync::Arc::new(run);
    for steps in 0.. {
        let death = Death::before(steps);
        let (run, dies) = (run.clone(), death.clone());
        bounded_builder(most).check(move || run(&dies));
        if death.came.get().is_none() {
            return;
        }
    }
}

/// A word that threads exchange before operations that load before they exchange. Loom 0.7 tries
/// two orders of two accesses by the last access alone, so that the load of one thread hides those
/// of other threads. The word orders nothing.
#[cfg(loom)]
pub(crate) struct Turn(AtomicU32);

#[cfg(loom)]
impl Turn {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn take(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A place to sleep until one wake has come.
pub(crate) struct Sleep {
    woken: AtomicBool,
    notify: Notify,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { woken: AtomicBool::new(false), notify: Notify::new() }
    }

    pub(crate) fn wait(&self) {
        while !self.take() {
            self.notify.wait();
        }
    }

    /// Returns true if the wake has come, and takes it.
    pub(crate) fn take(&self) -> bool {
        // Acquire: pairs with the Release in `wake`.
        self.woken.swap(false, Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        assert!(!self.woken.swap(true, Ordering::Release), "woken twice");
        self.notify.notify();
    }
}

/// The counterpart of loom's `Notify` for Shuttle: one notification is remembered.
#[cfg(shuttle)]
struct Notify {
    notified: Mutex<bool>,
    changed: Condvar,
}

#[cfg(shuttle)]
impl Notify {
    fn new() -> Self {
        Self { notified: Mutex::new(false), changed: Condvar::new() }
    }

    fn notify(&self) {
        *self.notified.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let notified = self.notified.lock().unwrap();
        *self.changed.wait_while(notified, |notified| !*notified).unwrap() = false;
    }
}

/// Waiters, known to nodes and wakers by their numbers, and the place where each sleeps.
pub(crate) struct Waiters<const N: usize>([Sleep; N]);

impl<const N: usize> Waiters<N> {
    pub(crate) fn new() -> Self {
        Self(array::from_fn(|_| Sleep::new()))
    }

    /// Returns waiter `actor` as a contender for queue locks.
    pub(crate) fn by(actor: usize) -> Tester {
        Tester(actor as u32 + 1)
    }

    pub(crate) fn wake(&self, waiters: impl IntoIterator<Item = usize>) {
        waiters.into_iter().for_each(|waiter| self.0[waiter].wake());
    }

    /// Waits for the wake that follows a claim; returns the note.
    pub(crate) fn wait<W: Copy>(&self, actor: usize, node: &Node<W>) -> u8 {
        self.0[actor].wait();
        Self::note(node)
    }

    /// Waits for the wake, for any reason.
    pub(crate) fn sleep(&self, actor: usize) {
        self.0[actor].wait();
    }

    /// Returns true if the wake has come, for any reason, and takes it.
    #[cfg(shuttle)]
    pub(crate) fn is_woken(&self, actor: usize) -> bool {
        self.0[actor].take()
    }

    pub(crate) fn note<W: Copy>(node: &Node<W>) -> u8 {
        let NodeState::Claimed(note) = node.state() else { panic!("woken without a claim") };
        note
    }

    /// Takes the lock; `again` is the kind of a second arrival.
    pub(crate) fn lock(&self, mutex: &RawMutex<usize>, actor: usize, again: Arrival) {
        if !mutex.try_acquire() {
            self.come(mutex, actor, &Node::new(actor), Arrival::New, again);
        }
    }

    /// Takes the lock as a second arrival, unless the note of the claim says that it has been
    /// handed over.
    pub(crate) fn lock_again(
        &self,
        mutex: &RawMutex<usize>,
        actor: usize,
        node: &Node<usize>,
        note: u8,
    ) {
        match note {
            note::HANDED_OVER => {}
            note::NOTIFIED => self.come(mutex, actor, node, Arrival::New, Arrival::Woken),
            _ => self.come(mutex, actor, node, Arrival::Woken, Arrival::Woken),
        }
    }

    fn come(
        &self,
        mutex: &RawMutex<usize>,
        actor: usize,
        node: &Node<usize>,
        mut arrival: Arrival,
        again: Arrival,
    ) {
        // SAFETY: the node is in no queue, and stays until it is claimed.
        while unsafe { mutex.acquire(&Self::by(actor), NonNull::from(node), arrival) }
            == Acquire::Queued
        {
            if self.wait(actor, node) == note::HANDED_OVER {
                return;
            }
            arrival = again;
        }
    }
}
