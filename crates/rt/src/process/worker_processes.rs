//! The process table and the launcher, the process that builds the runtime. It runs the monitor,
//! forks the zygote, waits until all workers are up, and later for the end of all.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use daiko_context::seat;
use daiko_sys::generation::Generation;
use daiko_sys::process::{self, Child, Files, Forked, PidFd};
use daiko_sys::{signal, thread};

use super::{Occupied, ProcessError, heap, zygote};
use crate::atomic::Ordering;
use crate::runtime::{RuntimeInner, SharedPtr};
use crate::worker::Worker;

/// Time between two checks that the zygote lives, while the workers come up.
const LOOK: Duration = Duration::from_millis(20);

/// The launcher's handle of the zygote, and through it of the workers.
#[derive(Debug)]
pub(crate) struct WorkerProcesses {
    zygote: PidFd,
    /// Waits for the zygote's end.
    reaper: JoinHandle<()>,
    /// The id of the launcher.
    launcher: u32,
    _occupied: Occupied,
}

impl WorkerProcesses {
    /// Returns true if the calling process has built the runtime, and so may end it.
    pub(crate) fn is_here(&self) -> bool {
        self.launcher == std::process::id()
    }

    /// Forks all workers of `shared`, and waits until they run.
    pub(crate) fn start(
        shared: SharedPtr,
        occupied: Option<Occupied>,
    ) -> Result<WorkerProcesses, ProcessError> {
        let Some(occupied) = occupied else { unreachable!("asked for by a runtime of processes") };
        let launcher = std::process::id();
        // SAFETY: the runtime lives as long as its crew.
        let runtime = unsafe { shared.0.as_ref() };
        let no_stack = |error| ProcessError::Start(io::Error::other(error));
        let no_seat = |error| ProcessError::Start(io::Error::other(error));
        runtime.all_workers().iter().try_for_each(Worker::take_stack).map_err(no_stack)?;
        // The seats of all workers have the same address, as registers may move between them.
        seat::prepare().map_err(no_seat)?;
        // SAFETY: the code of the zygote closes no descriptor of the launcher's.
        let zygote = unsafe { fork(runtime.generation, || zygote::run(&shared, launcher)) };
        let zygote = zygote.map_err(ProcessError::Fork)?;
        let id = zygote.pid();
        wait_until_up(runtime, id)?;
        let zygote = zygote.into_held();
        let reaper = std::thread::Builder::new().name("daiko-reaper".into()).spawn(move || {
            let shared = shared;
            // SAFETY: as above: this thread ends with the crew.
            reap(unsafe { shared.0.as_ref() }, id);
        });
        let reaper = reaper.map_err(|error| {
            let _ = zygote.send(process::TERMINATE);
            process::wait(Some(id));
            ProcessError::Start(error)
        })?;
        runtime
            .process_table
            .worker_processes
            .store(runtime.worker_count() as u32, Ordering::Relaxed);
        Ok(WorkerProcesses { zygote, reaper, launcher, _occupied: occupied })
    }

    /// Ends all processes that have not ended, and waits until none is left.
    pub(crate) fn end(self) {
        // The zygote may have ended with its last child.
        let _ = self.zygote.send(process::TERMINATE);
        let _ = self.reaper.join();
    }
}

/// Runs `body` in a child process, which ends with the code that it returns, or 101 if it panics.
/// The child is of this `generation`, that of its runtime.
///
/// # Safety
///
/// As for `clone_process` with shared files.
pub(super) unsafe fn fork(
    generation: Generation,
    body: impl FnOnce() -> i32,
) -> Result<Child, process::ProcessError> {
    // SAFETY: no descriptor is closed by both, by this function's contract; the runtime needs no
    // handlers of `pthread_atfork`, and the child ends without writing buffers.
    match unsafe { process::clone_process(Files::Shared)? } {
        Forked::Parent(child) => Ok(child),
        Forked::Child => {
            thread::forget_cached_id();
            generation.join();
            heap::heap().inspect(|heap| heap.leave_parents_place());
            process::exit(panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(101))
        }
    }
}

/// Waits until all workers run; if one cannot, no process is left.
fn wait_until_up(runtime: &RuntimeInner, zygote: u32) -> Result<(), ProcessError> {
    let all = runtime.worker_count() as u32;
    while !runtime.process_table.up.wait(all, Some(Instant::now() + LOOK)) {
        if process::wait_now(Some(zygote)).is_some() {
            let error = match runtime.process_table.errno.load(Ordering::Relaxed) {
                0 => io::ErrorKind::Other.into(),
                errno => io::Error::from_raw_os_error(errno),
            };
            return Err(ProcessError::Start(error));
        }
    }
    Ok(())
}

/// Waits for the zygote's end. If the cause was the loss of a worker, ends the program: with the
/// exit code of a worker that has exited, as a program with threads would.
fn reap(runtime: &RuntimeInner, zygote: u32) {
    if let Some((_, end)) = process::wait(Some(zygote))
        && !end.success()
    {
        let text = runtime.process_table.loss().unwrap_or_else(|| {
            format!("the process that workers are forked from has ended ({end})")
        });
        signal::write_stderr(&[b"daiko: ", text.as_bytes(), b"; the program ends with it\n"]);
        match runtime.process_table.lost().and_then(|(_, end)| end.code()) {
            // No handlers of `atexit`: those that free memory have done so in the worker.
            Some(code) => process::exit(code),
            None => signal::abort(),
        }
    }
}
