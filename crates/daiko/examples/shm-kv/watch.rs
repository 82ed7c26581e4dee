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
                kv = reconnect(name);
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(PERIOD);
    }
}

/// Whether it may go better next time. Of a `get` it does not matter whether it was carried out; an `incr` would have
/// to be left alone after `ServerDied` and `TimedOut { taken: true }`.
fn may_ask_again(error: &CallError) -> bool {
    matches!(error, CallError::NotServed | CallError::ServerDied | CallError::TimedOut { .. })
}

/// Waits for a server. One that takes over from a killed one does so in the same segment, where the same client would
/// go on; one that was stopped has removed the segment, so its name is looked up again.
fn reconnect(name: &OsStr) -> Kv {
    loop {
        match Kv::connect(name) {
            Ok(kv) if kv.is_served() => return kv,
            _ => thread::sleep(PERIOD),
        }
    }
}
