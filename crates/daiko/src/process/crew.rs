//! The processes of a runtime: its maker, the zygote, the workers.
//!
//! The *maker* builds the runtime, runs its monitor and waits for it. It forks the *zygote*, which stays as it is, a
//! process of one thread, and forks the workers: so that one that is forked later has the same image.
//! The zygote waits for the ends of its children, and is killed with its parent, as they are with it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitStatus;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use daiko_sys::cpu::CpuSet;
use daiko_sys::lock::Tally;
use daiko_sys::process::{self, Child, Files, Forked, PidFd, Signals};
use daiko_sys::{Scope, membarrier, memory, signal, thread};

use super::{Occupied, ProcessError, canary, heap};
use crate::runtime::kernel::Barriers;
use crate::runtime::{self, Shared, SharedPtr, phase};
use crate::worker::Unclear;

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
    /// Fibers that have ended with their workers. The successors.
    fibers: AtomicU32,
}

impl Roster {
    pub(crate) fn new(scope: Scope) -> Self {
        let (errno, end) = (AtomicI32::new(0), AtomicI32::new(0));
        let [crew, lost, unclear, fibers] = std::array::from_fn(|_| AtomicU32::new(0));
        Roster { up: Tally::new(scope), crew, errno, lost, end, unclear, fibers }
    }

    fn fail(&self, error: &io::Error) {
        self.errno.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts a fiber that has ended with its worker.
    pub(crate) fn lose_fiber(&self) {
        self.fibers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fibers_lost(&self) -> usize {
        self.fibers.load(Ordering::Relaxed) as usize
    }

    fn lose(&self, worker: usize, end: ExitStatus, why: Unclear) {
        self.end.store(end.into_raw(), Ordering::Relaxed);
        self.unclear.store(why.0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `loss`.
        self.lost.store(worker as u32 + 1, Ordering::Release);
    }

    fn loss(&self) -> Option<(u32, ExitStatus, Unclear)> {
        // Acquire: pairs with the Release in `lose`.
        let worker = self.lost.load(Ordering::Acquire).checked_sub(1)?;
        let end = ExitStatus::from_raw(self.end.load(Ordering::Relaxed));
        Some((worker, end, Unclear(self.unclear.load(Ordering::Relaxed))))
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
        // SAFETY: what the zygote runs closes no descriptor of the maker's.
        let zygote = unsafe { fork(|| run_zygote(&shared, maker, cpus)) };
        let zygote = zygote.map_err(ProcessError::Fork)?;
        let id = zygote.pid();
        // SAFETY: the runtime lives as long as its crew.
        let runtime = unsafe { shared.0.as_ref() };
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
unsafe fn fork(body: impl FnOnce() -> i32) -> Result<Child, process::ProcessError> {
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
        let text = match runtime.roster.loss() {
            Some((worker, end, why)) => {
                format!("worker process {worker} has ended ({end}) and {}", why.text())
            }
            None => format!("the process that workers are forked from has ended ({end})"),
        };
        signal::write_stderr(&[b"daiko: ", text.as_bytes(), b"; the program ends with it\n"]);
        signal::abort();
    }
}

/// The zygote's life; its exit code.
fn run_zygote(shared: &SharedPtr, maker: u32, cpus: impl Fn(usize) -> CpuSet) -> i32 {
    if process::die_with_parent(maker).is_err() {
        return 1;
    }
    // SAFETY: the maker frees the runtime once this process has ended.
    let runtime = unsafe { shared.0.as_ref() };
    let signals = Signals::block(&[process::CHILD_ENDED, process::TERMINATE]);
    let mut crew = Children(Vec::with_capacity(runtime.worker_count()));
    let me = std::process::id();
    // Now: what `cpus` borrows from is the maker's, who drops it when the workers are up. Dropped by this process
    // alone, after the ends of all workers.
    let cpus: Vec<CpuSet> = (0..runtime.worker_count()).map(cpus).collect();
    let fork_worker = |index: usize, comes| {
        let work = || run_worker(runtime, index, comes, me, &signals, &cpus[index]);
        // SAFETY: the worker drops nothing of the zygote's.
        unsafe { fork(work) }.ok()
    };
    for index in 0..runtime.worker_count() {
        let Some(child) = fork_worker(index, Comes::First) else {
            crew.kill();
            return 1;
        };
        crew.0.push(Some(child));
    }
    let code = crew.attend(runtime, &signals, |index| fork_worker(index, Comes::InPlace));
    // The maker may have sent one meanwhile, which would come now.
    std::mem::forget(signals);
    code
}

/// The zygote's children, by worker; `None`: it has ended.
struct Children(Vec<Option<Child>>);

impl Children {
    /// Waits for all of them to end, and replaces by `fork` who is killed; the zygote's exit code.
    fn attend(
        &mut self,
        runtime: &Shared,
        signals: &Signals,
        fork: impl Fn(usize) -> Option<Child>,
    ) -> i32 {
        while self.0.iter().any(Option::is_some) {
            if signals.next() == process::TERMINATE {
                self.kill();
                return 0;
            }
            while let Some((id, end)) = process::wait_now(None) {
                let ended =
                    |child: &Option<Child>| child.as_ref().is_some_and(|child| child.pid() == id);
                let Some(index) = self.0.iter().position(ended) else { continue };
                self.0[index] = None;
                if end.success() && runtime.phase() != phase::RUNNING {
                    continue;
                }
                match replace(runtime, index, end, &fork) {
                    Ok(child) => self.0[index] = Some(child),
                    Err(why) => {
                        runtime.roster.lose(index, end, why);
                        self.kill();
                        return 1;
                    }
                }
            }
        }
        0
    }

    fn kill(&mut self) {
        for child in self.0.iter().flatten() {
            // It has not been waited for.
            let _ = child.held().send(process::KILL);
        }
        for child in self.0.iter_mut().filter_map(Option::take) {
            let _ = child.wait();
        }
    }
}

/// Has a process come in place of the one that was this worker, if that was killed where it left nothing half done.
fn replace(
    runtime: &Shared,
    index: usize,
    end: ExitStatus,
    fork: impl Fn(usize) -> Option<Child>,
) -> Result<Child, Unclear> {
    if end.signal().is_none() {
        return Err(Unclear::NOT_KILLED);
    }
    if runtime.phase() == phase::ENDING {
        return Err(Unclear::ENDING);
    }
    let worker = &runtime.all_workers()[index];
    worker.remains()?;
    worker.begin_succession();
    fork(index).ok_or(Unclear::FORK)
}

/// When a process becomes a worker.
#[derive(Clone, Copy, PartialEq)]
enum Comes {
    /// With the runtime.
    First,
    /// After one that was killed.
    InPlace,
}

/// A worker process's life; its exit code.
fn run_worker(
    runtime: &Shared,
    index: usize,
    comes: Comes,
    zygote: u32,
    signals: &Signals,
    cpus: &CpuSet,
) -> i32 {
    if process::die_with_parent(zygote).is_err() {
        return 1;
    }
    signals.unblock();
    let worker = &runtime.all_workers()[index];
    let succeed = || match comes {
        Comes::First => {
            runtime.roster.up.add();
            Ok(())
        }
        Comes::InPlace => worker.succeed().map_err(io::Error::other),
    };
    match set_up(runtime, cpus).and_then(|stack| succeed().map(|()| stack)) {
        Ok(alternate_stack) => {
            worker.main_of_process();
            drop(alternate_stack);
            runtime.ended.add();
            0
        }
        Err(error) => {
            runtime.roster.fail(&error);
            1
        }
    }
}

fn set_up(runtime: &Shared, cpus: &CpuSet) -> io::Result<signal::AltStack> {
    if runtime.barriers == Barriers::Processes && !membarrier::register_globally() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    canary::note();
    populate(NonNull::from(runtime).cast(), size_of::<Shared>());
    populate(NonNull::from(runtime.all_workers()).cast(), size_of_val(runtime.all_workers()));
    if let Some(heap) = heap::heap() {
        heap.populate();
    }
    runtime::set_up_thread(cpus)
}

/// Maps what lies there now, so that its first use takes no page fault.
fn populate(start: NonNull<u8>, len: usize) {
    let page = memory::page_size();
    let before = start.addr().get() % page;
    // SAFETY: down to the beginning of its page, which is of the same mapping.
    let start = unsafe { start.sub(before) };
    // What is not populated now is when it is touched.
    let _ = memory::whole_pages(before + len).map(|len| memory::populate(start, len));
}
