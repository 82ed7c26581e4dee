//! The reasons why a runtime does not start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;

use daiko_context::stack::StackError;
use daiko_home::Unsupported;
use daiko_sys::memory::MemoryError;
use daiko_sys::selector;

use crate::process::ProcessError;

/// The maximum number of workers of a runtime.
pub(crate) const MAX_WORKERS: usize = 512;

/// The reason why a runtime did not start. Nothing of it is left.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of workers is not between 1 and 512.
    Workers {
        /// The number asked for.
        workers: usize,
    },
    /// The CPU budget is no number of CPUs.
    CpuBudget {
        /// The number asked for.
        cpus: f64,
    },
    /// None of the CPUs asked for is allowed.
    NoAllowedCpu {
        /// The CPUs asked for.
        asked: Vec<usize>,
        /// The CPUs in the affinity mask of the process.
        allowed: Vec<usize>,
    },
    /// A setting needs to know the CPU of each worker, but workers are not to be
    /// [bound](crate::RuntimeBuilder::bind).
    Unbound {
        /// The setting.
        setting: &'static str,
    },
    /// The stack size is not usable.
    Stack(StackError),
    /// Fibers cannot have thread-locals of their own here.
    ThreadLocals(Unsupported),
    /// The environment variable `DAIKO_STACK_SIZE` is not a usable stack size.
    StackSizeVariable {
        /// The value of the variable.
        value: OsString,
    },
    /// The environment variable `DAIKO_USER_WAIT` is neither 1 nor unset.
    UserWaitVariable {
        /// The value of the variable.
        value: OsString,
    },
    /// SIGQUIT cannot be taken over for dumps.
    DumpSignal(io::Error),
    /// An environment variable that is a switch is neither 1 nor unset: `DAIKO_DUMP`, or
    /// `DAIKO_TRACK_LOCKS`.
    SwitchVariable {
        /// The name of the variable.
        name: &'static str,
        /// The value of the variable.
        value: OsString,
    },
    /// No memory is available for the runtime itself.
    Memory(MemoryError),
    /// No kernel thread could be started.
    Thread(io::Error),
    /// The kernel, or a filter of system calls, refuses a call that the runtime needs.
    Refused(RefusedCall),
    /// Workers could not be set up, for another reason.
    Worker(io::Error),
    /// Workers cannot be processes here.
    Process(ProcessError),
    /// The kernel refuses the [selector](crate::RuntimeBuilder::selector) that was asked for.
    Selector(selector::Refused),
}

/// A system call that is refused to a runtime. The message names it, and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub struct RefusedCall {
    /// The name of the call.
    pub call: &'static str,
    /// The kernel's error.
    pub error: io::Error,
    /// The settings that need the call; empty if every runtime does.
    settings: &'static str,
}

impl RefusedCall {
    pub(crate) fn new(call: &'static str, error: io::Error, settings: &'static str) -> Self {
        RefusedCall { call, error, settings }
    }
}

impl fmt::Display for RefusedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusedCall { call, error, settings } = self;
        write!(f, "{call} is refused: {error}; allow it in the seccomp filter")?;
        if settings.is_empty() { Ok(()) } else { write!(f, ", or leave out {settings}") }
    }
}

impl std::error::Error for RefusedCall {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { workers } => {
                write!(f, "{workers} workers are not possible; ask for 1 to {MAX_WORKERS}")
            }
            BuildError::CpuBudget { cpus } => {
                write!(
                    f,
                    "a budget of {cpus} CPUs is not possible; ask for 0 or more, for example 0.1"
                )
            }
            BuildError::NoAllowedCpu { asked, allowed } => write!(
                f,
                "none of the CPUs {asked:?} is allowed here; choose among {allowed:?} or change the \
                 affinity mask (taskset, cpuset)"
            ),
            BuildError::Unbound { setting } => write!(
                f,
                "{setting} needs to know the CPU of each worker; leave out bind(false), or that \
                 setting"
            ),
            BuildError::Stack(error) => error.fmt(f),
            BuildError::ThreadLocals(reason) => write!(
                f,
                "fibers cannot have thread-locals of their own: {reason}; or let them borrow those \
                 of their worker by RuntimeBuilder::borrowed, which is unsafe"
            ),
            BuildError::StackSizeVariable { value } => write!(
                f,
                "DAIKO_STACK_SIZE is {value:?}: set it to a size of stacks, as 262144, 256K or 1M, \
                 up to 1024M; or unset it"
            ),
            BuildError::UserWaitVariable { value } => not_a_switch(f, "DAIKO_USER_WAIT", value),
            BuildError::DumpSignal(error) => write!(
                f,
                "SIGQUIT cannot ask for dumps: {error}; unset DAIKO_DUMP, or leave out \
                 dump_on_signal"
            ),
            BuildError::SwitchVariable { name, value } => not_a_switch(f, name, value),
            BuildError::Memory(error) => error.fmt(f),
            BuildError::Thread(error) => write!(
                f,
                "a worker thread could not be started: {error}; see ulimit -u, and pids.max of the \
                 control group (systemd TasksMax=, docker --pids-limit)"
            ),
            BuildError::Refused(call) => call.fmt(f),
            BuildError::Worker(error) => write!(f, "workers could not be set up: {error}"),
            BuildError::Process(error) => error.fmt(f),
            BuildError::Selector(refused) => {
                write!(f, "{refused}; or leave the selector to the runtime")
            }
        }
    }
}

fn not_a_switch(f: &mut fmt::Formatter<'_>, name: &str, value: &OsStr) -> fmt::Result {
    write!(f, "{name} is {value:?}: set it to 1, or unset it")
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Stack(error) => Some(error),
            BuildError::ThreadLocals(reason) => Some(reason),
            BuildError::Memory(error) => Some(error),
            BuildError::Thread(error)
            | BuildError::Worker(error)
            | BuildError::DumpSignal(error) => Some(error),
            BuildError::Refused(call) => Some(call),
            BuildError::Process(error) => Some(error),
            BuildError::Selector(refused) => Some(refused),
            BuildError::Workers { .. }
            | BuildError::CpuBudget { .. }
            | BuildError::NoAllowedCpu { .. }
            | BuildError::Unbound { .. }
            | BuildError::StackSizeVariable { .. }
            | BuildError::UserWaitVariable { .. }
            | BuildError::SwitchVariable { .. } => None,
        }
    }
}
