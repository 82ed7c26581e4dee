//! Kinds of fibers, by the thread-local storage that they use.

use daiko::Builder;
use daiko_context::seat::{self, Finder};

use super::case::Choice;
use super::failure::Failure;

/// Kinds of fibers, as methods name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FiberKind {
    /// The kind of fibers that do not ask for one: own thread-locals, pinned.
    Default,
    /// Thread-locals of their own, pinned.
    Own,
    /// Thread-locals of their own; the fibers may move.
    OwnMover,
    /// The thread-locals of the worker, pinned.
    Borrowed,
    /// The thread-locals of the worker that they are on; the fibers may move.
    BorrowedMover,
}

impl FiberKind {
    /// Whether such fibers have thread-locals of their own.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Default | Self::Own | Self::OwnMover)
    }

    /// Builder of such a fiber.
    ///
    /// # Safety
    /// If the kind borrows: the fiber keeps the contract of
    /// [`Builder::borrowed`](Builder::borrowed), or of `borrowed_migratable` if it may move.
    pub(crate) unsafe fn builder(self) -> Builder {
        let builder = Builder::new();
        match self {
            Self::Default => builder,
            Self::Own => builder.pinned(),
            Self::OwnMover => builder.migratable(),
            // SAFETY: by this function's contract.
            Self::Borrowed => unsafe { builder.borrowed() },
            // SAFETY: by this function's contract.
            Self::BorrowedMover => unsafe { builder.borrowed_migratable() },
        }
    }
}

/// The way to change the thread pointer, at switches between fibers that have thread-locals of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRegister {
    /// An instruction of the processor.
    FsGsBase,
    /// A system call.
    ArchPrctl,
}

impl Choice for ThreadRegister {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::FsGsBase, "fsgsbase"), (Self::ArchPrctl, "arch_prctl")];
}

impl ThreadRegister {
    /// The ways that exist here.
    pub(crate) fn here() -> impl Iterator<Item = Self> {
        let is_here = |way: &Self| *way == Self::ArchPrctl || has_fsgsbase();
        Self::all().filter(is_here)
    }

    /// Makes this process use this way, before its first runtime starts.
    ///
    /// # Errors
    /// If the way does not exist here, or the process uses the other one already.
    pub(crate) fn choose(self) -> Result<(), Failure> {
        let finder = match self {
            Self::FsGsBase => Finder::Gs,
            Self::ArchPrctl => Finder::ThreadLocal,
        };
        seat::choose(finder).map_err(|used| {
            Failure::Unavailable(format!(
                "thread-register={} is not available: this process uses {used:?}",
                self.name()
            ))
        })
    }
}

/// Whether user code may write the thread pointer by an instruction.
pub(crate) fn has_fsgsbase() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    daiko_sys::cpu::hardware_capabilities_2() & FSGSBASE != 0
}
