//! What the models share, loom's and Shuttle's: threads over shared state, a sleep until a wake, and
//! waiters for a mutex.

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

use crate::lock::testing::Tester;
use crate::mutex::{Acquire, Arrival, RawMutex, note};
use crate::sync::{AtomicBool, Ordering};
use crate::wait::{Node, NodeState};

/// Runs `run` on a thread of its own.
pub(crate) fn spawn<T: Sync + Send + 'static, R: Send + 'static>(
    shared: &Arc<T>,
    run: impl FnOnce(&T) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Runs a model with `most` preemptions, or fewer where that is asked for.
///
/// Three threads that pass the same locks have too many executions to wait for with as many preemptions
/// as two threads can take; `scenarios` has more of both.
#[cfg(loom)]
pub(crate) fn bounded(most: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |asked| asked.min(most)));
    builder.check(run);
}

/// What a waiter sleeps on until it is woken.
pub(crate) struct Sleep {
    woken: AtomicBool,
    notify: Notify,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { woken: AtomicBool::new(false), notify: Notify::new() }
    }

    /// Sleeps until one wake has come.
    pub(crate) fn wait(&self) {
        while !self.take() {
            self.notify.wait();
        }
    }

    /// Whether the wake has come.
    pub(crate) fn take(&self) -> bool {
        // Acquire pairs with the Release in `wake`.
        self.woken.swap(false, Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        assert!(!self.woken.swap(true, Ordering::Release), "woken twice");
        self.notify.notify();
    }
}

/// Loom's, for Shuttle: one notification is remembered.
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

/// Waiters, known to nodes and wakers by their numbers; each sleeps on one of these.
pub(crate) struct Waiters<const N: usize>([Sleep; N]);

impl<const N: usize> Waiters<N> {
    pub(crate) fn new() -> Self {
        Self(array::from_fn(|_| Sleep::new()))
    }

    /// `who` as one who takes queue locks.
    pub(crate) fn by(who: usize) -> Tester {
        Tester(who as u32 + 1)
    }

    pub(crate) fn wake(&self, waiters: impl IntoIterator<Item = usize>) {
        waiters.into_iter().for_each(|waiter| self.0[waiter].wake());
    }

    /// Waits for the wake that follows a claim; the note.
    pub(crate) fn wait<W: Copy>(&self, who: usize, node: &Node<W>) -> u8 {
        self.0[who].wait();
        Self::note(node)
    }

    /// Waits for the wake, whatever it is for.
    #[cfg(shuttle)]
    pub(crate) fn sleep(&self, who: usize) {
        self.0[who].wait();
    }

    /// Whether the wake has come, whatever it is for.
    #[cfg(shuttle)]
    pub(crate) fn is_woken(&self, who: usize) -> bool {
        self.0[who].take()
    }

    /// What the claim of a node has left.
    pub(crate) fn note<W: Copy>(node: &Node<W>) -> u8 {
        let NodeState::Claimed(note) = node.state() else { panic!("woken without a claim") };
        note
    }

    /// Takes the lock; `again` is how a second arrival is.
    pub(crate) fn lock(&self, mutex: &RawMutex<usize>, who: usize, again: Arrival) {
        if !mutex.try_acquire() {
            self.come(mutex, who, &Node::new(who), Arrival::New, again);
        }
    }

    /// Takes the lock as a second arrival, if the note of a claim does not say that it is taken.
    pub(crate) fn lock_again(
        &self,
        mutex: &RawMutex<usize>,
        who: usize,
        node: &Node<usize>,
        note: u8,
    ) {
        match note {
            note::HANDED_OVER => {}
            note::NOTIFIED => self.come(mutex, who, node, Arrival::New, Arrival::Woken),
            _ => self.come(mutex, who, node, Arrival::Woken, Arrival::Woken),
        }
    }

    fn come(
        &self,
        mutex: &RawMutex<usize>,
        who: usize,
        node: &Node<usize>,
        mut arrival: Arrival,
        again: Arrival,
    ) {
        // SAFETY: the node is in no queue, and stays until it is claimed.
        while unsafe { mutex.acquire(&Self::by(who), NonNull::from(node), arrival) }
            == Acquire::Queued
        {
            if self.wait(who, node) == note::HANDED_OVER {
                return;
            }
            arrival = again;
        }
    }
}
