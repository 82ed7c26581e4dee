//! The start of a worker's thread, and its main function.

use std::io;
use std::ptr::NonNull;

use daiko_sys::cpu::CpuSet;

use super::build_error::BuildError;
use super::shared::{RuntimeInner, SharedPtr};
use super::thread::{self, set_up_thread};
use crate::atomic::Ordering;

impl RuntimeInner {
    /// Starts the thread of worker `index`, which may run on `cpus`; `None`: on the caller's.
    pub(crate) fn start_thread(
        &self,
        index: usize,
        cpus: Option<CpuSet>,
    ) -> Result<(), BuildError> {
        let shared = SharedPtr(NonNull::from(self));
        let (report, reported) = std::sync::mpsc::sync_channel(1);
        let thread = thread::start(format!("daiko-{index}"), move || {
            let shared = shared;
            // SAFETY: the shared part lives until all threads have ended.
            let shared = unsafe { shared.0.as_ref() };
            let worker = &shared.all_workers()[index];
            let seated = |_: &_| {
                worker.take_seat().map_err(|error| BuildError::Worker(io::Error::other(error)))
            };
            let set_up =
                set_up_thread(cpus.as_ref()).and_then(|stack| seated(&stack).map(|()| stack));
            match set_up {
                Ok(set_up) => {
                    let _ = report.send(Ok(()));
                    worker.main_of_thread();
                    drop(set_up);
                }
                Err(error) => drop(report.send(Err(error))),
            }
            // Release: pairs with the Acquire in `ends_thread`.
            worker.thread_ends.store(true, Ordering::Release);
            shared.ended.add();
        })?;
        self.threads().push((index, thread));
        reported.recv().unwrap_or_else(|_| Err(BuildError::Worker(io::ErrorKind::Other.into())))
    }
}
