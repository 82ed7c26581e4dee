//! The conversation with a ring in another language.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::experiments::ring::method::{RingOutcome, RingSpec};
use crate::kit::exchange::{Exchange, exchange};
use crate::kit::ring::program::{arguments, input, read_reply};
use crate::kit::{Failure, OrFailure};

/// Time that a program may take for set-up, in addition to its limit.
const SET_UP: Duration = Duration::from_secs(30);

/// Runs a ring. `first` is the first datum sent: [`FIRST`], unless a test wants a wrong one.
pub(super) fn run(program: &Path, spec: &RingSpec, first: u64) -> Result<RingOutcome, Failure> {
    let mut command = Command::new(program);
    command.args(arguments(spec.threads, spec.laps, spec.workers, spec.limit, first));
    let input = input(&spec.successors());
    let answer = exchange(command, input.as_bytes(), spec.limit + SET_UP, None);
    let Exchange { reply, errors, status } = answer.or_broken(program.display())?;
    // Passes the program's last words on, in case the sample fails because of them.
    let _ = io::stderr().write_all(&errors);
    match reply {
        Some(reply) => read_reply(&String::from_utf8_lossy(&reply), status),
        None => Err(Failure::Broken(format!(
            "no answer within {:?} and {SET_UP:?} for set-up: ask for fewer threads",
            spec.limit
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::ring::program::FIRST;

    #[test]
    fn a_program_that_does_not_start_is_told() {
        let spec = crate::experiments::ring::kernel::harness::testing::ring(2, 1);
        let result = run(Path::new("/nonexistent/ring"), &spec, FIRST);
        assert!(matches!(result, Err(Failure::Broken(_))), "{result:?}");
    }
}
