//! Watched statics, in builds with debug assertions: a change in one process is seen by no other.

use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use daiko_sys::signal;

/// The maximum number of watched statics.
const MOST: usize = 64;

/// A static, and the checksum of its value when the workers were forked.
#[derive(Clone, Copy)]
struct Canary {
    value: &'static dyn SumOfBits,
    sum: u64,
    at: &'static Location<'static>,
}

/// Each process's own, as the statics are. Locked by its worker and by threads that register; never
/// by two processes.
static CANARIES: Mutex<([Option<Canary>; MOST], usize)> = Mutex::new(([None; MOST], 0));

/// A static that [`watch_static`] can watch: an atomic, or an array of atomics.
///
/// The runtime reads it while fibers may change it, which only atomics allow. A value behind a lock
/// can be watched by an atomic beside it that counts the changes.
pub trait SumOfBits: Sync + sealed::Watched {}

impl<T: Sync + sealed::Watched> SumOfBits for T {}

/// Watches a static in builds with debug assertions: if a fiber of a worker process changes it,
/// that is reported on standard error, once, when the next fiber comes into that process.
///
/// Each process has its own statics, so the other processes do not see such a change;
/// [`shared!`](crate::shared) declares a common static. Called before the runtime is built, at most
/// 64 times; other builds do nothing.
///
/// ```
/// # use daiko_rt as daiko;
/// use std::sync::atomic::{AtomicBool, AtomicU32};
///
/// static LIMIT: AtomicU32 = AtomicU32::new(7);
/// static SEEN: [AtomicBool; 16] = [const { AtomicBool::new(false) }; 16];
///
/// daiko::process::watch_static(&LIMIT);
/// daiko::process::watch_static(&SEEN);
/// ```
///
/// Other types are refused: another thread may change a value while it is read, and bytes between
/// fields may be uninitialised.
///
/// ```compile_fail,E0277
/// # use daiko_rt as daiko;
/// static TABLE: std::sync::Mutex<[u64; 8]> = std::sync::Mutex::new([0; 8]);
///
/// daiko::process::watch_static(&TABLE);
/// ```
///
/// ```compile_fail,E0277
/// # use daiko_rt as daiko;
/// static PAIR: (u8, u32) = (1, 2);
///
/// daiko::process::watch_static(&PAIR);
/// ```
#[track_caller]
pub fn watch_static<T: SumOfBits>(value: &'static T) {
    if cfg!(debug_assertions) {
        let (ref mut canaries, ref mut count) =
            *CANARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = canaries.get_mut(*count) {
            *free = Some(Canary { value, sum: sum(value), at: Location::caller() });
            *count += 1;
        }
    }
}

/// Notes the checksums of the statics, in a worker that was just forked.
pub(crate) fn note() {
    for_each(|canary| canary.sum = sum(canary.value));
}

/// Checks that the statics of worker process `index`, the caller, are unchanged.
#[inline]
pub(crate) fn check(index: u32) {
    if cfg!(debug_assertions) {
        for_each(|canary| {
            let now = sum(canary.value);
            if now != canary.sum {
                tell(canary.at, index);
                canary.sum = now;
            }
        });
    }
}

fn for_each(mut each: impl FnMut(&mut Canary)) {
    let (ref mut canaries, count) = *CANARIES.lock().unwrap_or_else(PoisonError::into_inner);
    canaries[..count].iter_mut().flatten().for_each(&mut each);
}

fn tell(at: &Location<'_>, index: u32) {
    let text = format!(
        "daiko: the static watched at {at} was changed in worker process {index}, which no other sees; declare it \
         by daiko::shared!\n"
    );
    signal::write_stderr(&[text.as_bytes()]);
}

fn sum(value: &dyn SumOfBits) -> u64 {
    value.sum(0xcbf2_9ce4_8422_2325)
}

mod sealed {

    use crate::atomic::{
        AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
        AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };

    pub trait Watched {
        /// Adds the value of the static to the `sum`, as FNV-1a does.
        #[doc(hidden)]
        fn sum(&self, sum: u64) -> u64;
    }

    macro_rules! atomics {
        ($($atomic:ident: $as_u64:expr,)+) => {
            $(impl Watched for $atomic {
                fn sum(&self, sum: u64) -> u64 {
                    // Relaxed: a change that it misses is seen at the next look.
                    add($as_u64(self.load(Ordering::Relaxed)), sum)
                }
            })+
        };
    }

    atomics! {
        AtomicBool: u64::from,
        AtomicU8: u64::from,
        AtomicU16: u64::from,
        AtomicU32: u64::from,
        AtomicU64: u64::from,
        AtomicUsize: |value| value as u64,
        AtomicI8: |value| value as u64,
        AtomicI16: |value| value as u64,
        AtomicI32: |value| value as u64,
        AtomicI64: |value| value as u64,
        AtomicIsize: |value| value as u64,
    }

    impl<T> Watched for AtomicPtr<T> {
        fn sum(&self, sum: u64) -> u64 {
            // Relaxed: as above.
            add(self.load(Ordering::Relaxed).addr() as u64, sum)
        }
    }

    impl<T: Watched, const N: usize> Watched for [T; N] {
        fn sum(&self, sum: u64) -> u64 {
            self.iter().fold(sum, |sum, value| value.sum(sum))
        }
    }

    fn add(value: u64, sum: u64) -> u64 {
        let byte = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        value.to_ne_bytes().into_iter().fold(sum, byte)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::atomic::{AtomicBool, AtomicI16, AtomicPtr, AtomicU64, Ordering};

    #[track_caller]
    fn is_seen<T: SumOfBits>(value: &T, change: impl Fn(&T)) {
        let before = sum(value);
        assert_eq!(sum(value), before);
        change(value);
        assert_ne!(sum(value), before);
    }

    #[test]
    fn each_change_is_seen() {
        is_seen(&AtomicBool::new(false), |value| value.store(true, Ordering::Relaxed));
        is_seen(&AtomicI16::new(1), |value| value.store(-1, Ordering::Relaxed));
        is_seen(&AtomicU64::new(1), |value| value.store(1 | 1 << 63, Ordering::Relaxed));
        is_seen(&AtomicPtr::new(&mut 1), |value| value.store(&mut 2, Ordering::Relaxed));
        let array = [const { [const { AtomicU64::new(0) }; 3] }; 2];
        is_seen(&array, |array| array[1][2].store(1, Ordering::Relaxed));
        is_seen(&array, |array| {
            array[1][2].store(0, Ordering::Relaxed);
            array[1][1].store(1, Ordering::Relaxed);
        });
    }
}
