//! Detection of process deaths by one thread, which sleeps until the kernel reports an end.
//!
//! A process watches the processes on which its waits depend. When one of them has ended, the
//! reaper records the death in the table of the segment and wakes this process's own sleepers,
//! which check their conditions again. Any number of processes may do so at the same time, or late.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use daiko_core::robust::Holder;
use daiko_sys::process::{Ends, Life, Waited};

use crate::atomic::{AtomicU64, Ordering};
use crate::segment::{Inner, Segment};

/// State of the reaper thread of this process.
struct Reaper {
    /// The process id. A forked child has inherited the set of its parent, but not the thread, and
    /// creates a new reaper.
    process: u32,
    ends: Ends,
    /// The process of each token: at most one for each place in the table of each segment.
    watched: Mutex<WatchedHolders>,
    tokens: AtomicU64,
}

type WatchedHolders = HashMap<u64, (Weak<Inner>, Holder)>;

static REAPER: Mutex<Option<Arc<Reaper>>> = Mutex::new(None);

impl Segment {
    /// Watches `holder`: once this process notices its death, [`is_gone`](Self::is_gone) returns
    /// true, and all threads of this process that sleep for an object of this segment check again.
    ///
    /// Costs one load after the first call.
    #[inline]
    pub fn watch(&self, holder: Holder) {
        if self.inner().begins_to_watch(holder) {
            watch(self, holder);
        }
    }

    /// [Watches](Self::watch) all attached processes.
    ///
    /// Costs two loads while no process attaches or detaches.
    #[inline]
    pub fn watch_all(&self) {
        let membership_epoch = self.membership_epoch();
        // Relaxed: a thread stores the epoch after it has registered all watches.
        if self.inner().all_watched.load(Ordering::Relaxed) != membership_epoch {
            self.watch_anew(membership_epoch);
        }
    }

    #[cold]
    fn watch_anew(&self, membership_epoch: u64) {
        self.table().live().for_each(|(holder, _)| self.watch(holder));
        if self.table().live().all(|(holder, _)| self.inner().watches(holder)) {
            self.inner().all_watched.store(membership_epoch, Ordering::Relaxed);
        }
    }

    /// Asks the kernel if `holder` is still attached, even if no process has noticed its end yet.
    /// Meant for conditions that are not waited for: a process that comes right after a death finds
    /// the place free.
    #[cold]
    pub fn has_gone(&self, holder: Holder) -> bool {
        let process = self.table().live().find(|(other, _)| *other == holder);
        if let Some((_, process)) = process
            && matches!(self.life(holder, process), Life::Ended)
        {
            self.inner().record_death(holder);
        }
        self.is_gone(holder)
    }
}

#[cold]
fn watch(segment: &Segment, holder: Holder) {
    let process = segment.table().live().find(|(other, _)| *other == holder);
    let Some((_, process)) = process.filter(|_| holder != segment.me()) else { return };
    match (segment.life(holder, process), reaper()) {
        (Life::Alive(pidfd), Some(reaper)) => {
            let Some(token) = reaper.begins(segment, holder) else { return };
            if reaper.ends.add(pidfd, token).is_err() {
                reaper.watched().remove(&token);
                segment.inner().forgets(holder);
            }
        }
        (Life::Ended, _) => segment.inner().record_death(holder),
        // The process cannot be watched now: the next waiter tries again.
        _ => segment.inner().forgets(holder),
    }
}

/// Ends all watches for an attachment that ends.
pub(crate) fn forget(inner: &Inner) {
    let reaper = running().clone().filter(|reaper| reaper.process == std::process::id());
    if let Some(reaper) = reaper {
        reaper.forget(&mut reaper.watched(), |of, _| ptr::eq(of.as_ptr(), inner));
    }
}

/// The reaper of this process, started at the first use.
fn reaper() -> Option<Arc<Reaper>> {
    let mut running = running();
    if running.as_ref().is_none_or(|reaper| reaper.process != std::process::id()) {
        *running = start();
    }
    running.clone()
}

fn running() -> MutexGuard<'static, Option<Arc<Reaper>>> {
    REAPER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Option<Arc<Reaper>> {
    let (process, ends) = (std::process::id(), Ends::new().ok()?);
    let reaper =
        Arc::new(Reaper { process, ends, watched: Mutex::default(), tokens: AtomicU64::new(0) });
    let runs = reaper.clone();
    let thread = std::thread::Builder::new().name("daiko-reaper".into());
    thread.spawn(move || runs.run()).ok()?;
    Some(reaper)
}

impl Reaper {
    fn run(&self) {
        while let Waited::Ended(tokens) = self.ends.wait() {
            for token in tokens {
                let watched = self.watched().remove(&token);
                if let Some((segment, holder)) = watched
                    && let Some(segment) = segment.upgrade()
                {
                    segment.record_death(holder);
                }
            }
        }
    }

    /// Creates a token for the end of `holder`; `None` if it is gone. Ends the watch of an earlier
    /// holder of its place: however often a peer changes the table, there is at most one descriptor
    /// per place.
    fn begins(&self, segment: &Segment, holder: Holder) -> Option<u64> {
        let (inner, mut watched) = (segment.inner(), self.watched());
        // Under the lock: a late caller must not end the watch of a successor.
        if segment.is_gone(holder) {
            return None;
        }
        self.forget(&mut watched, |of, before| {
            ptr::eq(of.as_ptr(), Arc::as_ptr(inner)) && before.index() == holder.index()
        });
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        watched.insert(token, (Arc::downgrade(inner), holder));
        Some(token)
    }

    fn forget(&self, watched: &mut WatchedHolders, which: impl Fn(&Weak<Inner>, Holder) -> bool) {
        watched.retain(|&token, (segment, holder)| {
            let forgotten = which(segment, *holder);
            if forgotten {
                self.ends.remove(token);
            }
            !forgotten
        });
    }

    fn watched(&self) -> MutexGuard<'_, WatchedHolders> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
