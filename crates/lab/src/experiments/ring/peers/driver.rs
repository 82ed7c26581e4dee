//! Rings in other languages: a small program that is told the ring and answers with its time.

use std::{
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    experiments::ring::{Outcome, Spec, kernel::harness::part::START},
    kit::Failure,
};

/// Time that a program may take beside its limit, for set-up.
const SET_UP: Duration = Duration::from_secs(30);

/// Runs a ring. `first` is the first datum sent: [`START`] + 1, unless a wrong
/// one is wanted.
pub(super) fn run(program: &Path, spec: &Spec, first: u64) -> Result<Outcome, Failure> {
    let broken = |error: io::Error| Failure::Broken(format!("{}: {error}", program.display()));
    let mut child = start(program, spec, first).map_err(broken)?;
    let reply = converse(&mut child, spec);
    if !matches!(reply, Ok(Some(_))) {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
    }
    let status = child.wait().map_err(broken)?;
    match reply.map_err(broken)? {
        Some(reply) => read_reply(&reply, status),
        None => Err(Failure::Broken(format!(
            "no answer within {:?} and {SET_UP:?} for set-up: ask for fewer threads",
            spec.limit
        ))),
    }
}

fn start(program: &Path, spec: &Spec, first: u64) -> io::Result<Child> {
    let numbers =
        [spec.threads as u64, spec.laps, spec.workers as u64, nanoseconds(spec.limit), first];
    let mut command = Command::new(program);
    command.args(numbers.map(|number| number.to_string()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    // SAFETY: the closure makes one system call, without memory or locks.
    unsafe { command.pre_exec(die_with_parent) };
    command.spawn()
}

/// A ring that nobody waits for any more would use the CPUs for nobody.
fn die_with_parent() -> io::Result<()> {
    // SAFETY: sets an attribute of the calling process; no memory is passed.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells the successors and takes the answer; `None` if it does not come.
fn converse(child: &mut Child, spec: &Spec) -> io::Result<Option<String>> {
    let deadline = Instant::now() + spec.limit + SET_UP;
    let list: Vec<_> = spec.successor.iter().map(u32::to_string).collect();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    if let Some(mut stdin) = stdin {
        // A program that ends early closes the pipe; its status tells more.
        let _ = stdin.write_all(list.join("\n").as_bytes());
    }
    stdout.map_or(Ok(None), |stdout| answer(stdout, deadline))
}

/// All that comes until the pipe is closed, or `None` at `deadline`.
fn answer(mut stdout: ChildStdout, deadline: Instant) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    while wait_readable(&stdout, deadline)? {
        let mut part = [0; 256];
        match stdout.read(&mut part)? {
            0 => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    Ok(None)
}

/// False at `deadline`.
fn wait_readable(stdout: &ChildStdout, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let milliseconds = i32::try_from(left).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one entry, valid for reads and writes.
        match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
            0 => return Ok(false),
            ready if ready > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// What the answer means: "elapsed_ns laps", or with status 3 "expected found".
pub fn read_reply(reply: &str, status: ExitStatus) -> Result<Outcome, Failure> {
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match (status.code(), numbers.as_slice()) {
        (Some(0), &[elapsed, laps]) => Ok(Outcome { elapsed: Duration::from_nanos(elapsed), laps }),
        (Some(3), &[expected, found]) => Err(Failure::WrongDatum { expected, found }),
        _ => Err(Failure::Broken(format!("the driver ended with {status} and said {reply:?}"))),
    }
}

/// The first datum of a ring that is right.
pub(super) const FIRST: u64 = START + 1;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn reading(reply: &str, code: i32) -> Result<Outcome, Failure> {
        read_reply(reply, ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn an_answer_is_an_outcome() {
        let outcome = Outcome { elapsed: Duration::from_nanos(1500), laps: 3 };
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
