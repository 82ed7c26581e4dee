//! The command line of `daiko schedule`.

use clap::{Args, Subcommand};
use daiko_core::place::Class;
use daiko_scx::{DEFAULT_BOUND, Policy, Settings};

use crate::{pair::class, problem::Problem};

/// Seconds of a day.
const MOST_SECONDS: i64 = 86_400;

/// A request of `daiko schedule`.
#[derive(Debug, PartialEq, Eq)]
pub enum ScheduleCommand {
    Status,
    Start(ScheduleRequest),
    /// Serves a session of `daiko pair` with these processes.
    Pair(Vec<u32>),
    Stop,
}

/// A start of the scheduler, or a change of the attached one.
#[derive(Debug, PartialEq, Eq)]
pub struct ScheduleRequest {
    pub settings: Settings,
    /// Processes of which it gets the threads; empty: all normal threads of the machine.
    pub only: Vec<u32>,
    /// Classes of processes, by their ids.
    pub classes: Vec<(u32, Class)>,
    /// Seconds between two lines of counters.
    pub interval: u64,
}

impl ScheduleRequest {
    /// A start for all threads, without classes.
    pub(crate) fn plain(settings: Settings, interval: u64) -> Self {
        ScheduleRequest { settings, only: Vec::new(), classes: Vec::new(), interval }
    }
}

#[derive(Subcommand)]
pub(crate) enum ScheduleWord {
    /// Show the active scheduler, its settings and its counters
    Status,
    /// Attach the scheduler until an interrupt; if it is attached, change its settings
    Start(ScheduleLine),
    /// Schedule the processes of daiko pair, by the classes on standard input
    #[command(hide = true)]
    Pair {
        #[arg(long, value_name = "PID,..", value_delimiter = ',', required = true)]
        only: Vec<u32>,
    },
    /// Detach the scheduler
    Stop,
}

#[derive(Args)]
pub(crate) struct ScheduleLine {
    /// A woken and moved thread stays until its CPU has processed a wake-up (P3)
    #[arg(long)]
    follow: bool,
    /// Largest number of wake-ups for which a thread stays while its interrupt does not follow
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BOUND, requires = "follow")]
    bound: u8,
    /// Stalling threads share cores with computing threads, by their declared classes (P4)
    #[arg(long)]
    pair: bool,
    /// The class of a process, stall or compute, for example 1234=stall; may be repeated
    #[arg(long, value_name = "PID=CLASS", requires = "pair")]
    class: Vec<String>,
    /// Schedule only these processes, with all that they start, for example 1234,1240
    #[arg(long, value_name = "PID,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    only: Vec<u32>,
    /// Seconds between two lines of counters
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = 1..=MOST_SECONDS)]
    interval: i64,
}

impl ScheduleWord {
    pub(crate) fn into_command(self) -> Result<ScheduleCommand, Problem> {
        Ok(match self {
            ScheduleWord::Status => ScheduleCommand::Status,
            ScheduleWord::Stop => ScheduleCommand::Stop,
            ScheduleWord::Pair { only } => ScheduleCommand::Pair(only),
            ScheduleWord::Start(line) => ScheduleCommand::Start(line.into_request()?),
        })
    }
}

impl ScheduleLine {
    fn into_request(self) -> Result<ScheduleRequest, Problem> {
        let policy = if self.follow { Policy::Follow } else { Policy::Shared };
        Ok(ScheduleRequest {
            settings: Settings { policy, bound: self.bound, pair: self.pair },
            only: self.only,
            classes: self.class.iter().map(|text| class_of(text)).collect::<Result<_, _>>()?,
            interval: self.interval.unsigned_abs(),
        })
    }
}

/// Parses `1234=stall`.
fn class_of(text: &str) -> Result<(u32, Class), Problem> {
    let (id, class) = class(text)?;
    let id = id.parse::<u32>().ok().filter(|id| (1..=i32::MAX as u32).contains(id));
    let id = id.ok_or_else(|| {
        Problem::usage(format!("--class: '{text}' does not begin with the id of a process"))
    })?;
    Ok((id, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_the_id_of_a_process() {
        assert_eq!(class_of("7=stall").unwrap(), (7, Class::Stall));
        for text in ["x=stall", "0=stall", "-1=stall", "7=", "7", "=stall", "99999999999=stall"] {
            assert!(class_of(text).is_err(), "{text}");
        }
    }
}
