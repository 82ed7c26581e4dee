//! Waits for words in memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use daiko::sync::TimedOut;
use daiko::time::Deadline;
use daiko::watch::{self, Condition, Word};
use libc::timespec;

use crate::answer::{answer, wait_as_fiber};
use crate::deadline;
use crate::life::{HeldRuntime, with_runtime};
use crate::pointer::{Code, OutPlace, Passed};

/// Returns the condition of this number: `DAIKO_CHANGED_FROM` and the rest.
fn condition<V>(number: u32, value: V) -> Result<Condition<V>, Code> {
    match number {
        0 => Ok(watch::changed_from(value)),
        1 => Ok(watch::equal(value)),
        2 => Ok(watch::at_least(value)),
        3 => Ok(watch::any_bit(value)),
        _ => Err(libc::EINVAL),
    }
}

/// The arguments of a wait.
struct Asked<'c, W: Word> {
    word: &'c Passed<W>,
    condition: u32,
    value: W::Value,
    until: &'c Passed<timespec>,
    seen: &'c OutPlace<W::Value>,
}

/// A wait of the Rust library.
type WaitFor<W, V> = fn(&W, Condition<V>, Deadline) -> Result<V, TimedOut>;

fn wait<W: Word>(asked: &Asked<'_, W>, wait: WaitFor<W, W::Value>) -> Result<(), Code> {
    let condition = condition(asked.condition, asked.value)?;
    let deadline = deadline::named_or_never(asked.until)?;
    let value = wait(asked.word.get()?, condition, deadline).map_err(|_| libc::ETIMEDOUT)?;
    asked.seen.put_if_wanted(value);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_u8(
    word: Passed<AtomicU8>,
    condition: u32,
    value: u8,
    until: Passed<timespec>,
    seen: OutPlace<u8>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_u16(
    word: Passed<AtomicU16>,
    condition: u32,
    value: u16,
    until: Passed<timespec>,
    seen: OutPlace<u16>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_u32(
    word: Passed<AtomicU32>,
    condition: u32,
    value: u32,
    until: Passed<timespec>,
    seen: OutPlace<u32>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_u64(
    word: Passed<AtomicU64>,
    condition: u32,
    value: u64,
    until: Passed<timespec>,
    seen: OutPlace<u64>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_ptr(
    word: Passed<AtomicPtr<c_void>>,
    condition: u32,
    value: *mut c_void,
    until: Passed<timespec>,
    seen: OutPlace<*mut c_void>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_told_u64(
    word: Passed<AtomicU64>,
    condition: u32,
    value: u64,
    until: Passed<timespec>,
    seen: OutPlace<u64>,
) -> Code {
    let asked = Asked { word: &word, condition, value, until: &until, seen: &seen };
    wait_as_fiber(|| wait(&asked, watch::wait_until_notified_timeout))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_watch_notify(
    runtime: Passed<HeldRuntime>,
    word: Passed<AtomicU64>,
    resumed: OutPlace<usize>,
) -> Code {
    answer(|| {
        let word = word.get()?;
        let count = with_runtime(&runtime, |inner| Ok(watch::notify_at(inner, word)))?;
        resumed.put_if_wanted(count);
        Ok(())
    })
}
