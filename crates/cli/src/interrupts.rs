//! Interrupts that end a command.

use std::sync::{Arc, atomic::AtomicBool};

use daiko_sys::signal::is_ignored;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use crate::problem::Problem;

/// The exit code of shells for a command that an interrupt ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Creates a flag that the first interrupt sets. A second one ends the process at once, except for
/// SIGHUP, as closing a terminal sends two of them. Under `nohup` SIGHUP stays ignored.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    let watch = |signal| flag::register(signal, Arc::clone(&stop));
    let ends = |signal| flag::register_conditional_default(signal, Arc::clone(&stop));
    // In this order: the first interrupt must find the flag unset.
    let interrupts = [SIGINT, SIGTERM].into_iter().try_for_each(|signal| {
        ends(signal)?;
        watch(signal).map(drop)
    });
    let hangup = || if is_ignored(SIGHUP) { Ok(()) } else { watch(SIGHUP).map(drop) };
    interrupts
        .and_then(|()| hangup())
        .map_err(|error| Problem::System(format!("cannot watch for interrupts: {error}")))?;
    Ok(stop)
}
