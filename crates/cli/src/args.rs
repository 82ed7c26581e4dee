//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use daiko_inspect::FiberState;
use daiko_lab::kit::CpuTask;
use daiko_scx::{DEFAULT_BOUND, Policy, Settings};

use crate::{
    pair::{PairCommand, PairLine},
    problem::Problem,
    schedule::{ScheduleCommand, ScheduleWord},
};

/// Largest number of threads: more fibers than any machine of today can hold.
const MOST_THREADS: usize = 10_000_000;
const MOST_WORKERS: usize = 1024;
/// Seconds of a day.
const MOST_SECONDS: i64 = 86_400;

/// A parsed command line.
pub enum Command {
    /// Prints this text: help or version was requested.
    Help(String),
    Run(RunRequest),
    Lab(LabCommand),
    /// Describes this program, or without one the machine.
    Doctor(Option<PathBuf>),
    Follow(FollowCommand),
    Schedule(ScheduleCommand),
    Topology(TopologyRequest),
    Pair(PairCommand),
    Ps(PsRequest),
    Deadlock(DeadlockRequest),
    Core(CoreRequest),
    Top(TopRequest),
    Trace(TraceRequest),
    Profile(ProfileRequest),
    Completions(Shell),
    /// Writes manual pages and completions into this `share` of an installation.
    Manual(PathBuf),
}

/// A request of `daiko run`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunRequest {
    /// `None`: as the environment says, or else by the CPUs.
    pub workers: Option<usize>,
    pub explain: bool,
    pub report_deadlock: bool,
    pub dispatch: bool,
    pub native: bool,
    pub follow: bool,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// A request of `daiko ps`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PsRequest {
    /// Ids of processes, and paths of core files; empty: the processes are listed.
    pub subjects: Vec<String>,
    /// `None`: no stacks.
    pub stacks: Option<StackStyle>,
    /// Only fibers in these states; empty: in all.
    pub states: Vec<FiberState>,
    /// True if the process is to stop while it is read.
    pub stop: bool,
    /// True if stacks have the runtime's own functions as well.
    pub full: bool,
    /// True for JSON, false for text.
    pub json: bool,
}

/// The way in which stacks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackStyle {
    /// The stack of each fiber
    Each,
    /// Equal stacks once, with the number of fibers
    Unique,
    /// Equal stacks in one line each, for flame graphs
    Folded,
}

/// A request of `daiko deadlock`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeadlockRequest {
    /// Ids of processes, and paths of core files; empty: all processes with a runtime.
    pub subjects: Vec<String>,
    /// True for JSON, false for text.
    pub json: bool,
}

/// A request of `daiko top`.
#[derive(Debug, PartialEq, Eq)]
pub struct TopRequest {
    /// The id of the process.
    pub process: u32,
    /// Seconds between two pictures.
    pub interval: u64,
    /// Number of pictures; `None`: until the end.
    pub count: Option<u64>,
}

/// A request of `daiko trace`.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// The id of the process.
    pub process: u32,
    /// Seconds to record.
    pub seconds: u64,
    /// `None`: `daiko-PID.pftrace` in the current folder.
    pub file: Option<PathBuf>,
}

/// A request of `daiko profile`.
#[derive(Debug, PartialEq, Eq)]
pub struct ProfileRequest {
    /// The id of the process.
    pub process: u32,
    /// Seconds to look.
    pub seconds: u64,
    /// Milliseconds between two looks.
    pub period: u64,
    /// `None`: `daiko-PID.pb` in the current folder.
    pub file: Option<PathBuf>,
}

/// A request of `daiko core`.
#[derive(Debug, PartialEq, Eq)]
pub struct CoreRequest {
    pub process: u32,
    /// `None`: `core.PID` in the current folder.
    pub file: Option<PathBuf>,
}

/// A request of `daiko topology`: without `root` for this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct TopologyRequest {
    pub root: Option<PathBuf>,
    pub json: bool,
}

/// A request of `daiko follow`.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowCommand {
    Status,
    /// Starts the scheduler, with `interval` in seconds.
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

/// A request of `daiko lab`.
pub enum LabCommand {
    List,
    Run(Request),
    /// Compares two files, or folders, of results.
    Compare([PathBuf; 2]),
    Replay(PathBuf),
    Sample,
}

/// A request of `daiko lab run`, with its lists parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub experiments: Vec<String>,
    pub threads: Option<Vec<usize>>,
    pub methods: Option<Vec<String>>,
    pub workers: Option<Vec<usize>>,
    pub cpu_tasks: Option<Vec<CpuTask>>,
    pub pmem: Option<PathBuf>,
    pub apps: Option<Vec<String>>,
    pub quick: bool,
    /// True to record a trace of each point as well.
    pub trace: bool,
    pub out: PathBuf,
}

/// Run programs on Daiko, a runtime of fibers with polling agents; measure and inspect it
#[derive(Parser)]
#[command(name = "daiko", version, arg_required_else_help = true)]
struct Line {
    #[command(subcommand)]
    command: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Run a program, unchanged, with its POSIX threads on Daiko's workers
    Run(ProgramLine),
    /// Measure the duration of waits with every mechanism on this machine
    #[command(subcommand, arg_required_else_help = true)]
    Lab(LabWord),
    /// Check the settings and limits of the kernel, and suggest changes; or check one program
    Doctor {
        /// A program: could its threads be taken over by a preloaded library, or why not
        #[arg(value_name = "PROGRAM")]
        program: Option<PathBuf>,
    },
    /// Let the kernel place woken threads so that their interrupts follow them (sched_ext)
    #[command(subcommand, arg_required_else_help = true)]
    Follow(FollowWord),
    /// Let a scheduler of Daiko's schedule this machine, or some processes of it (sched_ext)
    #[command(subcommand, arg_required_else_help = true)]
    Schedule(ScheduleWord),
    /// Show packages, nodes, cores, siblings and caches, and the CPUs that this process may use
    Topology(TopologyLine),
    /// Place threads of other programs so that stalling threads share cores with computing threads
    Pair(Box<PairLine>),
    /// Show the fibers of processes that run or hang, and of core files
    Ps(PsLine),
    /// Find cycles of waits among fibers and threads, also of several processes
    Deadlock(DeadlockLine),
    /// Write a core file of a process, with its fibers' stacks; it stops meanwhile, and goes on
    Core(CoreLine),
    /// Show the workers of a process and its longest waits, again and again
    Top(TopLine),
    /// Record the events of a process's workers, for ui.perfetto.dev
    Trace(TraceLine),
    /// Measure how long fibers wait, where, and how long they run, for pprof
    Profile(ProfileLine),
    /// Print the script that completes command lines in a shell (`make install` installs them)
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write manual pages and completions into the folder share of an installation (used by
    /// `make install`)
    #[command(hide = true)]
    Manual {
        /// The folder, which is created
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Args)]
struct ProcessWord {
    /// The id of the process
    #[arg(value_name = "PID", value_parser = 1..=i64::from(i32::MAX))]
    process: i64,
}

impl ProcessWord {
    fn id(&self) -> u32 {
        self.process.unsigned_abs() as u32
    }
}

#[derive(Args)]
struct ProfileLine {
    #[command(flatten)]
    process: ProcessWord,
    /// The file, which is replaced if it exists [default: daiko-PID.pb]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seconds to look; an interrupt ends it before
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = 1..=MOST_SECONDS)]
    seconds: i64,
    /// Milliseconds between two looks
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = 1..=60_000)]
    period: i64,
}

#[derive(Args)]
struct TraceLine {
    #[command(flatten)]
    process: ProcessWord,
    /// The file, which is replaced if it exists [default: daiko-PID.pftrace]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seconds to record; an interrupt ends it before
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = 1..=MOST_SECONDS)]
    seconds: i64,
}

#[derive(Args)]
struct TopLine {
    #[command(flatten)]
    process: ProcessWord,
    /// Seconds between two pictures
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
    /// Number of pictures, then end
    #[arg(long, value_name = "N", value_parser = 1..=i64::MAX)]
    count: Option<i64>,
}

#[derive(Args)]
struct CoreLine {
    #[command(flatten)]
    process: ProcessWord,
    /// The file, which must not exist [default: core.PID]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct DeadlockLine {
    /// Ids of processes, and core files [default: all processes that have a runtime]
    #[arg(value_name = "PID|CORE")]
    subjects: Vec<String>,
    /// Print one line of JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PsLine {
    /// Ids of processes, and core files; without one, list the processes that have a runtime
    #[arg(value_name = "PID|CORE")]
    subjects: Vec<String>,
    /// Show stacks [default: each]
    #[arg(long, value_name = "STYLE", num_args = 0..=1, require_equals = true, default_missing_value = "each", requires = "subjects")]
    stacks: Option<StackStyle>,
    /// Only fibers in these states, for example parked,waiting
    #[arg(long, value_name = "LIST", requires = "subjects")]
    state: Option<String>,
    /// Stop the process while it is read: all is of one moment, and running fibers have stacks
    #[arg(long, requires = "subjects")]
    stop: bool,
    /// Show the runtime's own functions in stacks, too
    #[arg(long, requires = "stacks")]
    full: bool,
    /// Print one line of JSON for each process, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(
    after_help = "The guide for operators is docs/run.md, installed as share/doc/daiko/run.md"
)]
struct ProgramLine {
    /// Number of workers [default: DAIKO_WORKERS, or the number of CPUs]
    #[arg(long, value_name = "N", value_parser = 1..=MOST_WORKERS as i64)]
    workers: Option<i64>,
    /// Print counters of threads and errands at the end of the program
    #[arg(long)]
    explain: bool,
    /// Print the threads and their targets, once, if all threads wait for one another for good
    #[arg(long)]
    report_deadlock: bool,
    /// Take over system calls of other libraries' own instructions (futexes of libgomp), too
    #[arg(long)]
    dispatch: bool,
    /// Run the program with native threads, as DAIKO_RUN=native does
    #[arg(long, conflicts_with_all = ["explain", "workers", "follow", "report_deadlock", "dispatch"])]
    native: bool,
    /// Take over the threads of programs that PROGRAM executes, too
    #[arg(long)]
    follow: bool,
    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", required = true, num_args = 1.., trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Args)]
struct TopologyLine {
    /// Folder with a copy of the /sys of a recorded machine (as DIR/sys)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print one line of JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum FollowWord {
    /// Show the active scheduler, the steering of packets, and the counters
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
    /// Placement: follow (a moved thread stays until its interrupt has followed), existing (like
    /// kernels today)
    #[arg(long, value_name = "NAME", default_value = "follow")]
    policy: Policy,
    /// Largest number of wake-ups for which a thread stays while its interrupt does not follow; 0
    /// holds none
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BOUND)]
    bound: u8,
    /// Seconds between two lines of counters
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
}

#[derive(Args)]
struct RecordLine {
    /// Duration
    #[arg(long, value_name = "N", value_parser = 1..=MOST_SECONDS)]
    seconds: i64,
    /// The file, which is overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum LabWord {
    /// List the experiments with their methods
    List,
    /// Run experiments; write results.json and report.html, print a table
    Run(RunLine),
    /// Show two runs side by side: medians, ranges and ratios
    Compare {
        /// The results.json of the first run, or its folder
        #[arg(value_name = "A")]
        one: PathBuf,
        /// The results.json of the second run, or its folder
        #[arg(value_name = "B")]
        other: PathBuf,
    },
    /// Replay recorded wake-ups under existing placement and under P3: number of migrations, and
    /// number of unintended migrations
    Replay {
        /// A trace of wake-ups, with 'daiko-wakes 1' as its first line
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Take one sample for a request on standard input (used by `run`)
    #[command(hide = true)]
    Sample,
}

#[derive(Args)]
struct RunLine {
    /// Experiments to run, by their names in `daiko lab list`
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
    /// A computing program that replaces the experiment's own; may be repeated. CMD is run by
    /// /bin/sh
    #[arg(long, value_name = "NAME=CMD")]
    cpu_task: Vec<String>,
    /// A folder of persistent memory, mounted with DAX; DRAM takes its place by default
    #[arg(long, value_name = "DIR")]
    pmem: Option<PathBuf>,
    /// Only applications of apps, by beginnings of their names, for example redis,stress-ng
    #[arg(long, value_name = "LIST")]
    apps: Option<String>,
    /// Shorter runs, fewer and smaller cases: minutes instead of an hour for all points of the ring
    #[arg(long)]
    quick: bool,
    /// Afterwards, take one more sample of each point and record the events of its workers, in
    /// DIR/traces: some 100 bytes for each event
    #[arg(long)]
    trace: bool,
    /// Folder for results.json and report.html
    #[arg(long, value_name = "DIR", default_value = "./daiko-lab")]
    out: PathBuf,
}

/// The definition of the command line, for texts generated from it.
pub fn definition() -> clap::Command {
    Line::command()
}

/// Parses a command line, which begins with the name of the program.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Problem> {
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(error) => return not_parsed(&error),
    };
    Ok(match line.command {
        Word::Run(line) => Command::Run(line.into_request()),
        Word::Doctor { program } => Command::Doctor(program),
        Word::Follow(word) => Command::Follow(word.into_command()),
        Word::Schedule(word) => Command::Schedule(word.into_command()?),
        Word::Topology(TopologyLine { root, json }) => {
            Command::Topology(TopologyRequest { root, json })
        }
        Word::Pair(line) => Command::Pair(line.into_command()?),
        Word::Deadlock(DeadlockLine { subjects, json }) => {
            Command::Deadlock(DeadlockRequest { subjects, json })
        }
        Word::Top(TopLine { process, interval, count }) => Command::Top(TopRequest {
            process: process.id(),
            interval: interval.unsigned_abs(),
            count: count.map(i64::unsigned_abs),
        }),
        Word::Trace(TraceLine { process, out, seconds }) => Command::Trace(TraceRequest {
            process: process.id(),
            seconds: seconds.unsigned_abs(),
            file: out,
        }),
        Word::Profile(ProfileLine { process, out, seconds, period }) => {
            Command::Profile(ProfileRequest {
                process: process.id(),
                seconds: seconds.unsigned_abs(),
                period: period.unsigned_abs(),
                file: out,
            })
        }
        Word::Core(CoreLine { process, out }) => {
            Command::Core(CoreRequest { process: process.id(), file: out })
        }
        Word::Ps(line) => Command::Ps(line.into_request()?),
        Word::Completions { shell } => Command::Completions(shell),
        Word::Manual { folder } => Command::Manual(folder),
        Word::Lab(LabWord::List) => Command::Lab(LabCommand::List),
        Word::Lab(LabWord::Sample) => Command::Lab(LabCommand::Sample),
        Word::Lab(LabWord::Compare { one, other }) => {
            Command::Lab(LabCommand::Compare([one, other]))
        }
        Word::Lab(LabWord::Replay { file }) => Command::Lab(LabCommand::Replay(file)),
        Word::Lab(LabWord::Run(line)) => Command::Lab(LabCommand::Run(line.into_request()?)),
    })
}

/// Converts clap's error: help is not an error, and any other error becomes one line.
fn not_parsed(error: &clap::Error) -> Result<Command, Problem> {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(Command::Help(text));
    }
    let path = words_of_usage(&text);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let words = subcommands(&path).join(", ");
        return Err(Problem::usage(format!(
            "a command is missing, one of {words}; see {} --help",
            path.join(" ")
        )));
    }
    // clap lists missing arguments on separate lines, which end at a blank line.
    let told: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let told = told.join(" ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    Err(Problem::usage(format!("{told}; see {} --help", path.join(" "))))
}

/// The command in clap's usage text, such as `daiko lab run`.
fn words_of_usage(text: &str) -> Vec<&str> {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let plain = |word: &&str| !word.starts_with(['<', '[', '-']);
    usage.unwrap_or("daiko").split(' ').take_while(plain).collect()
}

/// The subcommands of `path`.
fn subcommands(path: &[&str]) -> Vec<String> {
    let mut command = &Line::command();
    for word in &path[1..] {
        command = command.find_subcommand(word).expect("clap named it");
    }
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

impl ProgramLine {
    fn into_request(self) -> RunRequest {
        let ProgramLine { workers, explain, report_deadlock, dispatch, native, follow, command } =
            self;
        let mut words = command.into_iter();
        RunRequest {
            workers: workers.map(|number| number.unsigned_abs() as usize),
            explain,
            report_deadlock,
            dispatch,
            native,
            follow,
            program: words.next().unwrap_or_default().into(),
            arguments: words.collect(),
        }
    }
}

impl FollowWord {
    fn into_command(self) -> FollowCommand {
        match self {
            FollowWord::Status => FollowCommand::Status,
            FollowWord::Stop => FollowCommand::Stop,
            FollowWord::Start(StartLine { policy, bound, interval }) => FollowCommand::Start {
                settings: Settings { policy, bound, pair: false },
                interval: interval.unsigned_abs(),
            },
            FollowWord::Record(RecordLine { seconds, out }) => {
                FollowCommand::Record { seconds: seconds.unsigned_abs(), file: out }
            }
        }
    }
}

impl PsLine {
    fn into_request(self) -> Result<PsRequest, Problem> {
        let PsLine { subjects, stacks, state, stop, full, json } = self;
        let names = state.map(|list| names(&list, "--state", "parked,waiting")).transpose()?;
        let state = |name: String| {
            let known = FiberState::ALL.into_iter().find(|state| state.name() == name);
            known.ok_or_else(|| {
                let all = FiberState::ALL.map(FiberState::name).join(", ");
                Problem::usage(format!("--state: '{name}' is no state; give some of {all}"))
            })
        };
        let states = names.unwrap_or_default().into_iter().map(state).collect::<Result<_, _>>()?;
        Ok(PsRequest { subjects, stacks, states, stop, full, json })
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
            methods: self
                .methods
                .map(|list| names(&list, "--methods", "futex,tokio,daiko"))
                .transpose()?,
            cpu_tasks: cpu_tasks(&self.cpu_task)?,
            pmem: self.pmem,
            apps: self.apps.map(|list| names(&list, "--apps", "redis,stress-ng")).transpose()?,
            experiments: self.experiments,
            quick: self.quick,
            trace: self.trace,
            out: self.out,
        })
    }
}

/// Parses a list like `2,10,1k,1M` and removes duplicates.
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
    // `parse` alone would accept a sign.
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<usize>().ok()?.checked_mul(factor)).flatten()
}

/// Parses tasks with distinct names; `None` if there are none.
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

fn names(list: &str, option: &str, example: &str) -> Result<Vec<String>, Problem> {
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(Problem::usage(format!("{option}: an empty name; give a list like {example}")));
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
    fn a_malformed_list_of_counts_is_refused() {
        for list in
            ["", ",", "2,", "x", "-3", "+3", "1e3", "2 3", "k", "0", "1", "99999999999999999999"]
        {
            assert!(counts(list, "--threads", 2, MOST_THREADS).is_err(), "{list:?}");
        }
    }

    fn run(words: &[&str]) -> Result<RunRequest, Problem> {
        match parse(["daiko", "run"].iter().chain(words).map(OsString::from))? {
            Command::Run(request) => Ok(request),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_end_at_the_program() {
        let request = run(&["--workers", "2", "x", "--workers", "3", "--", "-h"]).unwrap();
        let arguments = ["--workers", "3", "--", "-h"].map(OsString::from).to_vec();
        let expected = RunRequest {
            workers: Some(2),
            program: "x".into(),
            arguments,
            ..RunRequest::default()
        };
        assert_eq!(request, expected);
        let request = run(&["--native", "--", "-x", "y"]).unwrap();
        assert!(request.native && request.program.as_os_str() == "-x", "{request:?}");
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        for words in
            [&["--dispatches", "x"][..], &["-n", "x"], &["--workers=0", "x"], &["--explain"]]
        {
            assert!(run(words).is_err(), "{words:?}");
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
    fn a_malformed_task_is_refused() {
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
