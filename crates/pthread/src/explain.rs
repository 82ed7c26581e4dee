//! The counters that `DAIKO_RUN=explain` prints at the end of the program.

use crate::atomic::{AtomicU64, Ordering};

/// A counter of the whole process.
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Threads that were started with a context to lend.
pub(crate) static THREADS: Count = Count::new();
/// Threads that are native, for an attribute or for want of memory.
pub(crate) static NATIVE: Count = Count::new();
/// Errands: calls for which a context went home.
pub(crate) static ERRANDS: Count = Count::new();
/// System calls that were handed over. 0: none are.
pub(crate) static HANDED_OVER: Count = Count::new();
/// Looks of the monitor for deadlocks. 0: they are not reported.
pub(crate) static LOOKS: Count = Count::new();

/// Prints the counters, if the environment asks for it.
pub(crate) fn at_exit() {
    extern "C" fn print() {
        let [threads, native, errands, looks] =
            [&THREADS, &NATIVE, &ERRANDS, &LOOKS].map(Count::get);
        let further = |count, what: &str| match count {
            0 => String::new(),
            count => format!("; {count} {what}"),
        };
        let calls = further(HANDED_OVER.get(), "calls handed over");
        let looks = further(looks, "looks for deadlocks");
        eprintln!(
            "daiko run: {threads} threads on workers, {native} native; {errands} errands{calls}{looks}"
        );
    }
    if std::env::var_os("DAIKO_RUN").is_some_and(|mode| mode == "explain") {
        // SAFETY: the function lives as long as the process: the engine is never unloaded.
        unsafe { libc::atexit(print) };
    }
}
