//! The `daiko` command: `run` starts a program with its threads on Daiko's workers, `lab` measures,
//! `doctor` and `topology` describe the machine, `doctor` also a program, `schedule`
//! and `follow` attach a scheduler to the kernel, `pair` places threads of other programs by P4.
//!
//! A second program, `daiko-lab-processes`, takes its samples of methods with worker processes.
//!
//! Exit codes: 0 success, 1 a measurement went wrong, 2 the command line cannot be carried out (one
//! line on standard error gives the reason), 130 stopped by an interrupt, 3
//! `deadlock` has found one. crates/pair/README.md
//! lists those of `pair`. `run` becomes the program, whose exit code it is then.

// Public for the fuzz targets, the only users of this library beside the command itself.
#[doc(hidden)]
pub mod args;
mod core;
mod deadlock;
mod doctor;
mod follow;
mod interrupts;
mod lab;
mod manual;
#[doc(hidden)]
pub mod pair;
#[doc(hidden)]
pub mod problem;
mod profile;
#[doc(hidden)]
pub mod program;
mod ps;
mod run;
#[doc(hidden)]
pub mod schedule;
mod search;
mod subjects;
mod top;
#[doc(hidden)]
pub mod topology;
mod trace;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use args::{Command, LabCommand};
use problem::Problem;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    finish(args::parse(env::args_os()).and_then(carry_out))
}

/// Takes one sample for `daiko lab run`, in a program with processes that share a heap.
pub fn sample() -> ExitCode {
    finish(match env::args_os().len() {
        0 | 1 => lab::sample(&mut io::stdout().lock()),
        _ => Err(Problem::usage("it takes samples for `daiko lab run`, and no arguments")),
    })
}

fn finish(result: Result<ExitCode, Problem>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(Problem::ReaderGone) => ExitCode::SUCCESS,
        Err(problem) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "daiko: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

fn carry_out(command: Command) -> Result<ExitCode, Problem> {
    let out = &mut io::stdout().lock();
    match command {
        Command::Help(text) => Ok(write!(out, "{text}").map(|()| ExitCode::SUCCESS)?),
        Command::Run(request) => run::run(&request),
        Command::Lab(LabCommand::List) => lab::list(out),
        Command::Lab(LabCommand::Run(request)) => lab::run(&request, out),
        Command::Lab(LabCommand::Compare(files)) => lab::compare(&files, out),
        Command::Lab(LabCommand::Replay(file)) => lab::replay(&file, out),
        Command::Lab(LabCommand::Sample) => lab::sample(out),
        Command::Doctor(None) => doctor::run(out),
        Command::Doctor(Some(name)) => program::run(&name, out),
        Command::Follow(command) => follow::run(&command, out),
        Command::Schedule(command) => schedule::run(&command, out),
        Command::Topology(request) => topology::run(&request, out),
        Command::Pair(command) => pair::run(&command, out),
        Command::Completions(shell) => manual::completions(shell, out),
        Command::Manual(folder) => manual::install(&folder),
        Command::Top(request) => top::run(&request, out),
        Command::Trace(request) => trace::run(&request, out),
        Command::Profile(request) => profile::run(&request, out),
        Command::Core(request) => core::run(&request, out),
        Command::Deadlock(request) => deadlock::run(&request, out),
        Command::Ps(request) => ps::run(&request, out),
    }
}
