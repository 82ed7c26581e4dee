//! The processes of a runtime as their maker knows them, which builds the runtime, runs its monitor and waits for it: it
//! forks the zygote, waits until all workers are up, and later for the end of all.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use daiko_sys::cpu::CpuSet;
use daiko_sys::lock::Tally;
use daiko_sys::process::{self, Child, Files, Forked, PidFd};
use daiko_sys::{Scope, signal, thread};

use super::{Occupied, ProcessError, heap, zygote};
use crate::runtime::{Shared, SharedPtr};
use crate::worker::{Unclear, Worker};

/// Time between two looks whether the zygote lives, while the workers come up.
const LOOK: Duration = Duration::from_millis(20);

/// How the workers have come up, and which was lost. In the segment.
pub(crate) struct Roster {
    /// Workers that have come up. Each, once.
    pub(crate) up: Tally,
    /// Workers that the maker waits for at the end. The maker.
    pub(crate) crew: AtomicU32,
    /// Why one could not; 0: none, or nobody knows. The worker, or the zygote.
    errno: AtomicI32,
    /// The worker that was lost and has no successor, counted from 1; 0: none. The zygote.
    lost: AtomicU32,
    /// How it ended. The zygote, before `lost`.
    end: AtomicI32,
    /// Why it has none: an `Unclear`. The zygote, before `lost`.
    unclear: AtomicU32,
    /// Why it was not traced, as an errno; 0: it was. The zygote, before `lost`.
    refused: AtomicI32,
    /// Fibers that have ended with their workers. The successors.
    fibers: AtomicU32,
}

impl Roster {
    pub(crate) fn new(scope: Scope) -> Self {
        let [errno, end, refused] = std::array::from_fn(|_| AtomicI32::new(0));
        let [crew, lost, unclear, fibers] = std::array::from_fn(|_| AtomicU32::new(0));
        Roster { up: Tally::new(scope), crew, errno, lost, end, unclear, refused, fibers }
    }

    pub(super) fn fail(&self, error: &io::Error) {
        self.errno.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts a fiber that has ended with its worker.
    pub(crate) fn lose_fiber(&self) {
        self.fibers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fibers_lost(&self) -> usize {
        self.fibers.load(Ordering::Relaxed) as usize
    }

    /// Notes that `worker` has no successor. `refused`: why it was not traced, if it was not.
    pub(super) fn lose(&self, worker: u32, end: ExitStatus, why: Unclear, refused: Option<i32>) {
        self.end.store(end.into_raw(), Ordering::Relaxed);
        self.unclear.store(why.0, Ordering::Relaxed);
        self.refused.store(refused.unwrap_or(0), Ordering::Relaxed);
        // Release: pairs with the Acquire in `loss`.
        self.lost.store(worker + 1, Ordering::Release);
    }

    /// Which worker was lost, how, and why that could not be made good.
    fn loss(&self) -> Option<String> {
        // Acquire: pairs with the Release in `lose`.
        let worker = self.lost.load(Ordering::Acquire).checked_sub(1)?;
        let end = ExitStatus::from_raw(self.end.load(Ordering::Relaxed));
        let why = Unclear(self.unclear.load(Ordering::Relaxed)).text();
        let untraced = match self.refused.load(Ordering::Relaxed) {
            0 => String::new(),
            errno => format!(" (not traced: {})", io::Error::from_raw_os_error(errno)),
        };
        Some(format!("worker process {worker} has ended ({end}) and {why}{untraced}"))
    }
}

/// The maker's hold of the zygote, and by that of the workers.
#[derive(Debug)]
pub(crate) struct Crew {
    zygote: PidFd,
    /// Waits for the zygote's end.
    reaper: JoinHandle<()>,
    /// The process that has built the runtime.
    maker: u32,
    _occupied: Occupied,
}

impl Crew {
    /// Whether the calling process has built the runtime, and so may end it.
    pub(crate) fn is_here(&self) -> bool {
        self.maker == std::process::id()
    }

    /// Forks a worker for each of those that `shared` has, bound as `cpus` says, and waits until they run.
    pub(crate) fn start(
        shared: SharedPtr,
        occupied: Option<Occupied>,
        cpus: impl Fn(usize) -> CpuSet,
    ) -> Result<Crew, ProcessError> {
        let Some(occupied) = occupied else { unreachable!("asked for by who has processes") };
        let maker = std::process::id();
        // SAFETY: the runtime lives as long as its crew.
        let runtime = unsafe { shared.0.as_ref() };
        let no_stack = |error| ProcessError::Start(io::Error::other(error));
        runtime.all_workers().iter().try_for_each(Worker::take_stack).map_err(no_stack)?;
        // SAFETY: what the zygote runs closes no descriptor of the maker's.
        let zygote = unsafe { fork(|| zygote::run(&shared, maker, cpus)) };
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
        runtime.roster.crew.store(runtime.worker_count() as u32, Ordering::Relaxed);
        Ok(Crew { zygote, reaper, maker, _occupied: occupied })
    }

    /// Ends all processes that have not ended, and waits until none is left.
    pub(crate) fn end(self) {
        // It may have ended with its last child.
        let _ = self.zygote.send(process::TERMINATE);
        let _ = self.reaper.join();
    }
}

/// Runs `body` in a child process, which ends with the code that it returns, or 101 if it panics.
///
/// # Safety
///
/// As for `clone_process` with shared files.
pub(super) unsafe fn fork(body: impl FnOnce() -> i32) -> Result<Child, process::ProcessError> {
    // SAFETY: no descriptor is closed by both, as the caller promises; we need no handlers of `pthread_atfork`, and
    // the child ends without writing buffers.
    match unsafe { process::clone_process(Files::Shared)? } {
        Forked::Parent(child) => Ok(child),
        Forked::Child => {
            thread::forget_cached_id();
            heap::heap().inspect(|heap| heap.leave_parents_place());
            process::exit(panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(101))
        }
    }
}

/// Waits until all workers run; if one cannot, nothing is left of any.
fn wait_until_up(runtime: &Shared, zygote: u32) -> Result<(), ProcessError> {
    let all = runtime.worker_count() as u32;
    while !runtime.roster.up.wait(all, Some(Instant::now() + LOOK)) {
        if process::wait_now(Some(zygote)).is_some() {
            let error = match runtime.roster.errno.load(Ordering::Relaxed) {
                0 => io::ErrorKind::Other.into(),
                errno => io::Error::from_raw_os_error(errno),
            };
            return Err(ProcessError::Start(error));
        }
    }
    Ok(())
}

/// Waits for the zygote's end. If that was for the loss of a worker, the program ends here.
fn reap(runtime: &Shared, zygote: u32) {
    if let Some((_, end)) = process::wait(Some(zygote))
        && !end.success()
    {
        let text = runtime.roster.loss().unwrap_or_else(|| {
            format!("the process that workers are forked from has ended ({end})")
        });
        signal::write_stderr(&[b"daiko: ", text.as_bytes(), b"; the program ends with it\n"]);
        signal::abort();
    }
}
