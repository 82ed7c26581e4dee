//! The conversation with a ring in another language.

use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use crate::experiments::ring::method::{RingOutcome, RingSpec};
use crate::kit::exchange::{Exchange, exchange};
use crate::kit::failure::last_line;
use crate::kit::ring::program::{arguments, input, read_reply};
use crate::kit::{Failure, OrFailure};

/// Time that a program may take for set-up, in addition to its limit.
const SET_UP: Duration = Duration::from_secs(30);

/// Runs a ring by the program of `command`. `first` is the first datum sent: [`FIRST`], unless a
/// test wants a wrong one. Also returns what the program wrote to its standard error.
pub(in crate::experiments::ring) fn run(
    mut command: Command,
    spec: &RingSpec,
    first: u64,
) -> Result<(RingOutcome, Vec<u8>), Failure> {
    let program = command.get_program().to_owned();
    command.args(arguments(spec.threads, spec.laps, spec.workers, spec.limit, first));
    let input = input(&spec.successors());
    let answer = exchange(command, input.as_bytes(), spec.limit + SET_UP);
    let Exchange { reply, errors, status } = answer.or_broken(program.display())?;
    // Passes the program's last words on, in case the sample fails because of them.
    let _ = io::stderr().write_all(&errors);
    match reply {
        Some(reply) if reply.is_empty() && !errors.is_empty() => {
            let told = last_line(&errors);
            Err(Failure::Broken(format!("the driver ended with {status} and said {told:?}")))
        }
        Some(reply) => {
            let outcome = read_reply(&String::from_utf8_lossy(&reply), status)?;
            Ok((outcome, errors))
        }
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
    use crate::testing::executable;

    #[test]
    fn the_last_words_of_a_program_without_an_answer_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("driver");
        executable::script("#!/bin/sh\necho 'no library' >&2\nexit 127\n", &program);
        let spec = crate::experiments::ring::kernel::harness::testing::ring(2, 1);
        let told = run(Command::new(&program), &spec, FIRST).unwrap_err().to_string();
        assert_eq!(told, "the driver ended with exit status: 127 and said \"no library\"");
    }

    #[test]
    fn a_program_that_does_not_start_is_told() {
        let spec = crate::experiments::ring::kernel::harness::testing::ring(2, 1);
        let result = run(Command::new("/nonexistent/ring"), &spec, FIRST);
        assert!(matches!(result, Err(Failure::Broken(_))), "{result:?}");
    }
}
