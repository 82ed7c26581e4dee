//! The reservation of process-worker mode for this program.

use std::io;
use std::time::Duration;

use daiko_sys::{lock, thread};

use super::error::ProcessError;
use super::heap::is_shared;
use super::mode::is_active;
use crate::deadlock;
use crate::notes;
use crate::runtime::RuntimeBuilder;

/// The reservation of process-worker mode. Dropping it, in the process that built the runtime, ends
/// the mode.
#[derive(Debug)]
pub(crate) struct Occupied(());

impl Drop for Occupied {
    fn drop(&mut self) {
        notes::end(notes::SECTIONS);
    }
}

/// Checks that a runtime with the settings of `builder` is possible, and reserves the mode. Returns
/// `None` if its workers are threads.
pub(crate) fn occupy(builder: &RuntimeBuilder) -> Result<Option<Occupied>, ProcessError> {
    if is_active() {
        return Err(ProcessError::Nested);
    }
    if !builder.has_processes() {
        return Ok(None);
    }
    if cfg!(daiko_sanitize) {
        return Err(ProcessError::Sanitizer);
    }
    let count = threads().map_err(ProcessError::Start)?;
    if count != 1 {
        return Err(ProcessError::Threads { count });
    }
    if !is_shared(&*Box::new(0_u8)) {
        return Err(ProcessError::NoSharedHeap);
    }
    if let Some(name) = builder.not_for_processes() {
        return Err(ProcessError::Option { name });
    }
    deadlock::track_no_more();
    // SAFETY: the crates of the runtime leak no guard, and the contract of `process_workers` keeps
    // the program from doing so.
    unsafe { lock::inherit_from_the_dead() };
    notes::begin(notes::SECTIONS);
    Ok(Some(Occupied(())))
}

/// Returns the number of threads. A thread that was joined may be counted for a moment: it is
/// waited for.
fn threads() -> io::Result<usize> {
    const LOOKS: u32 = 100;
    for _ in 1..LOOKS {
        if thread::all()?.len() == 1 {
            return Ok(1);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(thread::all()?.len())
}
