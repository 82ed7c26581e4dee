//! The life of a worker's process.

use std::io;
use std::ptr::NonNull;

use daiko_sys::process::{self, Signals};
use daiko_sys::{membarrier, memory};

use super::{canary, heap};
use crate::runtime::{self, Barriers, BuildError, RuntimeInner, ThreadSetUp};
use crate::worker::{Coming, Worker};

/// Runs a worker's process up to the point where it becomes the worker; returns its exit code if it
/// cannot.
pub(super) fn run(worker: &Worker, zygote: u32, signals: &Signals) -> i32 {
    if process::die_with_parent(zygote).is_err() {
        return 1;
    }
    signals.unblock();
    match set_up(worker) {
        // In use until the process ends.
        Ok(set_up) => std::mem::forget(set_up),
        Err(error) => {
            worker.runtime().process_table.fail(&error);
            return 1;
        }
    }
    if worker.coming() == Coming::GoesOn {
        process::await_registers();
        // Another process has sent the signal that stands for the registers.
        return 1;
    }
    worker.live()
}

/// Sets up the state that each process has on its own.
fn set_up(worker: &Worker) -> io::Result<ThreadSetUp> {
    let runtime = worker.runtime();
    worker.note_heap_name();
    if runtime.barriers == Barriers::Processes && !membarrier::register_globally() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    canary::note();
    populate(NonNull::from(runtime).cast(), size_of::<RuntimeInner>());
    populate(NonNull::from(runtime.all_workers()).cast(), size_of_val(runtime.all_workers()));
    if worker.coming() == Coming::First
        && let Some(heap) = heap::heap()
    {
        heap.populate();
    }
    let cpus = runtime.affinity.of_worker(worker.index as usize);
    let set_up = runtime::set_up_thread(cpus.as_ref()).map_err(|error| match error {
        BuildError::Refused(call) => call.error,
        error => io::Error::other(error),
    })?;
    worker.set_up_process()?;
    worker.start_threads()?;
    Ok(set_up)
}

/// Maps this memory now, so that its first use takes no page fault.
fn populate(start: NonNull<u8>, len: usize) {
    let page = memory::page_size();
    let before = start.addr().get() % page;
    // SAFETY: down to the beginning of its page, which is of the same mapping.
    let start = unsafe { start.sub(before) };
    // Pages that are not populated now are mapped when they are touched.
    let _ = memory::whole_pages(before + len).map(|len| memory::populate(start, len));
}
