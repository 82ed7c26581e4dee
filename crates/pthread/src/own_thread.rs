//! Threads of the engine that look after those of the program.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use daiko_rt::deadlock::sampler::count_as_monitor;
use daiko_sys::generation::Generation;

use crate::mask::{HeldSignals, with_signals_blocked};

/// A thread that each process starts when it needs it: a forked child has none of its parent's. It
/// blocks all signals, and wakes no waiter by itself.
pub(crate) struct OwnThread {
    name: &'static str,
    /// The thread, and the process that has it.
    started: Mutex<Option<(Generation, Thread)>>,
}

impl OwnThread {
    pub(crate) const fn new(name: &'static str) -> Self {
        OwnThread { name, started: Mutex::new(None) }
    }

    /// Returns the thread of this process, which is started if there is none: `prepare` returns
    /// what it does. `None`: it cannot be started.
    pub(crate) fn get_or_start<L: FnOnce() + Send + 'static>(
        &'static self,
        prepare: impl FnOnce() -> Option<L>,
    ) -> Option<Thread> {
        let current = Generation::current().ok()?;
        with_signals_blocked(|| {
            let mut started = self.started();
            if let Some((_, thread)) = started.as_ref().filter(|(of, _)| *of == current) {
                return Some(thread.clone());
            }
            let life = prepare()?;
            let run = move || {
                count_as_monitor();
                life();
            };
            let handle = std::thread::Builder::new().name(self.name.to_owned()).spawn(run).ok()?;
            let thread = handle.thread().clone();
            *started = Some((current, thread.clone()));
            Some(thread)
        })
    }

    /// Keeps all other threads from starting it.
    pub(crate) fn keep(&'static self, _: &HeldSignals) -> impl Drop + use<> {
        self.started()
    }

    fn started(&self) -> MutexGuard<'_, Option<(Generation, Thread)>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
