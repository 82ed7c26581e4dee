//! One sample of an application.

use std::env;
use std::ffi::OsString;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::installed;
use super::line::{LineEnd, LineFolder, RunningLine};
use super::list::{App, AppKind};
use crate::kit::descendants::{self, Descendants};
use crate::kit::{Failure, OrFailure, Reading, Sample, Unit, dropin, files};

/// Names of lines, and of the files with their output.
const PREPARATION: &str = "preparation";
const APPLICATION: &str = "application";
const CHECK: &str = "check";
const SERVER: &str = "server";
const LOAD: &str = "load";
const RATE: &str = "rate";

/// Interval between two questions whether a server is ready.
const LOOK: Duration = Duration::from_millis(20);

/// A run of an application.
pub(super) struct AppRun<'a> {
    pub(super) app: &'a App,
    /// The command in front of it; empty for a native run.
    pub(super) command: String,
    pub(super) threads: Option<usize>,
    /// Units of work, or seconds.
    pub(super) amount: u64,
    /// The time of the whole sample, with its preparation.
    pub(super) limit: Duration,
}

/// The work done, and its cost.
struct WorkDone {
    units: f64,
    per_second: f64,
    elapsed: Duration,
    /// CPU time of the application, without that of its load.
    cpu: Duration,
}

impl AppRun<'_> {
    /// Runs the application once. All its processes have ended when this returns.
    ///
    /// # Errors
    /// Returns one line for the user.
    pub(super) fn sample(&self) -> Result<Sample, Failure> {
        files::allow(self.threads.unwrap_or_default())?;
        let folder = LineFolder::new(self.variables()?, self.limit)?;
        for (name, text) in self.app.files {
            folder.write(name, text)?;
        }
        // Dropped before the folder, which the processes write to.
        let _processes = Descendants::adopt().or_broken("cannot adopt orphans")?;
        folder.run(PREPARATION, self.app.prepare)?;
        self.work(&folder).map(|work| work.sample())
    }

    fn work(&self, folder: &LineFolder) -> Result<WorkDone, Failure> {
        match self.app.kind {
            AppKind::Batch { run, check } => {
                let LineEnd { elapsed, cpu } = self.run(folder, run)?;
                folder.run(CHECK, check).map_err(wrong_result)?;
                let units = self.amount as f64;
                Ok(WorkDone { units, per_second: units / elapsed.as_secs_f64(), elapsed, cpu })
            }
            AppKind::Rated { run, rate } => {
                let LineEnd { elapsed, cpu } = self.run(folder, run)?;
                let (units, per_second) = rated(folder, APPLICATION, rate)?;
                Ok(WorkDone { units, per_second, elapsed, cpu })
            }
            AppKind::Server { start, is_ready, fill, load, rate } => {
                let server = folder.start(SERVER, start)?;
                let loaded = await_ready(folder, &server, is_ready)
                    .and_then(|()| folder.run("filling", fill))
                    .and_then(|_| loaded(folder, &server, load))
                    .and_then(|(elapsed, cpu)| {
                        let (units, per_second) = rated(folder, LOAD, rate)?;
                        Ok(WorkDone { units, per_second, elapsed, cpu })
                    });
                // A server that has ended is the cause of other failures.
                match loaded {
                    Err(failure) if !server.has_ended() => return Err(failure),
                    Ok(_) if !server.has_ended() => server.stop()?,
                    _ => {}
                }
                folder.wait(server)?;
                self.check_workers(folder, SERVER)?;
                loaded
            }
        }
    }

    /// Runs an application that is no server.
    fn run(&self, folder: &LineFolder, line: &str) -> Result<LineEnd, Failure> {
        let end = folder.run(APPLICATION, line)?;
        self.check_workers(folder, APPLICATION)?;
        Ok(end)
    }

    /// Fails if the application should have run on workers, and has not.
    fn check_workers(&self, folder: &LineFolder, name: &str) -> Result<(), Failure> {
        if self.command.is_empty() { Ok(()) } else { dropin::check(&folder.said(name)) }
    }

    fn variables(&self) -> Result<Vec<(&'static str, OsString)>, Failure> {
        let path = env::join_paths(installed::folders()).or_broken("PATH")?;
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("RUN", (&self.command).into()),
            ("AMOUNT", self.amount.to_string().into()),
            ("PORT", free_port()?.to_string().into()),
            ("PATH", path),
            ("LC_ALL", "C".into()),
        ];
        variables.extend(self.threads.map(|threads| ("THREADS", threads.to_string().into())));
        if let Some(program) = self.app.program {
            variables.push(("PROGRAM", program.program()?.into()));
        }
        Ok(variables)
    }
}

impl WorkDone {
    fn sample(&self) -> Sample {
        let each = self.cpu.as_nanos() as f64 / self.units;
        Sample {
            rounds: self.units as u64,
            elapsed: self.elapsed,
            readings: vec![
                Reading::stat(Unit::PerSecond, "throughput", self.per_second),
                Reading::stat(Unit::Nanoseconds, "cpu", each),
            ],
        }
    }
}

fn wrong_result(failure: Failure) -> Failure {
    Failure::Broken(format!("another result than natively: {failure}"))
}

/// Waits until the server is ready, or has ended.
fn await_ready(folder: &LineFolder, server: &RunningLine, is_ready: &str) -> Result<(), Failure> {
    loop {
        match folder.run("question", is_ready) {
            Ok(_) => return Ok(()),
            Err(failure) if server.has_ended() || folder.is_over() => {
                return Err(Failure::Broken(format!("the server is not ready: {failure}")));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Runs the load. Returns its time, and the CPU time of the server meanwhile.
fn loaded(
    folder: &LineFolder,
    server: &RunningLine,
    load: &str,
) -> Result<(Duration, Duration), Failure> {
    let before = descendants::cpu_of_family(server.pid());
    let LineEnd { elapsed, .. } = folder.run(LOAD, load)?;
    let after = descendants::cpu_of_family(server.pid());
    Ok((elapsed, after.saturating_sub(before)))
}

/// Reads the number of units, and that per second, from the output of the line `from`.
fn rated(folder: &LineFolder, from: &str, rate: &str) -> Result<(f64, f64), Failure> {
    folder.run_on(from, RATE, rate)?;
    let text = String::from_utf8_lossy(&folder.text(RATE)).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [units, per_second] if units >= 1.0 && per_second > 0.0 && per_second.is_finite() => {
            Ok((units, per_second))
        }
        _ => Err(Failure::Broken(format!("no throughput in {:?}", text.trim()))),
    }
}

fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).or_limit("no free port")
}
