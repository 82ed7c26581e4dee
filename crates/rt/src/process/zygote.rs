//! The zygote: a process of one thread that stays as it is, and forks the workers, so that a later
//! worker has the same image. It traces them, and replaces a killed worker by another process.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use daiko_sys::process::{self, Change, Child, ProcessError, Registers, Signals, Traced};

use super::worker_processes::fork;
use super::{SharedHeap, life};
use crate::runtime::{RuntimeInner, SharedPtr, phase};
use crate::worker::{Coming, Plan, Unclear, Worker};

/// Runs the zygote; returns its exit code.
pub(super) fn run(shared: &SharedPtr, launcher: u32) -> i32 {
    if process::die_with_parent(launcher).is_err() {
        return 1;
    }
    // SAFETY: the launcher frees the runtime once this process has ended.
    let runtime = unsafe { shared.0.as_ref() };
    let signals = Signals::block(&[process::CHILD_CHANGED, process::TERMINATE]);
    let me = std::process::id();
    let workers = &runtime.all_workers()[..runtime.worker_count()];
    let fork_worker = |worker: &Worker| {
        // SAFETY: the worker drops nothing of the zygote's.
        unsafe { fork(runtime.generation, || life::run(worker, me, &signals)) }
    };
    let mut places: Vec<_> =
        workers.iter().map(|worker| WorkerPlace::new(runtime, worker)).collect();
    let code = attend(&mut places, &signals, &fork_worker);
    places.iter_mut().for_each(WorkerPlace::kill);
    places.iter_mut().for_each(WorkerPlace::await_end);
    // The launcher may have sent a signal meanwhile, which would be delivered now.
    std::mem::forget(signals);
    code
}

type Fork<'f> = &'f dyn Fn(&Worker) -> Result<Child, ProcessError>;

/// Forks the workers and replaces killed workers, until all have ended, or shall end; returns the
/// zygote's exit code.
fn attend(places: &mut [WorkerPlace<'_>], signals: &Signals, fork: Fork<'_>) -> i32 {
    if places.iter_mut().any(|place| place.fill(Plan::First, fork).is_err()) {
        return 1;
    }
    while places.iter().any(|place| place.now.is_some()) {
        if signals.next() == process::TERMINATE {
            return 0;
        }
        for place in &mut *places {
            if let Err((end, why)) = place.look(fork) {
                place.runtime.process_table.lose(place.worker.index, end, why, place.refused);
                return 1;
            }
        }
    }
    0
}

/// The place of a worker: its process, and the processes before.
struct WorkerPlace<'r> {
    runtime: &'r RuntimeInner,
    worker: &'r Worker,
    /// The process that is the worker; `None` before the first, and after the last has ended.
    now: Option<Traced>,
    /// The reason why the last process was not traced, as an errno, if that was refused.
    refused: Option<i32>,
    /// The way in which the process becomes the worker, until it has.
    plan: Option<Plan>,
    /// The dead processes, and the heap's names for them. They are kept from ending until the
    /// successor has finished their operations: so a lock that names one of them is not taken for a
    /// dead holder's.
    before: Vec<(Option<Traced>, u32)>,
}

impl<'r> WorkerPlace<'r> {
    fn new(runtime: &'r RuntimeInner, worker: &'r Worker) -> Self {
        WorkerPlace { runtime, worker, now: None, refused: None, plan: None, before: Vec::new() }
    }

    /// Forks a process that becomes the worker.
    fn fill(&mut self, plan: Plan, fork: Fork<'_>) -> Result<(), ProcessError> {
        self.worker.expect(match plan {
            Plan::First => Coming::First,
            Plan::Anew => Coming::Anew,
            Plan::GoOn(_) => Coming::GoesOn,
        });
        self.plan = Some(plan);
        let child = fork(self.worker)?;
        let now = match self.runtime.options.traced {
            true => Traced::new(child),
            false => Traced::without(child),
        };
        self.refused = now.refused().and_then(|error| error.raw_os_error());
        self.now = Some(now);
        Ok(())
    }

    /// Handles the changes of the process, and replaces it if it was killed.
    fn look(&mut self, fork: Fork<'_>) -> Result<(), (ExitStatus, Unclear)> {
        while let Some(change) = self.now.as_ref().and_then(Traced::change) {
            match change {
                Change::Waits => self.give().map_err(|why| (killed(), why))?,
                Change::Killed(registers, end) => {
                    let before = self.now.take();
                    before.as_ref().inspect(|before| before.await_threads());
                    let plan = self.plan_after(Some(registers));
                    self.replace(before, plan, end, fork)?;
                }
                Change::Ended(end) if self.is_over(end) => self.now = None,
                Change::Ended(end) if end.signal().is_none() => {
                    return Err((end, Unclear::NOT_KILLED));
                }
                Change::Ended(end) => {
                    self.now = None;
                    let plan = self.plan_after(None);
                    self.replace(None, plan, end, fork)?;
                }
            }
        }
        if !self.worker.is_expected() {
            self.plan = None;
            self.let_go();
        }
        Ok(())
    }

    /// Returns true if a worker's process may end with `end`: not before the runtime does.
    fn is_over(&self, end: ExitStatus) -> bool {
        end.success() && self.runtime.phase() != phase::RUNNING
    }

    /// Gives the process that has set itself up the registers with which it goes on.
    fn give(&mut self) -> Result<(), Unclear> {
        let Some(now) = &self.now else { return Ok(()) };
        let Some(Plan::GoOn(registers)) = &self.plan else {
            now.turn_down();
            return Ok(());
        };
        // SAFETY: the code there ran on stacks in the segment, and the same image is mapped at the
        // same places.
        match unsafe { now.give(registers) } {
            Ok(()) => self.plan = None,
            // It was killed meanwhile, and the next process is given them.
            Err(ProcessError::NoSuchProcess { .. }) => {}
            Err(_) => return Err(Unclear::REGISTERS),
        }
        Ok(())
    }

    /// Decides how the next process goes on, after this one has ended, or is about to, with these
    /// registers.
    fn plan_after(&mut self, registers: Option<Box<Registers>>) -> Result<Plan, Unclear> {
        match self.plan.take() {
            // This process had not been given them.
            Some(plan @ Plan::GoOn(_)) => Ok(plan),
            Some(plan) if self.worker.is_expected() => match registers {
                Some(registers) if self.worker.is_on_stack(&registers) => Ok(Plan::GoOn(registers)),
                Some(_) => Ok(plan),
                None => Err(Unclear::COMING),
            },
            _ => self.worker.plan(registers),
        }
    }

    fn replace(
        &mut self,
        before: Option<Traced>,
        plan: Result<Plan, Unclear>,
        end: ExitStatus,
        fork: Fork<'_>,
    ) -> Result<(), (ExitStatus, Unclear)> {
        self.before.push((before, self.worker.heap_name()));
        let fill = |plan| self.fill(plan, fork).map_err(|_| Unclear::FORK);
        plan.and_then(fill).map_err(|why| (end, why))
    }

    /// Lets the replaced processes end once their operations are finished, and frees the objects
    /// that they were putting together in the heap.
    fn let_go(&mut self) {
        for (before, name) in self.before.drain(..) {
            if let Some(before) = before {
                before.let_go();
                before.await_end();
            }
            // SAFETY: the process of this name has ended, with all its threads.
            unsafe { SharedHeap::sweep(name) };
        }
    }

    fn kill(&mut self) {
        if let Some(now) = &self.now {
            // The process has not been waited for.
            let _ = now.child().held().send(process::KILL);
        }
    }

    fn await_end(&mut self) {
        if let Some(now) = self.now.take() {
            now.await_end();
        }
        self.let_go();
    }
}

/// Returns the exit status of a killed process.
fn killed() -> ExitStatus {
    ExitStatus::from_raw(process::KILL)
}
