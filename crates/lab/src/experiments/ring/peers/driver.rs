//! Rings in other languages: a small program gets the ring and answers with its time.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::experiments::ring::kernel::harness::part::START;
use crate::experiments::ring::method::{RingOutcome, RingSpec};
use crate::kit::exchange::{Exchange, exchange};
use crate::kit::{Failure, OrFailure};

/// Time that a program may take for set-up, in addition to its limit.
const SET_UP: Duration = Duration::from_secs(30);

/// Runs a ring. `first` is the first datum sent: [`FIRST`], unless a test wants a wrong one.
pub(super) fn run(program: &Path, spec: &RingSpec, first: u64) -> Result<RingOutcome, Failure> {
    let limit = u64::try_from(spec.limit.as_nanos()).unwrap_or(u64::MAX);
    let numbers = [spec.threads as u64, spec.laps, spec.workers as u64, limit, first];
    let mut command = Command::new(program);
    command.args(numbers.map(|number| number.to_string()));
    let successors: Vec<_> = spec.successors().iter().map(u32::to_string).collect();
    let answer = exchange(command, successors.join("\n").as_bytes(), spec.limit + SET_UP);
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

/// Parses the answer: "elapsed_ns laps", or with status 3 "expected found".
pub fn read_reply(reply: &str, status: ExitStatus) -> Result<RingOutcome, Failure> {
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match (status.code(), numbers.as_slice()) {
        (Some(0), &[elapsed, laps]) => {
            Ok(RingOutcome { elapsed: Duration::from_nanos(elapsed), laps })
        }
        (Some(3), &[expected, found]) => Err(Failure::WrongDatum { expected, found }),
        _ => Err(Failure::Broken(format!("the driver ended with {status} and said {reply:?}"))),
    }
}

/// The first datum of a correct ring.
pub(super) const FIRST: u64 = START + 1;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn reading(reply: &str, code: i32) -> Result<RingOutcome, Failure> {
        read_reply(reply, ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn an_answer_is_an_outcome() {
        let outcome = RingOutcome { elapsed: Duration::from_nanos(1500), laps: 3 };
        assert_eq!(reading("1500 3\n", 0), Ok(outcome));
    }

    #[test]
    fn status_three_is_a_wrong_datum() {
        assert_eq!(reading("4 74\n", 3), Err(Failure::WrongDatum { expected: 4, found: 74 }));
    }

    #[test]
    fn anything_else_is_told() {
        for (reply, code) in [("", 0), ("1500", 0), ("1500 3", 1), ("x y", 0)] {
            assert!(matches!(reading(reply, code), Err(Failure::Broken(_))), "{reply:?} {code}");
        }
    }

    #[test]
    fn a_program_that_does_not_start_is_told() {
        let spec = crate::experiments::ring::kernel::harness::testing::ring(2, 1);
        let result = run(Path::new("/nonexistent/ring"), &spec, FIRST);
        assert!(matches!(result, Err(Failure::Broken(_))), "{result:?}");
    }
}
