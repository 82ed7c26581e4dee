//! The table: the layout of a process's runtimes, in that process's own words.

use std::mem::MaybeUninit;

/// The version of [`Table`]. A change of a field, or of its meaning, is another version.
pub const VERSION: u32 = 1;
/// The first bytes of a table.
pub const MAGIC: [u8; 8] = *b"daiko-ps";
/// The owner of the ELF note that leads to the table, with its final zero.
pub const NOTE_OWNER: [u8; 6] = *b"daiko\0";
/// The type of the note. Its descriptor is the distance in bytes from itself to the table, as a
/// signed integer of 8 bytes: the same in the file and in memory.
pub const NOTE_TYPE: u32 = 1;

/// A field of a struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the beginning of the struct.
    pub offset: u32,
    /// Number of bytes.
    pub bytes: u32,
}

impl Field {
    /// Returns the same field as a part of a larger struct, which has the struct of this field as
    /// its field `outer`.
    pub const fn within(self, outer: Field) -> Field {
        assert!(self.offset + self.bytes <= outer.bytes);
        Field { offset: outer.offset + self.offset, bytes: self.bytes }
    }

    /// Describes the field at `offset` that `get` returns a reference to: for
    /// [`field`](crate::field).
    pub const fn new<T, F>(offset: usize, _get: fn(&T) -> &F) -> Field {
        assert!(offset + size_of::<F>() <= size_of::<T>());
        Field { offset: offset as u32, bytes: size_of::<F>() as u32 }
    }
}

/// Returns the [`Field`](crate::inspect::Field) of a struct, as the compiler has laid it out.
#[macro_export]
macro_rules! field {
    ($struct:ty, $field:ident) => {
        $crate::inspect::Field::new::<$struct, _>(
            ::std::mem::offset_of!($struct, $field),
            |value| &value.$field,
        )
    };
}

/// Words, separated by spaces, in memory that does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The first byte.
    pub start: *const u8,
    /// Number of bytes.
    pub len: usize,
}

impl Words {
    /// Describes `text`.
    pub const fn new(text: &'static str) -> Self {
        Words { start: text.as_ptr(), len: text.len() }
    }
}

/// The list of slabs of stacks: a chain of pages with entries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SlabList {
    /// The first page.
    pub first: *const (),
    /// The pointer of a page to the next one; null at the end.
    pub next: Field,
    /// The entries of a page.
    pub entries: Field,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// The first address of the slab; 0 or 1 if the entry is not in use.
    pub start: Field,
    /// Bytes of the slab.
    pub len: Field,
    /// Bytes of a stack.
    pub size: Field,
    /// Bytes below a stack that cannot be accessed.
    pub guard: Field,
    /// The top of stack `i` lies `i % colours * colour_bytes` bytes below its end.
    pub colours: u64,
    /// See `colours`.
    pub colour_bytes: u64,
}

/// The control block of a fiber, which ends at the top of its stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockLayout {
    /// Bytes of a block.
    pub bytes: u64,
    /// The stack pointer of a fiber that does not run.
    pub stack_pointer: Field,
    /// The owner word.
    pub owner: Field,
    /// The run state.
    pub state: Field,
    /// The kind: a set of bits.
    pub kind: Field,
    /// The target of the wait: the index of its kind in the upper byte, an address in the lower
    /// seven.
    pub target: Field,
    /// The closure or its result; of a context that is lent: the lender.
    pub packet: Field,
    /// The references.
    pub refs: Field,
    /// Length + 1 of the name, which ends at the block, or at the thread control block below it; 0:
    /// no name.
    pub name_end: Field,
    /// The pointer to the place of the spawn.
    pub spawned_at: Field,
    /// The runtime.
    pub runtime: Field,
    /// Bits of `owner` that tell of events before the start: without other bits, the fiber has not
    /// started.
    pub owner_early: u64,
    /// The bit of `owner` of a fiber that has ended.
    pub owner_finished: u64,
    /// Bits of `state` for the phase: 0 is active.
    pub state_phase: u64,
    /// The phase of a fiber that waits for an unpark.
    pub state_parked: u64,
    /// Bits of `refs` that count; at 0 no fiber uses the block.
    pub refs_count: u64,
    /// The bit of `kind` of a fiber that may change its worker.
    pub kind_migratable: u64,
    /// The bit of `kind` of a fiber with thread-locals of its own.
    pub kind_own: u64,
    /// The bit of `kind` of a context that a kernel thread has lent.
    pub kind_lent: u64,
}

/// The registers that a context switch leaves on the stack, as offsets from the saved stack
/// pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// The address to continue at.
    pub instruction_pointer: u32,
    /// The register by which the compiler finds locals in frames that it realigns: `rbx`, `x19`,
    /// `s1`.
    pub base: u32,
    /// The frame pointer: `rbp`, `x29`, `s0`.
    pub frame_pointer: u32,
    /// The thread pointer; `u32::MAX`: there is none.
    pub thread_pointer: u32,
    /// Bytes of the frame: the stack pointer lies behind it when the context goes on.
    pub bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// A runtime.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RuntimeLayout {
    /// The address of an array of pointers to runtimes; some are null.
    pub listed: *const (),
    /// Number of these pointers. Further runtimes are found by their fibers only.
    pub most_listed: u64,
    /// The pointer to the array of workers.
    pub workers: Field,
    /// Number of workers and spare workers.
    pub worker_count: Field,
    /// The first batch of blocks for contexts that are lent; null: there is none.
    pub lent: Field,
    /// The pointer of a batch to the next one.
    pub lent_next: Field,
    /// The blocks of a batch.
    pub lent_blocks: Field,
}

/// A worker.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WorkerLayout {
    /// Bytes of a worker.
    pub bytes: u64,
    /// The position among the workers.
    pub index: Field,
    /// The control block of the fiber that runs; null while the agent does.
    pub running: Field,
    /// The kernel's id of the thread, or process; 0 before it runs.
    pub thread: Field,
    /// Not 0 while the worker starts fibers.
    pub active: Field,
    /// Not 0 while the monitor takes the worker for stuck.
    pub stuck: Field,
    /// The counters, each of 8 bytes.
    pub counters: Field,
    /// The names of the counters, in their order.
    pub counter_names: Words,
    /// The recorder of events.
    pub recorder: RecorderLayout,
}

/// The recorder of a worker's events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecorderLayout {
    /// Number of events recorded so far.
    pub recorded: Field,
    /// The number at which they end; a reader writes it.
    pub credit_end: Field,
    /// The pointer to the ring; null: there is none.
    pub ring: Field,
    /// The process id of the reader; 0: none. A reader writes it.
    pub reader: Field,
    /// Not 0 if there was no memory for a ring.
    pub is_refused: Field,
    /// Number of events of a ring, each of 16 bytes.
    pub ring_events: u64,
}

impl RecorderLayout {
    /// Returns the same as a part of a larger struct, which has the recorder as its field `outer`.
    pub const fn within(self, outer: Field) -> Self {
        RecorderLayout {
            recorded: self.recorded.within(outer),
            credit_end: self.credit_end.within(outer),
            ring: self.ring.within(outer),
            reader: self.reader.within(outer),
            is_refused: self.is_refused.within(outer),
            ring_events: self.ring_events,
        }
    }
}

/// The facts that a process finds out at the start of its first runtime.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The address of the file's name in a `Location`, as [`Found::KNOWN`] plus its offset; 0: not
    /// known.
    pub location_file: u32,
    /// The length of the name, likewise.
    pub location_len: u32,
    /// The line, likewise.
    pub location_line: u32,
    /// The column, likewise.
    pub location_column: u32,
    /// Bytes of a thread control block from its thread pointer on.
    pub thread_block_above: u32,
    /// The alignment of thread pointers; 0: no fiber has a thread control block.
    pub thread_block_align: u32,
    /// Bytes of a thread control block below its thread pointer.
    pub thread_block_below: u32,
    /// Offset from the thread pointer to the kernel's id of a thread that has lent its context, as
    /// [`Found::KNOWN`] plus the offset; 0: not known.
    pub thread_id: u32,
}

impl Found {
    /// The bit of a fact that is known.
    pub const KNOWN: u32 = 1 << 31;
}

/// The holders of locks, while they are tracked: sets of slots.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeldLayout {
    /// The address of the byte that says which notes are taken.
    pub notes: *const (),
    /// Its bit for the holders of locks.
    pub notes_locks: u64,
    /// The address of the first set.
    pub sets: *const (),
    /// Number of sets.
    pub set_count: u64,
    /// Bytes of a set.
    pub set_bytes: u64,
    /// The slots of a set.
    pub slots: Field,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// The address of the lock; 0: the slot is free.
    pub lock: Field,
    /// The control block of the fiber that holds it; or the kernel's id of a thread, shifted left
    /// by one, beside `by_thread`.
    pub by: Field,
    /// The pointer to the place that has taken the lock.
    pub at: Field,
    /// See `by`.
    pub by_thread: u64,
}

/// The waits of threads that run no fiber, while the holders of locks are tracked.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThreadWaitsLayout {
    /// The address of the first slot.
    pub slots: *const (),
    /// Number of slots.
    pub slot_count: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// The kernel's id of the thread; 0: the slot is free.
    pub thread: Field,
    /// The target, as that of a fiber.
    pub target: Field,
}

/// The layout of a process's runtimes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of this table.
    pub bytes: u32,
    /// The version of the runtime.
    pub release: Words,
    /// The names of the kinds of waits.
    pub wait_kinds: Words,
    /// The stacks.
    pub slabs: SlabList,
    /// Fibers.
    pub block: BlockLayout,
    /// The frame of a fiber that borrows thread-locals.
    pub frame: FrameLayout,
    /// The frame of a fiber with thread-locals of its own.
    pub own_frame: FrameLayout,
    /// Runtimes.
    pub runtime: RuntimeLayout,
    /// Workers.
    pub worker: WorkerLayout,
    /// Holders of locks.
    pub held: HeldLayout,
    /// Waits of threads.
    pub thread_waits: ThreadWaitsLayout,
    /// The address of a [`Found`].
    pub found: *const (),
}

// SAFETY: the pointers are addresses for readers, which do not use them as pointers.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// A struct of integers and raw pointers without padding: any bytes are a value.
///
/// # Safety
///
/// The type is as the first line says.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: `repr(C)`, of integers and pointers; no padding, as a test checks by the sizes.
unsafe impl Plain for Table {}
// SAFETY: as above.
unsafe impl Plain for Found {}

/// Reads a value from its bytes, which `read` writes. Returns `None` if it returns false.
pub(super) fn read_plain<T: Plain>(read: impl FnOnce(&mut [u8]) -> bool) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of the value, which are zero.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: any bytes are a value of a plain type.
    read(bytes).then(|| unsafe { value.assume_init() })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_padding() {
        let field = size_of::<Field>();
        let words = size_of::<Words>();
        assert_eq!(size_of::<SlabList>(), 8 + 6 * field + 3 * 8);
        assert_eq!(size_of::<BlockLayout>(), 8 + 10 * field + 8 * 8);
        assert_eq!(size_of::<FrameLayout>(), 6 * 4);
        assert_eq!(size_of::<RuntimeLayout>(), 2 * 8 + 5 * field);
        assert_eq!(size_of::<WorkerLayout>(), 8 + 6 * field + words + size_of::<RecorderLayout>());
        assert_eq!(size_of::<RecorderLayout>(), 5 * field + 8);
        assert_eq!(size_of::<Found>(), 8 * 4);
        assert_eq!(size_of::<HeldLayout>(), 7 * 8 + 4 * field);
        assert_eq!(size_of::<ThreadWaitsLayout>(), 3 * 8 + 2 * field);
        let parts = size_of::<SlabList>()
            + size_of::<BlockLayout>()
            + 2 * size_of::<FrameLayout>()
            + size_of::<RuntimeLayout>()
            + size_of::<WorkerLayout>()
            + size_of::<HeldLayout>()
            + size_of::<ThreadWaitsLayout>();
        assert_eq!(size_of::<Table>(), 8 + 2 * 4 + 2 * words + parts + 8);
    }
}
