//! Commands. All processes exist before the first one runs.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
};

use daiko_sys::{
    process::{self, CHILD_CHANGED, Held, TERMINATE},
    signal,
};

use super::line::Targets;
use crate::problem::Problem;

/// The exit code of shells for a file that cannot be run.
const NOT_RUN: u8 = 126;

/// The processes of the commands.
#[derive(Default)]
pub(super) struct Commands(Vec<HeldCommand>);

struct HeldCommand {
    name: String,
    pid: u32,
    state: CommandState,
}

enum CommandState {
    Held(Held),
    Running,
    Ended(u8),
}

impl Commands {
    /// Creates processes that wait to become the commands; none for `--pid`.
    pub(super) fn hold(targets: &Targets) -> Result<Self, Problem> {
        let Targets::Commands(commands) = targets else { return Ok(Self::default()) };
        // If SIGCHLD is ignored, the kernel discards the exit status of children.
        signal::restore_default(CHILD_CHANGED);
        let hold = |(program, words): &(PathBuf, Vec<OsString>)| {
            let name = words[0].display().to_string();
            let held = Held::start(program, words).map_err(|error| {
                Problem::System(format!("cannot start {name}: {error}; nothing was started"))
            })?;
            Ok(HeldCommand { name, pid: held.pid(), state: CommandState::Held(held) })
        };
        commands.iter().map(hold).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|command| command.pid).collect()
    }

    /// Lets the commands run. Reports a command that cannot run on standard error.
    pub(super) fn release(&mut self) {
        for command in &mut self.0 {
            let CommandState::Held(held) =
                std::mem::replace(&mut command.state, CommandState::Ended(NOT_RUN))
            else {
                continue;
            };
            match held.release() {
                Ok(_) => command.state = CommandState::Running,
                Err(error) => {
                    // Standard error may be closed.
                    let _ = writeln!(io::stderr(), "daiko: cannot run {}: {error}", command.name);
                }
            }
        }
    }

    /// Records the commands that have ended.
    pub(super) fn reap(&mut self) {
        for command in &mut self.0 {
            if let CommandState::Running = command.state
                && let Some((_, status)) = process::wait_now(Some(command.pid))
            {
                command.state = CommandState::Ended(code(status));
            }
        }
    }

    /// Sends SIGTERM to all commands.
    pub(super) fn terminate(&self) {
        for command in &self.0 {
            if let CommandState::Running = command.state {
                process::signal_child(command.pid, TERMINATE);
            }
        }
    }

    pub(super) fn have_ended(&self) -> bool {
        self.0.iter().all(|command| matches!(command.state, CommandState::Ended(_)))
    }

    /// Returns true if there are commands.
    pub(super) fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// The exit code of the first command that failed.
    pub(super) fn exit_code(&self) -> ExitCode {
        let codes = self.0.iter().map(|command| match command.state {
            CommandState::Ended(code) => code,
            CommandState::Held(_) | CommandState::Running => 0,
        });
        ExitCode::from(codes.into_iter().find(|code| *code != 0).unwrap_or(0))
    }
}

/// The exit code in the format of shells.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or_default();
    status.code().unwrap_or_else(signal) as u8
}
