//! The words that fibers can wait for.

use daiko_core::watch::WatchValue;

use crate::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};

/// An atomic word that fibers can wait for: any atomic of `std`, of an integer, a `bool` or a
/// pointer.
///
/// In memory that another program writes, a word is an integer: only those are valid with any bits.
pub trait Word: Sync + sealed::Sealed {
    /// The type of its value.
    type Value: WatchValue<Atomic = Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! word {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Word for $atomic {
            type Value = $value;
        }

        impl sealed::Sealed for $atomic {}
    )*};
}

word!(
    AtomicU8: u8,
    AtomicU16: u16,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
    AtomicI8: i8,
    AtomicI16: i16,
    AtomicI32: i32,
    AtomicI64: i64,
    AtomicIsize: isize,
    AtomicBool: bool
);

impl<T> Word for AtomicPtr<T> {
    type Value = *mut T;
}

impl<T> sealed::Sealed for AtomicPtr<T> {}
