//! One run of a test program.
//!
//! The program leads a session of its own, in an empty temporary folder that is also its `TMPDIR`,
//! without input and with the default action of every signal. All processes of the session are
//! killed at its end, or when the limit is over.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use daiko_sys::process::{PidFd, die_with_parent};
use daiko_sys::selector::{Interest, wait_for};

use crate::expected::Workers;
use crate::outcomes::Outcome;
use crate::signals::with_default_signals;
use crate::suite::Test;
use crate::verdict::Verdict;

/// The variable that tells the command its number of workers.
const WORKERS: &str = "DAIKO_WORKERS";
/// The bytes at the end of the output that are searched for the last line.
const TAIL: u64 = 4096;
/// The most characters of the last line that are shown.
const SHOWN: usize = 200;

/// A command that programs run under, and one of its configurations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Under<'a> {
    /// The program, with an absolute path or without a slash, and its first arguments.
    pub(crate) command: &'a [OsString],
    pub(crate) workers: Workers,
}

/// Runs a test, natively or under a command.
pub(crate) fn run(
    test: &Test,
    under: Option<Under<'_>>,
    limit: Duration,
) -> Result<Outcome, String> {
    let failed = |what: &str, error: io::Error| {
        format!("cannot {what} for {}: {error}; free disk space, memory or processes", test.name)
    };
    let scratch = tempfile::tempdir().map_err(|error| failed("make a temporary folder", error))?;
    let folder = scratch.path().join("empty");
    fs::create_dir(&folder).map_err(|error| failed("make a temporary folder", error))?;
    let mut output = File::create_new(scratch.path().join("output"))
        .map_err(|error| failed("make a file for the output", error))?;
    let mut command = command(test, under, &folder);
    let program = command.get_program().to_string_lossy().into_owned();
    let start = |command: &mut Command| {
        let stdio = || output.try_clone().map(Stdio::from);
        command.stdin(Stdio::null()).stdout(stdio()?).stderr(stdio()?).spawn()
    };
    let child = start(&mut command).map_err(|error| {
        format!("cannot start {program}: {error}; make it a program of this machine")
    })?;
    let verdict = wait(child, test, limit).map_err(|error| failed("wait for the end", error))?;
    let last_line = last_line(&mut output).map_err(|error| failed("read the output", error))?;
    Ok(Outcome { verdict, last_line })
}

fn command(test: &Test, under: Option<Under<'_>>, folder: &Path) -> Command {
    let mut command = match under {
        None => Command::new(&test.program),
        Some(Under { command, workers }) => {
            let (program, arguments) = command.split_first().expect("a command has a program");
            let mut command = Command::new(program);
            command.args(arguments).arg(&test.program).env(WORKERS, workers.0.to_string());
            command
        }
    };
    command.current_dir(folder).env("TMPDIR", folder);
    let parent = std::process::id();
    // SAFETY: the closure only makes system calls; it uses no allocator and no locks.
    unsafe {
        command.pre_exec(move || {
            die_with_parent(parent)?;
            start_session()?;
            forbid_core_dumps()
        });
    }
    with_default_signals(&mut command);
    command
}

fn start_session() -> io::Result<()> {
    // SAFETY: takes no argument.
    checked(unsafe { libc::setsid() })
}

/// A suite has hundreds of programs, and some of them abort.
fn forbid_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads the live local only.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for the end of a child, or for the limit, and kills its session.
fn wait(mut child: Child, test: &Test, limit: Duration) -> io::Result<Verdict> {
    let has_ended = PidFd::open(child.id())
        .map_err(io::Error::other)
        .and_then(|process| await_end(&process, limit));
    // The child is not reaped yet, so no other session has its id.
    kill_session(child.id());
    // Ends the program even without /proc.
    child.kill()?;
    let status = child.wait()?;
    Ok(if has_ended? { Verdict::of(test.family, status) } else { Verdict::Hung })
}

/// Returns true if the process ended within the limit.
fn await_end(process: &PidFd, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    while !process.has_ended() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        wait_for(process.as_fd(), Interest::READ, Some(left))?;
    }
    Ok(true)
}

/// Kills all processes of a session, among them those that left the group of its leader.
///
/// A process may fork while the list is read. The list is therefore read again until it has no
/// further process.
fn kill_session(session: u32) {
    let mut killed = Vec::new();
    loop {
        let found = members(session);
        let alive: Vec<u32> = found.into_iter().filter(|pid| !killed.contains(pid)).collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            // SAFETY: takes plain integers.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
            killed.push(pid);
        }
    }
}

/// Returns the processes of a session.
fn members(session: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        session_of(&String::from_utf8_lossy(&stat)) == Some(session)
    })
    .collect()
}

/// Returns the session in the text of `/proc/PID/stat`. The name of the program, which may contain
/// spaces and parentheses, comes before.
fn session_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(3)?.parse().ok()
}

fn last_line(output: &mut File) -> io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    output.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    output.take(TAIL).read_to_end(&mut tail)?;
    Ok(shown(&String::from_utf8_lossy(&tail)))
}

/// Returns the last line of a text that is not blank, without control characters.
fn shown(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|character| !character.is_control()).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_behind_any_name_of_a_program() {
        for name in ["sh", "a b", "a) b (c", ") S 1 2 3"] {
            let stat = format!("17 ({name}) S 16 15 14 0 -1 4194560\n");
            assert_eq!(session_of(&stat), Some(14), "{name}");
        }
        assert_eq!(session_of(""), None);
    }

    #[test]
    fn the_last_line_is_shown_without_blank_lines_and_control_characters() {
        assert_eq!(shown("one\n\x1b[31mtwo\x1b[0m\r\n\n  \n"), "[31mtwo[0m");
        assert_eq!(shown("\n\n"), "");
        assert_eq!(shown(&"x".repeat(2 * SHOWN)).len(), SHOWN);
    }
}
