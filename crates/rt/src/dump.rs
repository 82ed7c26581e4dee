//! Dumps: the fibers of the process as text, written by the process itself.

use std::io::{self, Write};
use std::sync::Mutex;

use daiko_core::inspect::{Listing, Reader};
use daiko_sys::process::ProcessMemory;
use daiko_sys::requests::SignalRequests;

use crate::inspect;
use crate::runtime::BuildError;
use crate::runtime::thread::start;

/// Writes the fibers of all runtimes of this process to `out`, as text: their number in each state,
/// and a line for each group of fibers that were spawned at one place and wait for one object.
///
/// Nothing stops: each fiber is seen at a moment of its own. Any thread may call it, at any time,
/// and from a fiber as well. The text is for people, and may change; `daiko ps` has more, with
/// stacks, and JSON for programs.
///
/// # Errors
///
/// Those of `out`, and `Unsupported` where the kernel refuses `process_vm_readv`(2), by which the
/// process reads its own memory.
///
/// ```
/// # use daiko_rt as daiko;
/// daiko::run(|| {
///     let parked = daiko::Builder::new().name("sleeper").spawn(daiko::park).unwrap();
///     while !daiko_text().contains("1 fiber parked: park") {
///         daiko::yield_now();
///     }
///     parked.fiber().unpark();
///     parked.join().unwrap();
/// });
///
/// fn daiko_text() -> String {
///     let mut text = Vec::new();
///     daiko::dump(&mut text).unwrap();
///     String::from_utf8(text).unwrap()
/// }
/// ```
pub fn dump(out: &mut dyn Write) -> io::Result<()> {
    let process = std::process::id();
    let reader = Reader::new(ProcessMemory { process }, inspect::table());
    let reader = reader.map_err(|refused| {
        io::Error::new(io::ErrorKind::Unsupported, format!("process_vm_readv: {refused}"))
    })?;
    let listing = Listing::read(&format!("process {process}"), &reader, |_| true);
    listing.write_head(out)?;
    listing.write_groups(out)
}

/// The variable that asks for dumps by a signal.
pub(crate) const VARIABLE: &str = "DAIKO_DUMP";

/// The signal that asks for a dump, SIGQUIT.
const SIGNAL: i32 = 3;

/// Starts a thread that writes a dump to standard error at each SIGQUIT, once for the process.
pub(crate) fn on_signal() -> Result<(), BuildError> {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if *is_started {
        return Ok(());
    }
    let requests = SignalRequests::take_over(SIGNAL).map_err(BuildError::DumpSignal)?;
    let requests = requests.ok_or_else(|| {
        BuildError::DumpSignal(io::Error::other("the program has a handler for it, or ignores it"))
    })?;
    *is_started = true;
    start("daiko-dump", || {
        while requests.wait() {
            let mut text = Vec::new();
            let dumped = dump(&mut text);
            let mut stderr = io::stderr().lock();
            // Standard error may be closed.
            let _ = match dumped {
                Ok(()) => stderr.write_all(&text),
                Err(error) => writeln!(stderr, "daiko: no dump: {error}"),
            };
        }
    })?;
    Ok(())
}
