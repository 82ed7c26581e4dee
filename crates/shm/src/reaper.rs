//! Who notices that a process has died: one thread, asleep until the kernel says so.
//!
//! A process watches those of whom something that it waits for depends. When one of them has ended, the table of the
//! segment is made to say so, and this process's own sleepers are rung for, who look again. Any number of
//! processes may do so at the same time, or late.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use daiko_core::robust::Holder;
use daiko_sys::process::{Ends, Life, Waited};

use crate::segment::{Inner, Segment};

/// What the one thread of this process waits for.
struct Reaper {
    ends: Ends,
    /// Whose end each token stands for.
    watched: Mutex<HashMap<u64, (Weak<Inner>, Holder)>>,
    tokens: AtomicU64,
}

static REAPER: OnceLock<Option<Reaper>> = OnceLock::new();

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
    pub fn watch_all(&self) {
        self.table().live().for_each(|(holder, _)| self.watch(holder));
    }
}

#[cold]
fn watch(segment: &Segment, holder: Holder) {
    let process = segment.table().live().find(|(other, _)| *other == holder);
    let Some((_, process)) = process.filter(|_| holder != segment.me()) else { return };
    match (process.find(), reaper()) {
        (Life::Alive(pidfd), Some(reaper)) => {
            let token = reaper.tokens.fetch_add(1, Ordering::Relaxed);
            reaper.watched().insert(token, (Arc::downgrade(segment.inner()), holder));
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

/// The reaper of this process, which begins to run when it is first needed.
fn reaper() -> Option<&'static Reaper> {
    REAPER.get_or_init(start).as_ref()
}

fn start() -> Option<Reaper> {
    let ends = Ends::new().ok()?;
    let run = || {
        let Some(reaper) = reaper() else { return };
        reaper.run();
    };
    std::thread::Builder::new().name("daiko-reaper".into()).spawn(run).ok()?;
    Some(Reaper { ends, watched: Mutex::default(), tokens: AtomicU64::new(0) })
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

    fn watched(&self) -> MutexGuard<'_, HashMap<u64, (Weak<Inner>, Holder)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
