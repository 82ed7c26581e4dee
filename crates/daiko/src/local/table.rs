//! The table of one fiber's locals.
//!
//! It comes from the runtime's arena, as the values do. The control block points to it, and is null
//! as long as the fiber has none. The key of a local is the address of its static, which is the
//! same in all processes of an image; dense indices would differ between the processes.

use std::alloc::Layout;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use daiko_sys::memory::MemoryError;

use daiko_rt::call::{self, Call, InCall};
use daiko_rt::fiber::{ControlBlock, FiberData};

/// The number of buckets of a fiber's first table, as a power of two.
const FIRST_BITS: u32 = 2;

/// A hash table with open addressing, at most half full; no key is removed while the fiber lives.
#[repr(C)]
struct LocalTable {
    /// The fiber's pointer leads here.
    data: FiberData,
    /// The number of buckets, as a power of two.
    bits: u32,
    used: u32,
    /// The local that was initialised last, and has not been dropped.
    newest: *mut Header,
    // The buckets follow in memory.
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Address of the static, or 0 if the bucket is free.
    key: usize,
    /// Null once the value is dropped, or about to be.
    value: *mut Header,
}

/// Data of a value that the end of a fiber needs.
struct Header {
    key: usize,
    /// The value that was initialised before.
    older: *mut Header,
    layout: Layout,
    drop: unsafe fn(NonNull<Header>),
}

#[repr(C)]
struct LocalValue<T> {
    header: Header,
    value: T,
}

impl<T> LocalValue<T> {
    /// # Safety
    ///
    /// `this` is the header of a `Self`, which is not used afterwards.
    unsafe fn drop(this: NonNull<Header>) {
        // SAFETY: by this function's contract; the header comes first.
        unsafe { (&raw mut (*this.cast::<Self>().as_ptr()).value).drop_in_place() }
    }
}

/// The state of a fiber's value under a key.
pub(super) enum LocalState<T> {
    Value(NonNull<T>),
    /// No value yet.
    Nothing,
    /// The value is dropped, or about to be.
    Dropped,
}

/// Finds the value under `key` of `fiber`, the caller. It stays in place while the fiber's closure
/// runs, and until its own destructor runs.
///
/// # Safety
///
/// Values under `key` are of type `T`.
#[inline]
pub(super) unsafe fn find<T>(fiber: &ControlBlock, key: usize) -> LocalState<T> {
    let Some(table) = LocalTable::of(fiber) else { return LocalState::Nothing };
    // SAFETY: the fiber's own table, which only the fiber uses.
    let bucket = unsafe { LocalTable::bucket(table, key).read() };
    match NonNull::new(bucket.value) {
        // SAFETY: listed values are alive, and of that type by this function's contract.
        Some(header) => LocalState::Value(unsafe {
            NonNull::new_unchecked(&raw mut (*header.cast::<LocalValue<T>>().as_ptr()).value)
        }),
        None if bucket.key == 0 => LocalState::Nothing,
        None => LocalState::Dropped,
    }
}

/// Inserts `value` under `key` for `fiber`, the caller, which has none there.
///
/// # Safety
///
/// Values under `key` are of type `T`; `find` found nothing.
///
/// # Panics
///
/// If there is no memory.
#[cold]
pub(super) unsafe fn insert<T>(fiber: &ControlBlock, key: usize, value: T) -> NonNull<T> {
    let call = Call::enter();
    let call = call.token();
    let layout = Layout::new::<LocalValue<T>>();
    let table = room_for_one(call, fiber).unwrap_or_else(no_memory);
    let memory = allocate(call, fiber, layout).unwrap_or_else(no_memory).cast::<LocalValue<T>>();
    // SAFETY: the table is the fiber's own, and the memory new, with room for the value.
    unsafe {
        let older = (*table.as_ptr()).newest;
        memory.write(LocalValue {
            header: Header { key, older, layout, drop: LocalValue::<T>::drop },
            value,
        });
        (*table.as_ptr()).newest = memory.as_ptr().cast();
        (*table.as_ptr()).used += 1;
        LocalTable::bucket(table, key).write(Bucket { key, value: memory.as_ptr().cast() });
        NonNull::new_unchecked(&raw mut (*memory.as_ptr()).value)
    }
}

/// Drops the locals of `fiber`, the caller, which has ended: the newest first, including locals
/// that destructors initialise.
///
/// As in an unwinding, destructors are not cancelled. A panic ends with its destructor.
#[cold]
fn end(call: InCall<'_>, fiber: &ControlBlock) {
    fiber.flags.shield(|| {
        while let Some(value) = take_newest(fiber) {
            // SAFETY: its drop is called once, and no lookup finds it any more.
            let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
                (value.as_ref().drop)(value);
            }));
            if let Err(payload) = dropped {
                std::mem::forget(payload);
            }
            // SAFETY: from that arena, with that layout, and dropped.
            unsafe { free(call, fiber, value.cast(), value.as_ref().layout) };
        }
    });
    let table = fiber.locals.replace(ptr::null_mut());
    if let Some(table) = NonNull::new(table.cast()) {
        // SAFETY: the fiber's own, and not used any more.
        unsafe { LocalTable::free(call, fiber, table) };
    }
}

/// Takes the newest value out of the table of `fiber`: its key leads to no value from here on.
fn take_newest(fiber: &ControlBlock) -> Option<NonNull<Header>> {
    let table = LocalTable::of(fiber)?;
    // SAFETY: the fiber's own table and values, which only the fiber uses.
    unsafe {
        let newest = NonNull::new((*table.as_ptr()).newest)?;
        (*table.as_ptr()).newest = newest.as_ref().older;
        (*LocalTable::bucket(table, newest.as_ref().key)).value = ptr::null_mut();
        Some(newest)
    }
}

/// Returns the table of `fiber`, with room for one more key.
fn room_for_one(
    call: InCall<'_>,
    fiber: &ControlBlock,
) -> Result<NonNull<LocalTable>, MemoryError> {
    let Some(old) = LocalTable::of(fiber) else {
        let table = LocalTable::new(call, fiber, FIRST_BITS)?;
        fiber.locals.set(table.as_ptr().cast());
        return Ok(table);
    };
    // SAFETY: the fiber's own table; the old one is not used any more once it is copied.
    unsafe {
        let (bits, used) = (old.as_ref().bits, old.as_ref().used);
        if 2 * used < 1 << bits {
            return Ok(old);
        }
        let table = LocalTable::new(call, fiber, bits + 1)?;
        LocalTable::copy(old, table);
        fiber.locals.set(table.as_ptr().cast());
        LocalTable::free(call, fiber, old);
        Ok(table)
    }
}

impl LocalTable {
    /// Returns the table of `fiber`, the caller, if it has one.
    #[inline]
    fn of(fiber: &ControlBlock) -> Option<NonNull<Self>> {
        NonNull::new(fiber.locals.get().cast())
    }

    fn layout(bits: u32) -> Layout {
        let buckets = Layout::array::<Bucket>(1 << bits).expect("below isize::MAX");
        Layout::new::<Self>().extend(buckets).expect("below isize::MAX").0
    }

    /// Creates an empty table.
    fn new(
        call: InCall<'_>,
        fiber: &ControlBlock,
        bits: u32,
    ) -> Result<NonNull<Self>, MemoryError> {
        let table = allocate(call, fiber, Self::layout(bits))?.cast::<Self>();
        // SAFETY: the memory is new, with room for the table and its buckets.
        unsafe {
            table.write(LocalTable {
                data: FiberData { end },
                bits,
                used: 0,
                newest: ptr::null_mut(),
            });
            for index in 0..1 << bits {
                let free = Bucket { key: 0, value: ptr::null_mut() };
                Self::buckets(table).add(index).write(free);
            }
        }
        Ok(table)
    }

    /// # Safety
    ///
    /// `table` is one of `fiber`, and not used afterwards.
    unsafe fn free(call: InCall<'_>, fiber: &ControlBlock, table: NonNull<Self>) {
        // SAFETY: `new` allocated it with this layout.
        unsafe { free(call, fiber, table.cast(), Self::layout(table.as_ref().bits)) };
    }

    /// # Safety
    ///
    /// `table` points to a table, as for the other functions.
    unsafe fn buckets(table: NonNull<Self>) -> *mut Bucket {
        const { assert!(size_of::<LocalTable>().is_multiple_of(align_of::<Bucket>())) };
        // SAFETY: they lie behind the table.
        unsafe { table.add(1) }.as_ptr().cast()
    }

    /// Returns the bucket of `key`, or the free one where it belongs.
    ///
    /// # Safety
    ///
    /// `table` points to a table.
    #[inline]
    unsafe fn bucket(table: NonNull<Self>, key: usize) -> *mut Bucket {
        // SAFETY: the index stays below the number of buckets, of which some are free.
        unsafe {
            let (buckets, bits) = (Self::buckets(table), table.as_ref().bits);
            let mut index = hash(key) >> (usize::BITS - bits);
            loop {
                let bucket = buckets.add(index);
                if (*bucket).key == key || (*bucket).key == 0 {
                    return bucket;
                }
                index = (index + 1) & ((1 << bits) - 1);
            }
        }
    }

    /// Copies all of `from` to `to`, which is empty and larger.
    ///
    /// # Safety
    ///
    /// Both point to tables.
    unsafe fn copy(from: NonNull<Self>, to: NonNull<Self>) {
        // SAFETY: by this function's contract.
        unsafe {
            (*to.as_ptr()).used = from.as_ref().used;
            (*to.as_ptr()).newest = from.as_ref().newest;
            for index in 0..1 << from.as_ref().bits {
                let bucket = Self::buckets(from).add(index).read();
                if bucket.key != 0 {
                    Self::bucket(to, bucket.key).write(bucket);
                }
            }
        }
    }
}

/// Hashes a key so that adjacent addresses spread: Knuth, volume 3, 6.4, by the golden ratio.
#[inline]
fn hash(key: usize) -> usize {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize)
}

fn no_memory<T>(error: MemoryError) -> T {
    call::unwinds();
    panic!("daiko: no memory for a fiber's local: {error}")
}

fn allocate(
    _: InCall<'_>,
    fiber: &ControlBlock,
    layout: Layout,
) -> Result<NonNull<u8>, MemoryError> {
    // SAFETY: the runtime outlives its fibers.
    unsafe { fiber.runtime.as_ref() }.pool.arena().alloc(layout)
}

/// # Safety
///
/// `memory` came from `allocate` of this fiber with this layout, and is not used any more.
unsafe fn free(_: InCall<'_>, fiber: &ControlBlock, memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the runtime outlives its fibers; for the rest, this function's contract.
    unsafe { fiber.runtime.as_ref().pool.arena().free(memory, layout) };
}
