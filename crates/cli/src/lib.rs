//! The `daiko` command: `lab` measures, `doctor` and `topology` tell what the
//! machine offers, `follow` has the kernel schedule by P3, `pair` places threads
//! of other programs by P4.
//!
//! A second program, `daiko-lab-processes`, takes samples for it of methods whose workers are processes.
//!
//! Exit codes: 0 done, 1 something measured went wrong, 2 the command line
//! cannot be carried out (one line on standard error says why), 130 stopped by
//! an interrupt. Those of `pair` stand in crates/pair/README.md.

// Public for the fuzz targets, which are the only users of this library beside the command itself.
#[doc(hidden)]
pub mod args;
mod doctor;
mod follow;
mod interrupts;
mod lab;
#[doc(hidden)]
pub mod pair;
#[doc(hidden)]
pub mod problem;
#[doc(hidden)]
pub mod topology;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use args::{Command, LabCommand};
use problem::Problem;

/// Does what the command line of this process says.
pub fn main() -> ExitCode {
    finish(args::parse(env::args_os()).and_then(carry_out))
}

/// Takes one sample for `daiko lab run`, as a program whose processes share a heap.
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
            // Nobody is left to tell if standard error is closed.
            let _ = writeln!(io::stderr(), "daiko: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

fn carry_out(command: Command) -> Result<ExitCode, Problem> {
    let out = &mut io::stdout().lock();
    match command {
        Command::Help(text) => Ok(write!(out, "{text}").map(|()| ExitCode::SUCCESS)?),
        Command::Lab(LabCommand::List) => lab::list(out),
        Command::Lab(LabCommand::Run(request)) => lab::run(&request, out),
        Command::Lab(LabCommand::Replay(file)) => lab::replay(&file, out),
        Command::Lab(LabCommand::Sample) => lab::sample(out),
        Command::Doctor => doctor::run(out),
        Command::Follow(command) => follow::run(&command, out),
        Command::Topology(request) => topology::run(&request, out),
        Command::Pair(command) => pair::run(&command, out),
    }
}
