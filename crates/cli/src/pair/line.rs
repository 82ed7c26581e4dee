//! What a line of `daiko pair` asks for.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use daiko_pair::Class;
use daiko_sys::{cpu::CpuSet, process::may_run};

use crate::problem::Problem;

/// Between two commands.
const NEXT: &str = ":::";
/// An hour: a class that is older says little.
const MOST_SECONDS: i64 = 3600;

/// How threads are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Those that stall beside those that compute
    Cross,
    /// Like beside like
    Parallel,
    /// One CPU of each core, its siblings idle
    #[value(name = "nosmt")]
    NoSmt,
    /// As cross where there are both; else by trial, if progress can be measured; else as they are
    Auto,
}

/// What to pair, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct PairRequest {
    pub policy: Policy,
    pub targets: Targets,
    pub cpus: Option<CpuSet>,
    /// By the name of a thread or process, or the id of one.
    pub classes: BTreeMap<String, Class>,
    /// Files of numbers that programs count up: by the id of the process, or by the place of its command, from 1 on.
    pub progress: BTreeMap<u32, PathBuf>,
    /// Seconds.
    pub interval: u64,
    /// Another machine's description, for tests.
    pub root: Option<PathBuf>,
}

/// Whose threads.
#[derive(Debug, PartialEq, Eq)]
pub enum Targets {
    Processes(Vec<u32>),
    /// Files of programs, with their words.
    Commands(Vec<(PathBuf, Vec<OsString>)>),
}

/// Place threads of programs so that those that stall share cores with those that compute
#[derive(Args)]
pub(crate) struct PairLine {
    /// How to place threads
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Policy::Auto)]
    policy: Policy,
    /// Processes that run already, with what they start, for example 1234,1240
    #[arg(long, value_name = "PID,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pid: Vec<u32>,
    /// Place on these CPUs only, for example 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// What a thread or process does that has this name or id: stall or compute; more than once
    #[arg(long, value_name = "NAME=CLASS")]
    class: Vec<String>,
    /// A file whose first 8 bytes a process counts up, for trials: by its id or the place of its command (1, 2, ..)
    #[arg(long, value_name = "WHO=FILE")]
    progress: Vec<String>,
    /// Seconds between looks, at least; they are rarer where they would take more than half a percent of a CPU
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
    /// Put back what sessions that were killed have left, and do nothing else
    #[arg(long, conflicts_with_all = ["pid", "commands", "cpus", "class", "progress"])]
    restore: bool,
    /// Siblings as a recorded machine has them, with the CPUs of this one
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Commands with ::: between them
    #[arg(last = true, value_name = "COMMAND")]
    commands: Vec<OsString>,
}

/// What `daiko pair` is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum PairCommand {
    Run(PairRequest),
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
                    "say what to pair: -- COMMAND ::: COMMAND, or --pid PID,..; see daiko pair --help",
                ));
            }
            (false, false) => {
                return Err(Problem::usage("give commands or --pid, not both"));
            }
            (false, true) => Targets::Processes(self.pid),
            (true, false) => Targets::Commands(commands(&self.commands)?),
        };
        let cpus = self.cpus.as_deref().map(cpus).transpose()?;
        Ok(PairCommand::Run(PairRequest {
            policy: self.policy,
            targets,
            cpus,
            classes: self.class.iter().map(|text| class(text)).collect::<Result<_, _>>()?,
            progress: self.progress.iter().map(|text| progress(text)).collect::<Result<_, _>>()?,
            interval: self.interval.unsigned_abs(),
            root: self.root,
        }))
    }
}

fn cpus(list: &str) -> Result<CpuSet, Problem> {
    list.parse()
        .ok()
        .filter(|cpus: &CpuSet| !cpus.is_empty())
        .ok_or_else(|| Problem::usage(format!("--cpus: '{list}' is no list of CPUs like 0-3,8")))
}

fn class(text: &str) -> Result<(String, Class), Problem> {
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
    let parts = parts.and_then(|(who, file)| Some((who.parse().ok()?, PathBuf::from(file))));
    parts.ok_or_else(|| Problem::usage(format!("--progress: '{text}' is not like 1234=FILE")))
}

/// All are looked up before one is started.
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

/// As a shell finds it.
fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() != 1 || name.is_absolute() {
        return may_run(name).then(|| name.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| may_run(file))
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
    fn what_is_no_command_is_refused() {
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
    fn a_class_or_progress_names_whom_it_is_of() {
        assert_eq!(class("a=b=stall").unwrap(), ("a=b".to_owned(), Class::Stall));
        assert_eq!(progress("7=/a=b").unwrap(), (7, "/a=b".into()));
        assert!(["stall", "=stall", "x=", "x=unknown"].iter().all(|text| class(text).is_err()));
        assert!(["x=/a", "7", "7=", "=/a", "-1=/a"].iter().all(|text| progress(text).is_err()));
        assert!(cpus("0-").is_err() && cpus("0-1").is_ok());
    }
}
