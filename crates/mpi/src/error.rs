//! Errors.

use std::error::Error;
use std::fmt;

/// An operation has failed, at this rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI reports an error, or the peer's death where the library detects it (ULFM).
    Mpi {
        /// The operation, as `Comm::recv`.
        operation: &'static str,
        /// The rank that reports it.
        rank: usize,
        /// The rank at the other end, if the operation has named one.
        peer: Option<usize>,
        /// MPI's class of the error, as `MPI_ERR_TRUNCATE`.
        class: i32,
        /// MPI's text.
        text: String,
    },
    /// The deadline has passed.
    TimedOut,
    /// MPI was finalised, or is about to be.
    Finalized,
    /// The communicator has no such rank.
    NoSuchRank {
        /// The rank that was named.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// The tag is below 0, or above 32767, which is the most that each MPI library accepts.
    BadTag(i32),
    /// A buffer has more than `i32::MAX` bytes.
    TooLong(usize),
    /// The length of a buffer does not fit the communicator or the message.
    Length {
        /// Elements, or bytes of a message.
        given: usize,
        /// The unit of which `given` has to be a multiple.
        unit: usize,
    },
    /// The operation needs `MPI_THREAD_MULTIPLE`, and MPI has granted `MPI_THREAD_SERIALIZED`.
    NeedsMultiple(&'static str),
    /// Workers are processes: MPI's library does not survive in them.
    WorkerProcesses,
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MpiError::Mpi { operation, rank, peer, text, .. } => {
                write!(f, "{operation} at rank {rank}")?;
                if let Some(peer) = peer {
                    write!(f, ", with rank {peer}")?;
                }
                write!(f, ": {text}")
            }
            MpiError::TimedOut => f.write_str("the time of the operation is over"),
            MpiError::Finalized => {
                f.write_str("MPI was finalised; make all calls before Mpi::finalize")
            }
            MpiError::NoSuchRank { rank, size } => {
                write!(f, "no rank {rank}: this communicator has ranks 0 to {}", size - 1)
            }
            MpiError::BadTag(tag) => write!(f, "tag {tag}: use one of 0 to 32767"),
            MpiError::TooLong(bytes) => {
                write!(f, "a buffer of {bytes} bytes: pass at most {} at a time", i32::MAX)
            }
            MpiError::Length { given, unit } => {
                write!(f, "a length of {given}: it has to be a multiple of {unit}")
            }
            MpiError::NeedsMultiple(operation) => write!(
                f,
                "{operation} needs MPI_THREAD_MULTIPLE, and MPI has granted MPI_THREAD_SERIALIZED; \
                 use an MPI library that is built with it"
            ),
            MpiError::WorkerProcesses => {
                f.write_str("MPI cannot be used where workers are processes; use threads")
            }
        }
    }
}

impl Error for MpiError {}

/// MPI was not initialised.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitError {
    /// The program was built for another MPI library than the one that is loaded.
    Version {
        /// The first line of the version at the build.
        built: String,
        /// The first line of the version that is loaded.
        loaded: String,
    },
    /// MPI has granted less than `MPI_THREAD_SERIALIZED`: this level.
    ThreadLevel(&'static str),
    /// The thread that keeps MPI cannot be started: the kernel's reason.
    Thread(String),
    /// MPI was initialised before. It can be once in a process.
    Before,
    /// MPI's text.
    Mpi(String),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::Version { built, loaded } => write!(
                f,
                "built for \"{built}\", but \"{loaded}\" is loaded; build it again for that one \
                 (MPICC names its compiler)"
            ),
            InitError::ThreadLevel(level) => write!(
                f,
                "MPI has granted {level}: fibers need MPI_THREAD_MULTIPLE or \
                 MPI_THREAD_SERIALIZED; use an MPI library that is built with it"
            ),
            InitError::Thread(reason) => {
                write!(
                    f,
                    "the thread that keeps MPI cannot be started: {reason}; allow more threads"
                )
            }
            InitError::Before => {
                f.write_str("MPI was initialised before in this process; call init once")
            }
            InitError::Mpi(text) => write!(f, "MPI cannot be initialised: {text}"),
        }
    }
}

impl Error for InitError {}

/// MPI was not finalised: it is in use as before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinalizeError {
    /// Fibers, threads or requests wait for messages.
    Waiting {
        /// Operations that fibers or threads wait for, and requests that were not waited for.
        operations: usize,
        /// Requests without a fiber: sends that were given up, collectives that timed out.
        left: usize,
    },
    /// MPI's text.
    Mpi(String),
}

impl fmt::Display for FinalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FinalizeError::Waiting { operations, left } => write!(
                f,
                "{operations} operations still wait for messages, and {left} requests that were \
                 given up have not ended; join the fibers before Mpi::finalize"
            ),
            FinalizeError::Mpi(text) => write!(f, "MPI cannot be finalised: {text}"),
        }
    }
}

impl Error for FinalizeError {}
