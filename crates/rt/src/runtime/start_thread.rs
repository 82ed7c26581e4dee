//! The start of a worker's thread, and its main function.

use std::io;
use std::ptr::NonNull;

use daiko_sys::cpu::CpuSet;
use daiko_sys::memory;

use super::shared::{RuntimeInner, SharedPtr};
use super::thread::set_up_thread;
use crate::atomic::Ordering;

/// Mappings of a thread: its stack, the alternate stacks of `std` and of the runtime, memory of
/// `malloc`, and their guards.
const MAPPINGS_OF_THREAD: usize = 8;

impl RuntimeInner {
    /// Starts the thread of worker `index`, which may run on `cpus`; `None`: on the caller's.
    pub(crate) fn start_thread(&self, index: usize, cpus: Option<CpuSet>) -> io::Result<()> {
        if !memory::has_room_for_mappings(MAPPINGS_OF_THREAD) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let shared = SharedPtr(NonNull::from(self));
        let (report, reported) = std::sync::mpsc::sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("daiko-{index}")).spawn(move || {
                let shared = shared;
                // SAFETY: the shared part lives until all threads have ended.
                let shared = unsafe { shared.0.as_ref() };
                let worker = &shared.all_workers()[index];
                let seated = |_: &_| worker.take_seat().map_err(io::Error::other);
                let set_up =
                    set_up_thread(cpus.as_ref()).and_then(|stack| seated(&stack).map(|()| stack));
                match set_up {
                    Ok(alternate_stack) => {
                        let _ = report.send(Ok(()));
                        worker.main_of_thread();
                        drop(alternate_stack);
                    }
                    Err(error) => drop(report.send(Err(error))),
                }
                // Release: pairs with the Acquire in `ends_thread`.
                worker.thread_ends.store(true, Ordering::Release);
                shared.ended.add();
            })?;
        self.threads().push((index, thread));
        reported.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}
