//! Lines of `sh` in a folder of their own, with a limit of their time.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use daiko_sys::process::{PidFd, TERMINATE, die_with_parent, wait_with_usage};
use tempfile::TempDir;

use crate::kit::children::ends_within;
use crate::kit::failure::last_line;
use crate::kit::{Failure, OrFailure, dropin, host};

/// A folder for lines, and their variables.
pub(super) struct LineFolder {
    folder: TempDir,
    variables: Vec<(&'static str, OsString)>,
    /// The end of the time of all lines.
    end: Instant,
    limit: Duration,
}

/// A line that runs. Its output is in the file of its name.
pub(super) struct RunningLine {
    name: &'static str,
    child: Child,
    held: PidFd,
    began: Instant,
}

/// A line that has ended well.
pub(super) struct LineEnd {
    pub(super) elapsed: Duration,
    /// CPU time of the process, and of its children that it has waited for.
    pub(super) cpu: Duration,
}

impl LineFolder {
    /// Makes a folder for lines that all together have the time `limit`.
    pub(super) fn new(
        variables: Vec<(&'static str, OsString)>,
        limit: Duration,
    ) -> Result<Self, Failure> {
        Ok(Self {
            folder: host::temporary_folder()?,
            variables,
            end: Instant::now() + limit,
            limit,
        })
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        fs::write(self.path(name), text).or_limit("no room in TMPDIR")
    }

    /// Starts a line. It stays in the process group of the sample, which the runner kills.
    pub(super) fn start(&self, name: &'static str, line: &str) -> Result<RunningLine, Failure> {
        self.start_on(Stdio::null(), name, line)
    }

    fn start_on(
        &self,
        input: Stdio,
        name: &'static str,
        line: &str,
    ) -> Result<RunningLine, Failure> {
        let parent = std::process::id();
        let file = |name: &str| File::create(self.path(name)).or_limit("no room in TMPDIR");
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).stdin(input);
        command.stdout(file(name)?).stderr(file(&errors_of(name))?);
        for name in dropin::FOREIGN {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().cloned());
        // SAFETY: the closure only makes system calls; it uses no allocator and no locks.
        unsafe { command.pre_exec(move || die_with_parent(parent)) };
        let began = Instant::now();
        let child = command.spawn().or_broken("sh")?;
        let held = PidFd::open(child.id()).or_broken("sh")?;
        Ok(RunningLine { name, child, held, began })
    }

    /// Runs a line to its end.
    pub(super) fn run(&self, name: &'static str, line: &str) -> Result<LineEnd, Failure> {
        self.wait(self.start(name, line)?)
    }

    /// Runs a line that reads the output of the line `from`.
    pub(super) fn run_on(
        &self,
        from: &str,
        name: &'static str,
        line: &str,
    ) -> Result<LineEnd, Failure> {
        let input = File::open(self.path(from)).or_broken(from)?;
        self.wait(self.start_on(input.into(), name, line)?)
    }

    /// Waits for the end of a line, which has to be a success.
    pub(super) fn wait(&self, line: RunningLine) -> Result<LineEnd, Failure> {
        let RunningLine { name, child, held, began } = line;
        let longest = self.end.saturating_duration_since(Instant::now());
        if !ends_within(&held, longest).or_broken("poll")? {
            let seconds = self.limit.as_secs();
            let line = format!("the {name} has not ended within the sample's {seconds} s");
            return Err(Failure::Broken(line));
        }
        let elapsed = began.elapsed();
        let (status, cpu) = wait_with_usage(child).or_broken("wait4")?;
        if status.success() { Ok(LineEnd { elapsed, cpu }) } else { Err(self.failed(name, status)) }
    }

    fn failed(&self, name: &str, status: ExitStatus) -> Failure {
        let [errors, output] = [self.text(&errors_of(name)), self.text(name)];
        let said =
            [errors, output].iter().map(|text| last_line(text)).find(|line| !line.is_empty());
        let said = said.map_or(String::new(), |line| format!(": {line}"));
        Failure::Broken(format!("the {name} ended with {status}{said}"))
    }

    /// The text that the line of that `name` has written: its errors, and its output.
    pub(super) fn said(&self, name: &str) -> Vec<u8> {
        [self.text(&errors_of(name)), self.text(name)].join(&b'\n')
    }

    /// The contents of a file, or nothing if there is none.
    pub(super) fn text(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_default()
    }

    /// Whether the time of all lines is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl RunningLine {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.held.has_ended()
    }

    /// Asks the process to end.
    pub(super) fn stop(&self) -> Result<(), Failure> {
        self.held.send(TERMINATE).or_broken("cannot end the server")
    }
}

/// The file for errors of a line.
fn errors_of(name: &str) -> String {
    format!("{name}.errors")
}
