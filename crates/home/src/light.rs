//! Building a block in memory, without a kernel thread.

use std::fmt;
use std::ptr;

use crate::abi::{Abi, Unsupported, at};
use crate::atomic::{AtomicU32, Ordering};
use crate::stacks::Stacks;

/// The reason why a block could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadLocalsError {
    /// Blocks cannot be built here.
    Unsupported(Unsupported),
    /// There is no memory for the vector of modules.
    Memory,
    /// All ids that no kernel thread has were used.
    Ids,
    /// No kernel thread could be started that a block belongs to.
    Thread,
}

impl From<Unsupported> for ThreadLocalsError {
    fn from(reason: Unsupported) -> Self {
        ThreadLocalsError::Unsupported(reason)
    }
}

impl fmt::Display for ThreadLocalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadLocalsError::Unsupported(reason) => reason.fmt(f),
            ThreadLocalsError::Memory => {
                f.write_str("there is no memory for the thread-locals of a fiber; see ulimit -v")
            }
            ThreadLocalsError::Ids => write!(
                f,
                "{} stacks with thread-locals of their own were made; keep runtimes instead of \
                 building new ones",
                END_OF_IDS - FIRST_ID
            ),
            ThreadLocalsError::Thread => f.write_str(
                "no kernel thread could be started for the thread-locals of a fiber; see ulimit -u, \
                 kernel.pid_max, and pids.max of the control group",
            ),
        }
    }
}

impl std::error::Error for ThreadLocalsError {}

/// The first id of a block: larger than any that the kernel gives to a thread.
const FIRST_ID: u32 = 1 << 22;
/// The ids end here, because the upper bits of a lock's word are flags of the kernel.
const END_OF_IDS: u32 = 1 << 30;

/// Returns an id that no thread and no other block has. Locks of the C library know their owner by
/// it.
fn new_id() -> Result<u32, ThreadLocalsError> {
    static NEXT: AtomicU32 = AtomicU32::new(FIRST_ID);
    NEXT.try_update(Ordering::Relaxed, Ordering::Relaxed, |id| (id < END_OF_IDS).then(|| id + 1))
        .map_err(|_| ThreadLocalsError::Ids)
}

/// Builds a block whose thread pointer is `pointer`, for a stack from `stack` up to the end of the
/// block. Bytes that no module has become `unused`.
///
/// # Errors
///
/// [`ThreadLocalsError`]. Then there is no block.
///
/// # Safety
///
/// `pointer` has the alignment of `abi`. The bytes of a block around it are writable and used for
/// nothing else, until [`destroy`].
pub(crate) unsafe fn build(
    abi: &Abi,
    stacks: &Stacks,
    pointer: usize,
    stack: usize,
    unused: u8,
) -> Result<(), ThreadLocalsError> {
    let id = new_id()?;
    // SAFETY: the block is writable, by this function's contract, and no other thread knows it.
    unsafe {
        let below = abi.bytes - abi.control_bytes;
        at::<u8>(pointer, -(below as isize)).write_bytes(unused, below);
        write_model(abi, pointer);
        let block = ptr::with_exposed_provenance_mut(pointer);
        if (abi.functions.allocate_tls)(block).is_null() {
            return Err(ThreadLocalsError::Memory);
        }
        at::<u32>(pointer, abi.thread_id as isize).write(id);
        at::<usize>(pointer, abi.stack_start as isize).write(stack);
        let bytes = pointer + abi.control_bytes - stack;
        at::<usize>(pointer, abi.stack_bytes as isize).write(bytes);
        at::<usize>(pointer, abi.resolver_pointer).write(pointer + abi.resolver);
        if let Some(rseq) = abi.rseq {
            write_unregistered(pointer, rseq);
        }
        stacks.add(abi, pointer);
    }
    Ok(())
}

/// Writes the control block as that of a new thread.
///
/// # Safety
///
/// As for [`build`].
unsafe fn write_model(abi: &Abi, pointer: usize) {
    let block = ptr::with_exposed_provenance_mut::<usize>(pointer);
    // SAFETY: the control block is writable, by this function's contract.
    unsafe {
        block.copy_from_nonoverlapping(abi.model.as_ptr(), abi.model.len());
        for &index in &abi.relative {
            block.add(index).write(pointer + abi.model[index]);
        }
    }
}

/// Marks the area of restartable sequences as one that the kernel does not know, so that the
/// library asks the kernel for the CPU.
///
/// # Safety
///
/// As for [`build`].
unsafe fn write_unregistered(pointer: usize, rseq: isize) {
    /// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
    const FAILED: u32 = -2i32 as u32;
    // SAFETY: two words of 32 bits lead the area: the CPU at the start of a sequence, and the CPU.
    unsafe { at::<[u32; 2]>(pointer, rseq).write([0, FAILED]) };
}

/// Ends the block at `pointer`, so that its memory may be used for other purposes.
///
/// # Safety
///
/// [`build`] has made it, nothing runs with it any more, and it ends once.
pub(crate) unsafe fn destroy(abi: &Abi, stacks: &Stacks, pointer: usize) {
    // SAFETY: by this function's contract.
    unsafe {
        stacks.remove(abi, pointer);
        (abi.functions.deallocate_tls)(ptr::with_exposed_provenance_mut(pointer), false);
    }
}
