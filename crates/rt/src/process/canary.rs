//! Statics that are watched, in builds with debug assertions: a change in one process is seen by no other.

use std::panic::Location;
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;

use daiko_sys::signal;

/// As many statics can be watched.
const MOST: usize = 64;

/// A static's bytes, and what they were when the workers were forked.
#[derive(Clone, Copy)]
struct Canary {
    start: usize,
    len: usize,
    sum: u64,
    at: &'static Location<'static>,
}

/// Each process's own, as the statics are. Locked by its worker and those who register; never by two processes.
static CANARIES: Mutex<([Option<Canary>; MOST], usize)> = Mutex::new(([None; MOST], 0));

/// Has builds with debug assertions watch a static: if a fiber of some worker process changes it, that is said on
/// standard error, once, when the next fiber comes into that process.
///
/// Statics are each process's own, so that such a change is lost on all others; [`shared!`](crate::shared) declares
/// one that is not. Called before the runtime is built, at most 64 times; other builds do nothing.
///
/// ```
/// # use daiko_rt as daiko;
/// static LIMIT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(7);
///
/// daiko::process::watch_static(&LIMIT);
/// ```
#[track_caller]
pub fn watch_static<T: ?Sized>(value: &'static T) {
    if cfg!(debug_assertions) {
        let (start, len) = (ptr::from_ref(value).addr(), size_of_val(value));
        let (ref mut canaries, ref mut count) =
            *CANARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = canaries.get_mut(*count) {
            ptr::from_ref(value).cast::<u8>().expose_provenance();
            *free = Some(Canary { start, len, sum: sum(start, len), at: Location::caller() });
            *count += 1;
        }
    }
}

/// Notes what the statics hold, in a worker that was just forked.
pub(crate) fn note() {
    for_each(|canary| canary.sum = sum(canary.start, canary.len));
}

/// Looks whether the statics of worker process `index`, the caller, are as they were.
#[inline]
pub(crate) fn check(index: u32) {
    if cfg!(debug_assertions) {
        for_each(|canary| {
            let now = sum(canary.start, canary.len);
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

/// FNV-1a of the bytes.
fn sum(start: usize, len: usize) -> u64 {
    let bytes = ptr::with_exposed_provenance::<u8>(start);
    (0..len).fold(0xcbf2_9ce4_8422_2325, |sum, at| {
        // SAFETY: the bytes of a static, which are there for ever, and which the loader has initialised, padding
        // included. Volatile: fibers change atomics among them meanwhile.
        let byte = unsafe { bytes.add(at).read_volatile() };
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
