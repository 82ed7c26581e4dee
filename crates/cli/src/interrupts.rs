//! How a command is told to end.

use std::sync::{Arc, atomic::AtomicBool};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::problem::Problem;

/// What shells give for a command that an interrupt ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Set by the first interrupt; a second one ends the process at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first interrupt must find the flag unset.
        flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Problem::System(format!("cannot watch for interrupts: {error}")))?;
    }
    Ok(stop)
}
