//! The `daiko` command: `lab` measures, `doctor` and `topology` tell what the
//! machine offers.
//!
//! Exit codes: 0 done, 1 something measured went wrong, 2 the command line
//! cannot be carried out (one line on standard error says why), 130 stopped by
//! an interrupt.

// Public for the fuzz targets, which are the only users of this library beside the command itself.
#[doc(hidden)]
pub mod args;
mod doctor;
mod lab;
#[doc(hidden)]
pub mod problem;
mod topology;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use args::{Command, LabCommand};
use problem::Problem;

/// Does what the command line of this process says.
pub fn main() -> ExitCode {
    match args::parse(env::args_os()).and_then(carry_out) {
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
        Command::Lab(LabCommand::Sample) => lab::sample(out),
        Command::Doctor => doctor::run(out),
        Command::Topology => topology::run(out),
    }
}
