//! A client that outlives its server.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use daiko::shm::CallError;

use crate::client::{Kv, KvError};
use crate::problem::Problem;
use crate::protocol::Refusal;

/// How often it asks.
const PERIOD: Duration = Duration::from_millis(100);

/// Calls `each` with the value of `key` whenever it is another one. While nobody serves, it waits for a server.
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
                // Nobody is left to tell if standard error is closed.
                let _ = writeln!(io::stderr(), "shm-kv: {error}");
                reconnect(name, &mut kv)?;
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(PERIOD);
    }
}

/// Whether it may go better next time. Of a `get` it does not matter whether it was carried out; who wants to ask for an
/// `incr` again looks at [`CallError::was_not_carried_out`], too.
fn may_ask_again(error: &CallError) -> bool {
    matches!(error, CallError::NotServed | CallError::ServerDied | CallError::TimedOut { .. })
}

/// Waits for a server. One that takes over from a killed one does so in the same segment, where the same client goes on;
/// one that was stopped has removed the segment, so its name is looked up again.
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
