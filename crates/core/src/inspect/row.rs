//! Fibers, workers and runtimes, as a reader sees them.

use std::fmt;
use std::rc::Rc;

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The state of a fiber, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FiberState {
    /// It has not started.
    Unstarted,
    /// It runs.
    Running,
    /// It could run.
    Runnable,
    /// It waits for an unpark.
    Parked,
    /// It waits for an object.
    Waiting,
    /// It has ended, and there are handles to it.
    Finished,
}

impl FiberState {
    /// All states.
    pub const ALL: [FiberState; 6] = [
        FiberState::Unstarted,
        FiberState::Running,
        FiberState::Runnable,
        FiberState::Parked,
        FiberState::Waiting,
        FiberState::Finished,
    ];

    /// Returns its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            FiberState::Unstarted => "unstarted",
            FiberState::Running => "running",
            FiberState::Runnable => "runnable",
            FiberState::Parked => "parked",
            FiberState::Waiting => "waiting",
            FiberState::Finished => "finished",
        }
    }

    /// Returns true if the fiber is off its stack, and does not go on before an event.
    pub fn is_suspended(self) -> bool {
        matches!(self, FiberState::Parked | FiberState::Waiting)
    }
}

/// The target of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wait {
    /// The kind of the object.
    pub kind: Rc<str>,
    /// Its address; 0: none, or not known.
    pub object: u64,
}

/// The registers of a context that is off its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The address at which it goes on.
    pub instruction_pointer: u64,
    /// Its stack pointer then.
    pub stack_pointer: u64,
    /// Its register `rbp` then.
    pub frame_pointer: u64,
}

/// A fiber, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiberRow {
    /// The address of its control block, by which other rows name it.
    pub id: u64,
    /// The address of its runtime.
    pub runtime: u64,
    /// Its state.
    pub state: FiberState,
    /// The name given at spawn.
    pub name: Option<Rc<str>>,
    /// The place of the spawn.
    pub spawned_at: Option<Rc<Place>>,
    /// The target of its wait, if it waits.
    pub wait: Option<Wait>,
    /// The address of the worker that has it.
    pub worker: Option<u64>,
    /// True if it may change its worker.
    pub is_migratable: bool,
    /// True if it is a kernel thread that has lent its context.
    pub is_lent: bool,
    /// The kernel's id of that thread, where it is known.
    pub thread: Option<u32>,
    /// The words that change with each step of it: of two equal rows, it has not moved in between,
    /// or has come back to the same wait.
    pub(super) step: [u64; 3],
    /// The end of its stack, if the block lies there.
    pub(super) top: Option<u64>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    /// The address of the worker, by which fibers name it.
    pub id: u64,
    /// The position among the workers of its runtime.
    pub index: u32,
    /// The address of the fiber that runs; `None` while the agent does.
    pub running: Option<u64>,
    /// The kernel's id of the thread, or process; 0 before it runs.
    pub thread: u32,
    /// True while it starts fibers; else it stands by.
    pub is_active: bool,
    /// True if it has been in one fiber for long.
    pub is_stuck: bool,
    /// Its counters, in the order of [`Reader::counter_names`](super::Reader::counter_names).
    pub counters: Vec<u64>,
}

/// A runtime with its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeRow {
    /// The address of the runtime, by which fibers name it.
    pub id: u64,
    /// Its workers and spare workers.
    pub workers: Vec<WorkerRow>,
}
