//! Calls on open files that the kernel makes on behalf of a caller that does other work meanwhile.

use std::cell::Cell;
use std::io;
use std::ptr::{self, NonNull};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use crate::atomic::{AtomicPtr, Ordering};

/// The most bytes of one transfer, as the kernel transfers no more (`MAX_RW_COUNT`).
const MOST_BYTES: usize = 0x7fff_f000;

/// A call on an open file, with the memory that it uses.
#[derive(Clone, Copy, Debug)]
pub enum FileOperation {
    /// `pread` to this memory.
    Read {
        /// The memory, which the kernel writes.
        bytes: *mut [u8],
        /// Position in the file, in bytes.
        offset: u64,
    },
    /// `pwrite` of this memory.
    Write {
        /// The memory, which the kernel reads.
        bytes: *const [u8],
        /// Position in the file, in bytes.
        offset: u64,
    },
    /// `fsync`.
    SyncAll,
    /// `fdatasync`.
    SyncData,
}

impl FileOperation {
    /// Returns true if its offset is one of a file. The kernel would take others for the position
    /// of the open file.
    pub(super) fn has_valid_offset(&self) -> bool {
        match *self {
            Self::Read { offset, .. } | Self::Write { offset, .. } => i64::try_from(offset).is_ok(),
            Self::SyncAll | Self::SyncData => true,
        }
    }

    pub(super) fn request(self, fd: i32) -> squeue::Entry {
        let fd = Fd(fd);
        let size = |bytes: usize| bytes.min(MOST_BYTES) as u32;
        match self {
            Self::Read { bytes, offset } => {
                opcode::Read::new(fd, bytes.cast(), size(bytes.len())).offset(offset).build()
            }
            Self::Write { bytes, offset } => {
                opcode::Write::new(fd, bytes.cast(), size(bytes.len())).offset(offset).build()
            }
            Self::SyncAll => opcode::Fsync::new(fd).build(),
            Self::SyncData => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        }
    }
}

/// A call that is passed to [`Selector::start`](super::Selector::start). It lies with its caller.
#[derive(Debug)]
pub struct FileCall {
    operation: FileOperation,
    waiter: NonNull<()>,
    /// Number of bytes, or the negated number of an error.
    result: Cell<i32>,
    /// The next call that has ended.
    next: Cell<Option<NonNull<FileCall>>>,
}

impl FileCall {
    /// Makes a call whose end is to be told to `waiter`, which this module does not use.
    pub fn new(operation: FileOperation, waiter: NonNull<()>) -> Self {
        Self { operation, waiter, result: Cell::new(0), next: Cell::new(None) }
    }

    /// Returns the waiter of [`new`](Self::new).
    pub fn waiter(&self) -> NonNull<()> {
        self.waiter
    }

    /// Returns the number of transferred bytes, once the call has ended.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn result(&self) -> io::Result<usize> {
        let result = self.result.get();
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }

    pub(super) fn operation(&self) -> FileOperation {
        self.operation
    }
}

/// The calls that have ended, in the order of their ends. Used by one thread.
#[derive(Debug, Default)]
pub(super) struct EndedCalls {
    first: AtomicPtr<FileCall>,
    last: AtomicPtr<FileCall>,
}

impl EndedCalls {
    /// # Safety
    ///
    /// The call stays until [`pop`](Self::pop) returns it, and no other thread uses it.
    pub(super) unsafe fn push(&self, call: NonNull<FileCall>, result: i32) {
        // SAFETY: by this function's contract, for both calls.
        unsafe {
            call.as_ref().result.set(result);
            // Relaxed, here and below: one thread.
            match NonNull::new(self.last.swap(call.as_ptr(), Ordering::Relaxed)) {
                Some(last) => last.as_ref().next.set(Some(call)),
                None => self.first.store(call.as_ptr(), Ordering::Relaxed),
            }
        }
    }

    pub(super) fn pop(&self) -> Option<NonNull<FileCall>> {
        let first = NonNull::new(self.first.load(Ordering::Relaxed))?;
        // SAFETY: by the contract of `push`.
        let next = unsafe { first.as_ref() }.next.get();
        self.first.store(next.map_or(ptr::null_mut(), NonNull::as_ptr), Ordering::Relaxed);
        if next.is_none() {
            self.last.store(ptr::null_mut(), Ordering::Relaxed);
        }
        Some(first)
    }
}
