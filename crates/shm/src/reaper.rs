//! Who notices that a process has died: one thread, asleep until the kernel says so.
//!
//! A process watches those of whom something that it waits for depends. When one of them has ended, the table of the
//! segment is made to say so, and this process's own sleepers are rung for, who look again. Any number of
//! processes may do so at the same time, or late.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use daiko_core::robust::Holder;
use daiko_sys::process::{Ends, Life, Waited};

use crate::segment::{Inner, Segment};

/// What the one thread of this process waits for.
struct Reaper {
    /// A process that was forked has inherited the set of its parent, but not the thread: it begins anew.
    process: u32,
    ends: Ends,
    /// Whose end each token stands for: at most one for each place in the table of each segment.
    watched: Mutex<Watched>,
    tokens: AtomicU64,
}

type Watched = HashMap<u64, (Weak<Inner>, Holder)>;

static REAPER: Mutex<Option<Arc<Reaper>>> = Mutex::new(None);

impl Segment {
    /// Has this process notice when `holder` dies: [`is_gone`](Self::is_gone) says so then, and all its threads that
    /// sleep for something in this segment look again.
    ///
    /// Costs a load after the first time.
    #[inline]
    pub fn watch(&self, holder: Holder) {
        if self.inner().begins_to_watch(holder) {
            watch(self, holder);
        }
    }

    /// As [`watch`](Self::watch), for all that are attached.
    ///
    /// Costs two loads while nobody comes or goes.
    #[inline]
    pub fn watch_all(&self) {
        let census = self.census();
        // Relaxed: whoever has stored it has had all watched.
        if self.inner().all_watched.load(Ordering::Relaxed) != census {
            self.watch_anew(census);
        }
    }

    #[cold]
    fn watch_anew(&self, census: u64) {
        self.table().live().for_each(|(holder, _)| self.watch(holder));
        if self.table().live().all(|(holder, _)| self.inner().watches(holder)) {
            self.inner().all_watched.store(census, Ordering::Relaxed);
        }
    }

    /// Asks the kernel whether `holder` is attached no more, though nobody may have noticed yet. For what is
    /// not waited for: who comes right after a death is to find the place of the dead free.
    #[cold]
    pub fn has_gone(&self, holder: Holder) -> bool {
        let process = self.table().live().find(|(other, _)| *other == holder);
        if let Some((_, process)) = process
            && matches!(process.find(), Life::Ended)
        {
            self.inner().has_ended(holder);
        }
        self.is_gone(holder)
    }
}

#[cold]
fn watch(segment: &Segment, holder: Holder) {
    let process = segment.table().live().find(|(other, _)| *other == holder);
    let Some((_, process)) = process.filter(|_| holder != segment.me()) else { return };
    match (process.find(), reaper()) {
        (Life::Alive(pidfd), Some(reaper)) => {
            let Some(token) = reaper.begins(segment, holder) else { return };
            if reaper.ends.add(pidfd, token).is_err() {
                reaper.watched().remove(&token);
                segment.inner().forgets(holder);
            }
        }
        (Life::Ended, _) => segment.inner().has_ended(holder),
        // Not to be watched now: asked again by who waits next.
        _ => segment.inner().forgets(holder),
    }
}

/// Ends all watching for an attachment that ends.
pub(crate) fn forget(inner: &Inner) {
    let reaper = running().clone().filter(|reaper| reaper.process == std::process::id());
    if let Some(reaper) = reaper {
        reaper.forget(&mut reaper.watched(), |of, _| ptr::eq(of.as_ptr(), inner));
    }
}

/// The reaper of this process, which begins to run when it is first needed.
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
                    segment.has_ended(holder);
                }
            }
        }
    }

    /// A token for the end of `holder`; `None`: he is gone. Who had his place before is not watched any more: however
    /// often a peer changes the table, there is no more than one descriptor for each place.
    fn begins(&self, segment: &Segment, holder: Holder) -> Option<u64> {
        let (inner, mut watched) = (segment.inner(), self.watched());
        // Under the lock: who is late does not take the watch from a successor.
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

    fn forget(&self, watched: &mut Watched, which: impl Fn(&Weak<Inner>, Holder) -> bool) {
        watched.retain(|&token, (segment, holder)| {
            let forgotten = which(segment, *holder);
            if forgotten {
                self.ends.remove(token);
            }
            !forgotten
        });
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
