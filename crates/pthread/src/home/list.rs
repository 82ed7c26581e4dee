//! All homes of the process: those of the program's threads, and those that are kept.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use libc::pthread_t;

use super::Home;
use super::stage::{Kind, Stage};
use crate::lock::{SignalLock, SignalLocked};
use crate::mask::HeldSignals;
use crate::waits::Target;

/// The most homes that are kept.
const MOST_KEPT: usize = 128;

static HOMES: SignalLock<Homes> =
    SignalLock::new(Homes { threads: BTreeMap::new(), kept: Vec::new() });

/// The list.
pub(crate) struct Homes {
    /// Those of the program's threads.
    threads: BTreeMap<pthread_t, Arc<Home>>,
    /// The last one is taken first.
    kept: Vec<Arc<Home>>,
}

/// Locks the list.
pub(crate) fn lock() -> SignalLocked<'static, Homes> {
    HOMES.lock()
}

/// Keeps the list as it is, for a fork.
pub(crate) fn keep(signals: &HeldSignals) -> impl Drop + use<> {
    HOMES.keep(signals)
}

impl Homes {
    /// Enters the home of `thread`, unless that is there or has ended.
    pub(crate) fn enter(&mut self, thread: pthread_t, home: &Arc<Home>) {
        if matches!(home.stage.get(), Stage::Runs | Stage::Returned) {
            self.threads.entry(thread).or_insert_with(|| Arc::clone(home));
        }
    }

    /// Returns the home of a thread of the program. `None`: the thread is native, or ends as one.
    pub(crate) fn get(&self, thread: pthread_t) -> Option<&Arc<Home>> {
        self.threads.get(&thread)
    }

    /// Returns the id of each thread that has a home and has not ended, and the target of its wait
    /// on a worker.
    pub(crate) fn running(&self) -> Vec<(u32, Target)> {
        let running = self.threads.iter().filter(|(_, home)| home.stage.get() == Stage::Runs);
        running.map(|(&thread, home)| (id(thread), home.waits_for().get())).collect()
    }

    /// Returns true if no thread of the program has a home.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Returns the homes of threads that have not ended.
    pub(crate) fn running_homes(&self) -> impl Iterator<Item = &Home> {
        let homes = self.threads.values().map(|home| &**home);
        homes.filter(|home| home.stage.get() == Stage::Runs)
    }

    /// Returns the ids of the kernel threads of all homes.
    pub(crate) fn ids(&self) -> HashSet<u32> {
        let kept = self.kept.iter().map(|home| home.thread.get());
        self.threads.keys().copied().chain(kept).map(id).collect()
    }

    /// Removes the home of `thread`, which ends there.
    pub(crate) fn remove(&mut self, thread: pthread_t) -> Option<Arc<Home>> {
        let home = self.threads.remove(&thread)?;
        home.stage.set(Stage::Gone);
        Some(home)
    }

    /// Returns true if there is room for another home that is kept.
    pub(crate) fn have_room(&self) -> bool {
        self.kept.len() < MOST_KEPT
    }

    /// Notes that the thread at `home` has returned `value`.
    pub(crate) fn keep(&mut self, home: &Home, value: *mut c_void) {
        home.value.set(value);
        home.stage.set(Stage::Returned);
        if home.detached.get() {
            self.release(home.thread.get());
        }
    }

    /// Keeps the home of `thread`, which has returned, for another thread.
    pub(crate) fn release(&mut self, thread: pthread_t) {
        if let Some(home) = self.threads.remove(&thread) {
            home.stage.set(Stage::Kept);
            self.kept.push(home);
        }
    }

    /// Takes a home of this kind for a thread that `prepare` describes.
    pub(crate) fn take(&mut self, kind: Kind, prepare: impl FnOnce(&Home)) -> Option<Arc<Home>> {
        let found = self.kept.iter().rposition(|home| home.kind == Some(kind))?;
        let home = self.kept.remove(found);
        prepare(&home);
        home.stage.set(Stage::Runs);
        self.enter(home.thread.get(), &home);
        Some(home)
    }

    /// Takes all homes that are kept, for their kernel threads to end once they are woken.
    pub(crate) fn dismiss(&mut self) -> Vec<Arc<Home>> {
        let dismissed = std::mem::take(&mut self.kept);
        for home in &dismissed {
            home.detached.set(true);
            home.stage.set(Stage::Dismissed);
            self.threads.insert(home.thread.get(), Arc::clone(home));
        }
        dismissed
    }

    /// Forgets all but the calling thread: the only one of a child that was forked. Homes of
    /// other threads are never used again, nor freed.
    pub(crate) fn forget_others(&mut self) {
        // SAFETY: it has no argument.
        let own = unsafe { libc::pthread_self() };
        let home = self.threads.remove(&own);
        std::mem::forget(std::mem::take(&mut self.threads));
        std::mem::forget(std::mem::take(&mut self.kept));
        self.threads.extend(home.map(|home| (own, home)));
    }
}

/// Returns the id of a thread that has a home: its kernel thread is there.
fn id(thread: pthread_t) -> u32 {
    // SAFETY: it has not ended.
    unsafe { super::id_of(thread) }
}

/// Makes a call on behalf of another thread, and then `follow` with its home, if its context may be
/// lent and the call has returned 0. Returns `ended` if the thread has returned.
///
/// # Safety
///
/// As for `pthread_kill`: the thread has not been joined, or has not ended if it is detached.
pub(crate) unsafe fn act_on(
    thread: pthread_t,
    ended: c_int,
    call: impl FnOnce() -> c_int,
    follow: impl FnOnce(&Home),
) -> c_int {
    let homes = lock();
    match homes.get(thread) {
        Some(home) if home.stage.get() != Stage::Runs => ended,
        Some(home) => {
            let result = call();
            if result == 0 {
                follow(home);
            }
            result
        }
        None => call(),
    }
}

/// Pokes all contexts that have to come home and do not. Returns true if there are any.
pub(crate) fn poke_all() -> bool {
    lock().threads.values().filter(|home| home.poke()).count() > 0
}
