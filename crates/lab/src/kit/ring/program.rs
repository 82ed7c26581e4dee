//! Rings in other languages: a small program gets the ring and answers with its time.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::RingOutcome;
use super::part::START;
use crate::kit::driver::{Driver, Toolchain, say, words};
use crate::kit::{Failure, Skip};

/// The first datum of a correct ring.
pub(crate) const FIRST: u64 = START + 1;

/// A goroutine and a channel per thread.
pub(crate) static GO: Driver =
    Driver::new(&[("ring.go", include_str!("../../../drivers/ring.go"))], find_go);

/// The arguments of such a program.
pub(crate) fn arguments(
    threads: usize,
    laps: u64,
    workers: usize,
    limit: Duration,
    first: u64,
) -> [String; 5] {
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    [threads as u64, laps, workers as u64, limit, first].map(|number| number.to_string())
}

/// The input of such a program.
pub(crate) fn input(successors: &[u32]) -> String {
    successors.iter().map(u32::to_string).collect::<Vec<_>>().join("\n")
}

/// Parses the answer: "elapsed_ns laps" and possibly "cpu_ns", or with status 3 "expected found".
pub fn read_reply(reply: &str, status: ExitStatus) -> Result<RingOutcome, Failure> {
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match (status.code(), numbers.as_slice()) {
        (Some(0), &[elapsed, laps, ref rest @ ..]) if rest.len() <= 1 => Ok(RingOutcome {
            elapsed: Duration::from_nanos(elapsed),
            laps,
            cpu: rest.first().copied().map(Duration::from_nanos),
        }),
        (Some(3), &[expected, found]) => Err(Failure::WrongDatum { expected, found }),
        _ => Err(Failure::Broken(format!("the driver ended with {status} and said {reply:?}"))),
    }
}

/// Finds the compiler of Go.
pub(crate) fn find_go() -> Result<Toolchain, Skip> {
    let usual = PathBuf::from("/usr/local/go/bin/go");
    let program = if usual.exists() && say(Path::new("go"), &["version"], "").is_none() {
        usual
    } else {
        PathBuf::from("go")
    };
    let version = say(&program, &["version"], "")
        .ok_or_else(|| Skip::without("not installed", "golang-go"))?;
    Ok(Toolchain {
        program,
        before: words("build -trimpath"),
        // The program needs no downloads.
        variables: vec![("GOTOOLCHAIN".into(), "local".into()), ("GOWORK".into(), "off".into())],
        version,
        ..Toolchain::default()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn reading(reply: &str, code: i32) -> Result<RingOutcome, Failure> {
        read_reply(reply, ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn an_answer_is_an_outcome() {
        let outcome = RingOutcome { elapsed: Duration::from_nanos(1500), laps: 3, cpu: None };
        assert_eq!(reading("1500 3\n", 0), Ok(outcome));
        let with_cpu = RingOutcome { cpu: Some(Duration::from_nanos(1700)), ..outcome };
        assert_eq!(reading("1500 3 1700\n", 0), Ok(with_cpu));
    }

    #[test]
    fn status_three_is_a_wrong_datum() {
        assert_eq!(reading("4 74\n", 3), Err(Failure::WrongDatum { expected: 4, found: 74 }));
    }

    #[test]
    fn anything_else_is_told() {
        for (reply, code) in [("", 0), ("1500", 0), ("1500 3", 1), ("1 2 3 4", 0), ("x y", 0)] {
            assert!(matches!(reading(reply, code), Err(Failure::Broken(_))), "{reply:?} {code}");
        }
    }
}
