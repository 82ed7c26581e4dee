//! A client that outlives its server.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use daiko::shm::CallError;

use crate::client::{Kv, KvError};
use crate::problem::Problem;
use crate::protocol::Refusal;

/// The period of its requests.
const PERIOD: Duration = Duration::from_millis(100);

/// Calls `each` with the value of `key` whenever it has changed. While there is no server, it waits
/// for one.
pub(crate) fn run(
    name: &OsStr,
    key: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut kv = Kv::connect(name)?;
    let mut seen = None;
    loop {
        match kv.get(key) {
            Ok(value) if seen.as_ref() == Some(&value) => {}
            Ok(value) => {
                each(&value)?;
                seen = Some(value);
            }
            Err(KvError::Refused(Refusal::NoKey)) => seen = None,
            Err(KvError::Call(error)) if may_ask_again(&error) => {
                // If standard error is closed, there is no place for a message.
                let _ = writeln!(io::stderr(), "shm-kv: {error}");
                reconnect(name, &mut kv)?;
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(PERIOD);
    }
}

/// Whether a repetition may succeed. A `get` may be repeated even if it was carried out. Before it
/// repeats an `incr`, a client also checks [`CallError::was_not_carried_out`].
fn may_ask_again(error: &CallError) -> bool {
    matches!(error, CallError::NotServed | CallError::ServerDied | CallError::TimedOut { .. })
}

/// Waits for a server. A server that takes over from a killed server uses the same segment, and the
/// same client. A stopped server has removed the segment, so the name is looked up again.
fn reconnect(name: &OsStr, kv: &mut Kv) -> Result<(), KvError> {
    loop {
        match kv.wait_served(PERIOD) {
            Err(KvError::Call(CallError::TimedOut { .. })) => {}
            outcome => return outcome,
        }
        if kv.is_removed()?
            && let Ok(another) = Kv::connect(name)
        {
            *kv = another;
        }
    }
}
