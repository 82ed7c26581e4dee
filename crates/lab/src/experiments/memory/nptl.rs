//! POSIX threads that sleep on a futex, with stacks as small as a fiber's.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use daiko_sys::futex::{self, Scope};

use super::growth::{self, MemoryProbe};
use crate::kit::pthread::{Attributes, Pthread, broken};
use crate::kit::{Conductor, Failure, thread_limits};

/// State shared by the threads.
struct SuspendGate {
    conductor: Conductor,
    threads: usize,
    /// Set to 1 when all threads may end.
    open: AtomicU32,
}

/// Returns by how many bytes the process grows with `count` suspended threads.
pub(super) fn growth(count: usize) -> Result<u64, Failure> {
    let attributes = Attributes::small_stacks().map_err(broken)?;
    growth::growth(count, |places, look| suspended(&attributes, places, look))
}

/// Calls `look` while a thread waits in each of the places.
fn suspended(
    attributes: &Attributes,
    places: &mut [Option<Pthread>],
    look: MemoryProbe,
) -> Result<u64, Failure> {
    let threads = places.len();
    let gate = SuspendGate { conductor: Conductor::default(), threads, open: AtomicU32::new(0) };
    let looked = growth::fill(places, &gate.conductor, look, |index| {
        // SAFETY: `wait` expects a gate; this one outlives the joins below, which no path skips,
        // and is shared by reference.
        let thread = unsafe { attributes.create(wait, (&raw const gate).cast()) };
        thread.map_err(|error| thread_limits::refused(index, threads, &error))
    });
    // Pairs with the Acquire in `wait`.
    gate.open.store(1, Ordering::Release);
    futex::wake(&gate.open, u32::MAX, Scope::Private);
    let joined = places.iter_mut().filter_map(Option::take).map(Pthread::join);
    // All threads are joined, even if one of them failed.
    let failed = joined.filter_map(Result::err).last();
    failed.map_or(looked, |error| Err(broken(error)))
}

extern "C" fn wait(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `suspended` passes a gate that outlives this thread.
    let gate = unsafe { &*argument.cast::<SuspendGate>() };
    gate.conductor.arrive(gate.threads);
    // Pairs with the Release in `suspended`.
    while gate.open.load(Ordering::Acquire) == 0 {
        let _ = futex::wait(&gate.open, 0, None, Scope::Private);
    }
    ptr::null_mut()
}
