//! The command line of `daiko pair`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use daiko_pair::Class;
use daiko_sys::cpu::CpuSet;

use crate::{problem::Problem, search::find};

/// The separator of commands.
const NEXT: &str = ":::";
/// Seconds of an hour: an older class says little.
const MOST_SECONDS: i64 = 3600;

/// Seconds for which a job is observed: a few looks at each thread.
const OBSERVED_SECONDS: i64 = 10;

/// Placement of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PairPolicy {
    /// Stalling threads beside computing threads, once there are more threads than cores
    Cross,
    /// Equal classes beside each other
    Parallel,
    /// One CPU of each core, its siblings idle
    #[value(name = "nosmt")]
    NoSmt,
    /// Cross if there are both classes and no fewer threads than CPUs; else a trial, if progress
    /// can be measured; else no change
    Auto,
}

/// The way in which threads get to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Means {
    /// Affinity masks
    Masks,
    /// Daiko's scheduler for the kernel (sched_ext), which needs root
    Schedule,
}

/// A parsed request of `daiko pair`.
#[derive(Debug, PartialEq, Eq)]
pub struct PairRequest {
    pub policy: PairPolicy,
    /// The means of placement; none: the scheduler where it can be had.
    pub by: Option<Means>,
    pub targets: Targets,
    pub cpus: Option<CpuSet>,
    /// Classes by the name or id of a thread or process.
    pub classes: BTreeMap<String, Class>,
    /// Files with counts maintained by programs, by the id of the process or the position of its
    /// command, from 1 on.
    pub progress: BTreeMap<u32, PathBuf>,
    /// Interval in seconds.
    pub interval: u64,
    /// The description of another machine, for tests.
    pub root: Option<PathBuf>,
}

/// A parsed request of `daiko pair --advise`.
#[derive(Debug, PartialEq, Eq)]
pub struct AdviceRequest {
    /// The job, with the options that it shares with a session.
    pub job: PairRequest,
    /// Duration of the observation.
    pub seconds: u64,
    /// True for JSON, false for text.
    pub json: bool,
}

/// The threads to watch.
#[derive(Debug, PartialEq, Eq)]
pub enum Targets {
    Processes(Vec<u32>),
    /// Program files with their words.
    Commands(Vec<(PathBuf, Vec<OsString>)>),
}

/// Place threads of other programs so that stalling threads share cores with computing threads
#[derive(Args)]
pub(crate) struct PairLine {
    /// Placement of threads
    #[arg(long, value_name = "NAME", value_enum, default_value_t = PairPolicy::Auto)]
    policy: PairPolicy,
    /// Means of placement [default: schedule where the kernel, the policy and permissions allow it]
    #[arg(long, value_name = "MEANS", value_enum, conflicts_with = "advise")]
    by: Option<Means>,
    /// Running processes, with all that they start, for example 1234,1240
    #[arg(long, value_name = "PID,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pid: Vec<u32>,
    /// Place on these CPUs only, for example 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// The class of the thread or process with this name or id: stall or compute; may be repeated
    #[arg(long, value_name = "NAME=CLASS")]
    class: Vec<String>,
    /// A file with a count in its first 8 bytes, maintained by a process, for trials. ID is the id
    /// of the process or the position of its command (1, 2, ..)
    #[arg(long, value_name = "ID=FILE")]
    progress: Vec<String>,
    /// Least seconds between observations, which are rarer if they would take more than half a
    /// percent of a CPU
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
    /// Place nothing, but tell at the end, on standard output, if this job gains from two threads
    /// on a core, and which partner suits it. Hardware counters, if used, are untried on hardware
    #[arg(long, conflicts_with = "policy")]
    advise: bool,
    /// Seconds to observe the job of --advise, before a trial of a few seconds [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "advise", value_parser = 1..=MOST_SECONDS)]
    seconds: Option<i64>,
    /// Print the advice as one line of JSON, for programs
    #[arg(long, requires = "advise")]
    json: bool,
    /// Undo the changes of killed sessions, and do nothing else
    #[arg(long, conflicts_with_all = ["pid", "commands", "cpus", "class", "progress", "advise"])]
    restore: bool,
    /// Siblings of a recorded machine, with the CPUs of this one
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Commands with ::: between them
    #[arg(last = true, value_name = "COMMAND")]
    commands: Vec<OsString>,
}

/// A request of `daiko pair`.
#[derive(Debug, PartialEq, Eq)]
pub enum PairCommand {
    Run(PairRequest),
    Advise(AdviceRequest),
    Restore,
}

impl PairLine {
    pub(crate) fn into_command(self) -> Result<PairCommand, Problem> {
        if self.restore {
            return Ok(PairCommand::Restore);
        }
        let targets = match (self.pid.is_empty(), self.commands.is_empty()) {
            (true, true) => {
                return Err(Problem::usage(
                    "nothing to pair: give -- COMMAND ::: COMMAND, or --pid PID,..; see daiko pair --help",
                ));
            }
            (false, false) => {
                return Err(Problem::usage("give commands or --pid, not both"));
            }
            (false, true) => Targets::Processes(self.pid),
            (true, false) => Targets::Commands(commands(&self.commands)?),
        };
        let cpus = self.cpus.as_deref().map(cpus).transpose()?;
        let request = PairRequest {
            policy: self.policy,
            by: self.by,
            targets,
            cpus,
            classes: self.class.iter().map(|text| class(text)).collect::<Result<_, _>>()?,
            progress: self.progress.iter().map(|text| progress(text)).collect::<Result<_, _>>()?,
            interval: self.interval.unsigned_abs(),
            root: self.root,
        };
        let seconds = self.seconds.unwrap_or(OBSERVED_SECONDS).unsigned_abs();
        Ok(match self.advise {
            true => PairCommand::Advise(AdviceRequest { job: request, seconds, json: self.json }),
            false => PairCommand::Run(request),
        })
    }
}

fn cpus(list: &str) -> Result<CpuSet, Problem> {
    list.parse()
        .ok()
        .filter(|cpus: &CpuSet| !cpus.is_empty())
        .ok_or_else(|| Problem::usage(format!("--cpus: '{list}' is no list of CPUs like 0-3,8")))
}

/// Parses `NAME=stall` or `NAME=compute`.
pub(crate) fn class(text: &str) -> Result<(String, Class), Problem> {
    let wrong =
        || Problem::usage(format!("--class: '{text}' is not like NAME=stall or NAME=compute"));
    let (name, class) =
        text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    match class {
        "stall" => Ok((name.to_owned(), Class::Stall)),
        "compute" => Ok((name.to_owned(), Class::Compute)),
        _ => Err(wrong()),
    }
}

fn progress(text: &str) -> Result<(u32, PathBuf), Problem> {
    let parts = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let parts =
        parts.and_then(|(subject, file)| Some((subject.parse().ok()?, PathBuf::from(file))));
    parts.ok_or_else(|| Problem::usage(format!("--progress: '{text}' is not like 1234=FILE")))
}

/// Looks up all commands before any is started.
fn commands(words: &[OsString]) -> Result<Vec<(PathBuf, Vec<OsString>)>, Problem> {
    words.split(|word| word == NEXT).map(command).collect()
}

fn command(words: &[OsString]) -> Result<(PathBuf, Vec<OsString>), Problem> {
    let name = words.first().ok_or_else(|| {
        Problem::usage(format!("a command is empty: give {NEXT} between two commands only"))
    })?;
    let program = find(Path::new(name)).ok_or_else(|| {
        let name = name.display();
        Problem::usage(format!("command not found: {name}; nothing was started"))
    })?;
    Ok((program, words.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_apart_and_found() {
        let words = ["true", "-x", NEXT, "/bin/sh", "-c", ":"].map(OsString::from);
        let found = commands(&words).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[0].0.ends_with("true") && found[0].0.is_absolute());
        assert_eq!(found[0].1, ["true", "-x"]);
        assert_eq!(
            found[1],
            ("/bin/sh".into(), ["/bin/sh", "-c", ":"].map(OsString::from).to_vec())
        );
    }

    #[test]
    fn a_malformed_command_is_refused() {
        for words in [
            &["true", NEXT][..],
            &[NEXT],
            &["true", NEXT, NEXT, "true"],
            &["/etc"],
            &["/etc/passwd"],
            &["", "x"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert!(commands(&words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_class_or_progress_names_its_process() {
        assert_eq!(class("a=b=stall").unwrap(), ("a=b".to_owned(), Class::Stall));
        assert_eq!(progress("7=/a=b").unwrap(), (7, "/a=b".into()));
        assert!(["stall", "=stall", "x=", "x=unknown"].iter().all(|text| class(text).is_err()));
        assert!(["x=/a", "7", "7=", "=/a", "-1=/a"].iter().all(|text| progress(text).is_err()));
        assert!(cpus("0-").is_err() && cpus("0-1").is_ok());
    }
}
