//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use daiko_lab::kit::CpuTask;
use daiko_scx::{DEFAULT_BOUND, Policy, Settings};

use crate::{
    pair::{PairCommand, PairLine},
    problem::Problem,
};

/// More threads than any machine of today could hold as fibers.
const MOST_THREADS: usize = 10_000_000;
const MOST_WORKERS: usize = 1024;
/// A day.
const MOST_SECONDS: i64 = 86_400;

/// What to do.
pub enum Command {
    /// Print this text: help or version was asked for.
    Help(String),
    Lab(LabCommand),
    Doctor,
    Follow(FollowCommand),
    Topology(TopologyRequest),
    Pair(PairCommand),
}

/// What to show of which machine: of this one without `root`.
#[derive(Debug, PartialEq, Eq)]
pub struct TopologyRequest {
    pub root: Option<PathBuf>,
    pub json: bool,
}

/// What to do about the kernel's scheduler.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowCommand {
    Status,
    /// `interval` in seconds.
    Start {
        settings: Settings,
        interval: u64,
    },
    Stop,
    Record {
        seconds: u64,
        file: PathBuf,
    },
}

/// What to do in the lab.
pub enum LabCommand {
    List,
    Run(Request),
    Replay(PathBuf),
    Sample,
}

/// What to measure, with lists taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub experiments: Vec<String>,
    pub threads: Option<Vec<usize>>,
    pub methods: Option<Vec<String>>,
    pub workers: Option<Vec<usize>>,
    pub cpu_tasks: Option<Vec<CpuTask>>,
    pub pmem: Option<PathBuf>,
    pub quick: bool,
    pub out: PathBuf,
}

/// Fibers whose waiters are polled for by agents: measure them, and see what
/// this machine offers them.
#[derive(Parser)]
#[command(name = "daiko", version, arg_required_else_help = true)]
struct Line {
    #[command(subcommand)]
    command: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Measure how long waits take, by every mechanism, on this machine
    #[command(subcommand, arg_required_else_help = true)]
    Lab(LabWord),
    /// Check what the kernel and its limits allow, and say what to change
    Doctor,
    /// Have the kernel place woken threads so that their interrupts follow them (sched_ext)
    #[command(subcommand, arg_required_else_help = true)]
    Follow(FollowWord),
    /// Show packages, nodes, cores, siblings and caches, and the CPUs that this process may use
    Topology(TopologyLine),
    /// Place threads of programs so that those that stall share cores with those that compute
    Pair(Box<PairLine>),
}

#[derive(Args)]
struct TopologyLine {
    /// Of a recorded machine: the folder that its /sys was copied to (as DIR/sys)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print an object of JSON in one line, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum FollowWord {
    /// Show who schedules, whether packets are steered, and what was counted
    Status,
    /// Attach the scheduler until an interrupt; if it is attached, change its policy
    Start(StartLine),
    /// Detach the scheduler
    Stop,
    /// Write all wake-ups to a file
    Record(RecordLine),
}

#[derive(Args)]
struct StartLine {
    /// How to place: follow (who has moved stays until its interrupt has followed), existing (as kernels do)
    #[arg(long, value_name = "NAME", default_value = "follow")]
    policy: Policy,
    /// How many wake-ups a thread stays at most whose interrupt does not follow; 0 holds none
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BOUND)]
    bound: u8,
    /// Seconds between two lines of counters
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
}

#[derive(Args)]
struct RecordLine {
    /// For how long
    #[arg(long, value_name = "N", value_parser = 1..=MOST_SECONDS)]
    seconds: i64,
    /// The file; what is there is replaced
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum LabWord {
    /// List the experiments with their methods
    List,
    /// Run experiments; write results.json and report.html, print a table
    Run(RunLine),
    /// Replay recorded wake-ups as kernels place them and as P3 would: what migrates, and what of it nobody intended
    Replay {
        /// A trace of wake-ups, of which the first line is 'daiko-wakes 1'
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Take one sample as told on standard input (used by `run`)
    #[command(hide = true)]
    Sample,
}

#[derive(Args)]
struct RunLine {
    /// Experiments to run, as `daiko lab list` names them
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Numbers of threads, for example 2,10,1k,1M
    #[arg(long, value_name = "LIST")]
    threads: Option<String>,
    /// Only these methods, for example futex,tokio,daiko
    #[arg(long, value_name = "LIST")]
    methods: Option<String>,
    /// Numbers of workers, for example 1,2
    #[arg(long, value_name = "LIST")]
    workers: Option<String>,
    /// A program that computes, in place of the experiment's own; may be given again. CMD is run by /bin/sh
    #[arg(long, value_name = "NAME=CMD")]
    cpu_task: Vec<String>,
    /// A folder of persistent memory, mounted with DAX; without, DRAM passes for it
    #[arg(long, value_name = "DIR")]
    pmem: Option<PathBuf>,
    /// Shorter runs, fewer and smaller cases: minutes where all points of the ring take an hour
    #[arg(long)]
    quick: bool,
    /// Folder for results.json and report.html
    #[arg(long, value_name = "DIR", default_value = "./daiko-lab")]
    out: PathBuf,
}

/// What a command line says, which begins with the name of the program.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Problem> {
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(error) => return not_parsed(&error),
    };
    Ok(match line.command {
        Word::Doctor => Command::Doctor,
        Word::Follow(word) => Command::Follow(word.into_command()),
        Word::Topology(TopologyLine { root, json }) => {
            Command::Topology(TopologyRequest { root, json })
        }
        Word::Pair(line) => Command::Pair(line.into_command()?),
        Word::Lab(LabWord::List) => Command::Lab(LabCommand::List),
        Word::Lab(LabWord::Sample) => Command::Lab(LabCommand::Sample),
        Word::Lab(LabWord::Replay { file }) => Command::Lab(LabCommand::Replay(file)),
        Word::Lab(LabWord::Run(line)) => Command::Lab(LabCommand::Run(line.into_request()?)),
    })
}

/// Help is not an error; the rest is told in one line.
fn not_parsed(error: &clap::Error) -> Result<Command, Problem> {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(Command::Help(text));
    }
    let path = words_of_usage(&text);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let words = subcommands(&path).join(", ");
        return Err(Problem::usage(format!(
            "say what to do: {words}; see {} --help",
            path.join(" ")
        )));
    }
    // clap lists missing arguments on lines of their own; they end at a blank one.
    let told: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let told = told.join(" ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    Err(Problem::usage(format!("{told}; see {} --help", path.join(" "))))
}

/// The command that a text of clap's is about: `daiko lab run`, where it says how that is used.
fn words_of_usage(text: &str) -> Vec<&str> {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let plain = |word: &&str| !word.starts_with(['<', '[', '-']);
    usage.unwrap_or("daiko").split(' ').take_while(plain).collect()
}

/// What may follow the command `path`.
fn subcommands(path: &[&str]) -> Vec<String> {
    let mut command = &Line::command();
    for word in &path[1..] {
        command = command.find_subcommand(word).expect("clap named it");
    }
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

impl FollowWord {
    fn into_command(self) -> FollowCommand {
        match self {
            FollowWord::Status => FollowCommand::Status,
            FollowWord::Stop => FollowCommand::Stop,
            FollowWord::Start(StartLine { policy, bound, interval }) => FollowCommand::Start {
                settings: Settings { policy, bound },
                interval: interval.unsigned_abs(),
            },
            FollowWord::Record(RecordLine { seconds, out }) => {
                FollowCommand::Record { seconds: seconds.unsigned_abs(), file: out }
            }
        }
    }
}

impl RunLine {
    fn into_request(self) -> Result<Request, Problem> {
        let counts = |list: Option<String>, option, least, most| {
            list.map(|list| counts(&list, option, least, most)).transpose()
        };
        Ok(Request {
            threads: counts(self.threads, "--threads", 2, MOST_THREADS)?,
            workers: counts(self.workers, "--workers", 1, MOST_WORKERS)?,
            methods: self.methods.map(|list| names(&list)).transpose()?,
            cpu_tasks: cpu_tasks(&self.cpu_task)?,
            pmem: self.pmem,
            experiments: self.experiments,
            quick: self.quick,
            out: self.out,
        })
    }
}

/// A list like `2,10,1k,1M`, each once.
fn counts(list: &str, option: &str, least: usize, most: usize) -> Result<Vec<usize>, Problem> {
    let mut counts = Vec::new();
    for item in list.split(',') {
        let count = count(item.trim()).ok_or_else(|| {
            Problem::usage(format!("{option}: '{item}' is no number; give a list like 2,10,1k"))
        })?;
        if !(least..=most).contains(&count) {
            return Err(Problem::usage(format!(
                "{option}: {item} is not within {least} to {most}"
            )));
        }
        if !counts.contains(&count) {
            counts.push(count);
        }
    }
    Ok(counts)
}

fn count(item: &str) -> Option<usize> {
    let (digits, factor) = match item.strip_suffix(['k', 'M']) {
        Some(digits) if item.ends_with('k') => (digits, 1000),
        Some(digits) => (digits, 1_000_000),
        None => (item, 1),
    };
    // `parse` alone would take a sign.
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<usize>().ok()?.checked_mul(factor)).flatten()
}

/// Those that are named, each by a name of its own; `None` without any.
fn cpu_tasks(words: &[String]) -> Result<Option<Vec<CpuTask>>, Problem> {
    let mut tasks: Vec<CpuTask> = Vec::new();
    for word in words {
        let task = word.split_once('=').filter(|(name, command)| {
            !name.is_empty() && !name.contains(char::is_whitespace) && !command.trim().is_empty()
        });
        let (name, command) = task.ok_or_else(|| {
            Problem::usage(format!(
                "--cpu-task: '{word}' is no task; give one like 'mcf=./mcf_r inp.in'"
            ))
        })?;
        if tasks.iter().any(|task| task.name == name) {
            return Err(Problem::usage(format!(
                "--cpu-task: '{name}' is there twice; name each task differently"
            )));
        }
        tasks.push(CpuTask { name: name.into(), command: command.into() });
    }
    Ok((!tasks.is_empty()).then_some(tasks))
}

fn names(list: &str) -> Result<Vec<String>, Problem> {
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(Problem::usage("--methods: an empty name; give a list like futex,tokio,daiko"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_suffixes() {
        assert_eq!(
            counts("2, 10,1k,10k,1M,2", "--threads", 2, MOST_THREADS).unwrap(),
            [2, 10, 1000, 10_000, 1_000_000]
        );
    }

    #[test]
    fn what_is_no_list_of_counts_is_refused() {
        for list in
            ["", ",", "2,", "x", "-3", "+3", "1e3", "2 3", "k", "0", "1", "99999999999999999999"]
        {
            assert!(counts(list, "--threads", 2, MOST_THREADS).is_err(), "{list:?}");
        }
    }

    #[test]
    fn tasks_have_a_name_and_a_command() {
        let words = ["a=x --y=z".to_owned(), "b=true".to_owned()];
        let tasks = cpu_tasks(&words).unwrap().unwrap();
        assert_eq!(tasks[0], CpuTask { name: "a".into(), command: "x --y=z".into() });
        assert_eq!(tasks.len(), 2);
        assert_eq!(cpu_tasks(&[]).unwrap(), None);
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for word in ["", "a", "=b", "a=", "a= ", "a b=c", " =c"] {
            assert!(cpu_tasks(&[word.to_owned()]).is_err(), "{word:?}");
        }
        assert!(cpu_tasks(&["a=b".to_owned(), "a=c".to_owned()]).is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }
}
