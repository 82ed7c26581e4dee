//! A program in a process that ends together with this process.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use daiko_sys::process::PidFd;

use super::programs::{Program, ProgramBody, ProgramRun, Reports};
use crate::kit::{Failure, Fork, OrFailure};

/// Number of reports of the time of a step of which the median counts.
const REPORTS: usize = 3;

/// A program that has prepared, and runs until it is dropped.
pub(in crate::experiments) struct Running {
    process: Fork,
    end: PidFd,
    reports: BufReader<PipeReader>,
    /// The process that works, if it is another one.
    worker: Option<u32>,
}

impl Running {
    /// Starts `program`, and waits until it has prepared.
    ///
    /// # Errors
    /// Fails if the program ends before it has prepared, with the reason.
    pub(super) fn start(program: &Program) -> Result<Self, Failure> {
        match program.run {
            ProgramRun::Own { body, .. } => Self::start_own(program.name, body),
            ProgramRun::Installed { command, input } => Self::launch(program.name, false, |_| {
                let mut line = Command::new(command[0]);
                line.args(&command[1..]).stdin(File::open(input)?);
                Err(line.stdout(Stdio::null()).stderr(Stdio::null()).exec())
            }),
        }
    }

    /// Starts a program of the lab, as [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(super) fn start_own(name: &str, body: ProgramBody) -> Result<Self, Failure> {
        Self::launch(name, true, |reports| body(&mut Reports(reports)))
    }

    /// Starts a command that reports on its standard output, as [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(in crate::experiments) fn start_command(
        name: &str,
        command: &mut Command,
    ) -> Result<Self, Failure> {
        Self::launch(name, true, |reports| {
            let command = command.stdin(Stdio::null()).stdout(reports.try_clone()?);
            Err(command.stderr(Stdio::null()).exec())
        })
    }

    /// Runs `body` in a process. A program that reports says `ready` at first, and the id of the
    /// process that works, if that is another one; then the time of a step, in nanoseconds, again
    /// and again. Any other program closes the pipe when it starts.
    fn launch(
        name: &str,
        has_reports: bool,
        body: impl FnOnce(&PipeWriter) -> io::Result<Infallible>,
    ) -> Result<Self, Failure> {
        let refused = format!("cannot start {name}");
        let (reports, writer) = io::pipe().or_limit(&refused)?;
        let mut process = Fork::start(name, || body(&writer))?;
        drop(writer);
        let end = PidFd::open(process.pid()).or_limit(&refused)?;
        let (mut reports, mut ready) = (BufReader::new(reports), String::new());
        let says_so = reports.read_line(&mut ready).is_ok_and(|len| len > 0);
        if !says_so && has_reports {
            // The process ends a little later than its end of the pipe.
            process.wait().or_limit(&refused)?;
        }
        let worker = ready.split_whitespace().nth(1).and_then(|id| id.parse().ok());
        let running = Self { process, end, reports, worker };
        running.check_running()?;
        Ok(running)
    }

    /// The process that works.
    pub(in crate::experiments) fn pid(&self) -> u32 {
        self.worker.unwrap_or(self.process.pid())
    }

    /// The thread that has used the most CPU time.
    pub(in crate::experiments) fn busiest_thread(&self) -> u32 {
        let cpu_ns = |thread: &u32| {
            let file = format!("/proc/{}/task/{thread}/schedstat", self.pid());
            let line = fs::read_to_string(file).unwrap_or_default();
            line.split(' ').next().and_then(|ns| ns.parse::<u64>().ok())
        };
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten();
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        ids.max_by_key(cpu_ns).unwrap_or(self.pid())
    }

    /// The CPU time of a step in nanoseconds, as the program reports it.
    ///
    /// # Errors
    /// Fails with the reason if the program has ended.
    pub(in crate::experiments) fn step_ns(&mut self) -> Result<f64, Failure> {
        let mut times = Vec::new();
        while times.len() < REPORTS {
            let mut line = String::new();
            let len = self.reports.read_line(&mut line).or_broken("no report of a program")?;
            if len == 0 {
                self.process.wait().or_limit("cannot wait for a program")?;
                self.check_running()?;
            }
            times.extend(line.trim().parse::<f64>().ok().filter(|time| *time > 0.0));
        }
        times.sort_by(f64::total_cmp);
        Ok(times[REPORTS / 2])
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// Fails with the reason if the program has ended.
    pub(in crate::experiments) fn check_running(&self) -> Result<(), Failure> {
        if !self.end.has_ended() {
            return Ok(());
        }
        let why = self.process.complaint().map_or("ended early".into(), |error| error.to_string());
        Err(Failure::Broken(format!("the program: {why}")))
    }
}
