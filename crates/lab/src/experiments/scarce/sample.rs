//! One sample: the process under test, its quota, and the processes beside it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use daiko_sys::cgroup::MadeGroup;

use super::busy;
use super::control_group;
use super::method::Method;
use super::point::ScarceSpec;
use super::quota::{Limit, PERIOD, Way};
use crate::kit::ring::program::read_reply;
use crate::kit::{Failure, OrFailure, Processes, RingOutcome, Sample};

/// Time that the process under test may take for set-up, in addition to its limit. Less than the
/// runner allows.
const SET_UP: Duration = Duration::from_secs(20);
/// Interval between looks at the time, of a process that is not stopped.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the ring of `method` for `length`; without a lap in `limit` it fails.
pub(super) fn sample(
    method: &Method,
    spec: &ScarceSpec,
    length: Duration,
    limit: Duration,
) -> Result<Sample, Failure> {
    let body = method.prepare(spec, length, limit)?;
    let group = group(spec.limit)?;
    let _busy = busy::start(spec.busy)?;
    let reply = tempfile::tempfile().or_limit("no file in TMPDIR")?;
    // Dropped before the group, which has to be empty then.
    let mut process = Processes::default();
    let enter = || control_group::enter(group.as_ref());
    let forked = process.fork(|| told(&reply, enter().and_then(|()| body(&reply))));
    forked.or_limit("cannot start the process under test")?;
    let patience = limit + SET_UP;
    let status = end(&mut process, is_stopped(spec.limit), patience).or_broken("poll")?;
    match status.map_or(Ok(RingOutcome::default()), |status| outcome(&reply, status))? {
        RingOutcome { laps: 0, .. } => {
            Err(Failure::Limit(format!("no lap ended within {limit:?}")))
        }
        RingOutcome { laps, elapsed, .. } => {
            Ok(Sample::timed(laps, laps * spec.threads as u64, elapsed))
        }
    }
}

/// Makes the control group of a limit by one.
pub(super) fn group(limit: Option<Limit>) -> Result<Option<MadeGroup>, Failure> {
    let by_group = limit.filter(|limit| limit.way == Way::ControlGroup);
    Ok(by_group.map(|limit| control_group::with_quota(limit.quota)).transpose()?)
}

fn is_stopped(limit: Option<Limit>) -> bool {
    limit.is_some_and(|limit| limit.way == Way::Stops)
}

/// Writes the outcome for [`outcome`]. Returns whether that succeeded.
fn told(mut reply: &File, outcome: Result<RingOutcome, Failure>) -> bool {
    let text = serde_json::to_vec(&outcome);
    text.is_ok_and(|text| reply.write_all(&text).is_ok())
}

/// Reads what the process under test, or the program that it became, has written.
fn outcome(reply: &File, status: ExitStatus) -> Result<RingOutcome, Failure> {
    let mut text = vec![0; reply.metadata().map_or(0, |file| file.len() as usize)];
    reply.read_exact_at(&mut text, 0).or_broken("cannot read an answer")?;
    if text.is_empty() {
        return Err(Failure::Broken(format!("the process under test ended with {status}")));
    }
    match serde_json::from_slice(&text) {
        Ok(outcome) => outcome,
        Err(_) => read_reply(&String::from_utf8_lossy(&text), status),
    }
}

/// Waits for the end of the process, for `patience` at most, and stops it for a half of each period
/// if `is_stopped`. Returns `None` if it has not ended.
fn end(
    process: &mut Processes,
    is_stopped: bool,
    patience: Duration,
) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + patience;
    let runs = if is_stopped { PERIOD / 2 } else { LOOK };
    while Instant::now() < deadline {
        if process.first_ends_within(runs)? || is_stopped && ends_in_stop(process)? {
            return Ok(process.next_end()?.map(|(_, status)| status));
        }
    }
    Ok(None)
}

/// Stops the process for a half of a period. Returns true if it has ended before.
fn ends_in_stop(process: &Processes) -> io::Result<bool> {
    process.signal_first(libc::SIGSTOP);
    let has_ended = process.first_ends_within(PERIOD / 2);
    process.signal_first(libc::SIGCONT);
    has_ended
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn read(text: &str) -> Result<RingOutcome, Failure> {
        let mut reply = tempfile::tempfile().expect("a file");
        reply.write_all(text.as_bytes()).expect("a write");
        outcome(&reply, ExitStatus::from_raw(0))
    }

    #[test]
    fn an_answer_is_that_of_the_process_or_of_a_program() {
        let reply = tempfile::tempfile().expect("a file");
        let done = RingOutcome { elapsed: Duration::from_nanos(1500), laps: 3, cpu: None };
        for written in [Ok(done), Err(Failure::WrongDatum { expected: 4, found: 74 })] {
            reply.set_len(0).expect("an empty file");
            io::Seek::rewind(&mut &reply).expect("its start");
            assert!(told(&reply, written.clone()));
            assert_eq!(outcome(&reply, ExitStatus::from_raw(0)), written);
        }
        assert_eq!(read("1500 3\n"), Ok(done));
    }

    #[test]
    fn a_process_without_an_answer_is_told_with_its_end() {
        let failure = outcome(&tempfile::tempfile().expect("a file"), ExitStatus::from_raw(9));
        let line = failure.unwrap_err().to_string();
        assert!(line.starts_with("the process under test ended with signal: 9"), "{line}");
        assert!(matches!(read("nonsense"), Err(Failure::Broken(_))));
    }

    #[test]
    fn a_process_that_is_stopped_goes_on() {
        let mut process = Processes::default();
        let length = 4 * PERIOD;
        let body = || {
            let start = Instant::now();
            while start.elapsed() < length {}
            true
        };
        process.fork(body).expect("a process");
        let status = end(&mut process, true, Duration::from_secs(60)).expect("no error");
        assert!(status.expect("it has ended").success());
    }

    #[test]
    fn a_process_that_hangs_is_given_up() {
        let mut process = Processes::default();
        process
            .fork(|| {
                loop {
                    std::thread::park()
                }
            })
            .expect("a process");
        assert_eq!(end(&mut process, true, Duration::from_millis(1)).expect("no error"), None);
    }
}
