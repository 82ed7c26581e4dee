//! Interrupts that end a command.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use daiko_sys::signal::is_ignored;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};

use crate::problem::Problem;

/// The exit code of shells for a command that an interrupt ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Time in which further interrupts are part of the first: `timeout` sends one to the command and
/// one to its group, closing a terminal sends two.
const BURST: Duration = Duration::from_secs(1);

/// Creates a flag that the first interrupt sets. A later one, after a second, ends the process at
/// once, except for SIGHUP. Under `nohup` SIGHUP stays ignored.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    watch(&stop, || ())?;
    Ok(stop)
}

/// Calls `act` at the first interrupt, on a thread of its own. Later interrupts are those of
/// [`stop_flag`].
pub(crate) fn at_interrupt(act: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    watch(&Arc::default(), act)
}

fn watch(stop: &Arc<AtomicBool>, act: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let ends = Arc::new(AtomicBool::new(false));
    register(stop, &ends, act)
        .map_err(|error| Problem::System(format!("cannot watch for interrupts: {error}")))
}

fn register(
    stop: &Arc<AtomicBool>,
    ends: &Arc<AtomicBool>,
    act: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(SIGHUP) {
            continue;
        }
        if signal != SIGHUP {
            flag::register_conditional_default(signal, Arc::clone(ends))?;
        }
        flag::register(signal, Arc::clone(stop))?;
        pipe::register(signal, writer.try_clone()?)?;
    }
    let ends = Arc::clone(ends);
    thread::Builder::new().name("interrupts".into()).spawn(move || {
        await_first(reader, act);
        // Relaxed: the flag publishes no other data.
        ends.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

/// Calls `act` at the first interrupt, and returns after its burst.
fn await_first(mut reader: UnixStream, act: impl FnOnce()) {
    // The handlers keep the other end open. An error leaves the flag as the only sign.
    if reader.read_exact(&mut [0]).is_ok() {
        act();
        thread::sleep(BURST);
    }
}
