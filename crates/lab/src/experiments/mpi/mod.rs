//! Messages between two ranks of MPI on this machine, many at a time.
//!
//! In a round, rank 0 sends a message for each of `exchanges`, with a tag of its own, and receives
//! the answers. The time is that of a message. Rank 1 adds 1 to the first word of a message, and
//! the sum of these words is checked.
//!
//! - `daiko`, `daiko-balanced`: a fiber for each exchange, on one worker with the preset Latency or
//!   Balanced, by `daiko-mpi`. Their program lies beside this one
//!   (`make build-mpi`).
//! - `mpi-waitall`: all requests of a round by one thread, which waits for all of them: the limit.
//! - `mpi-blocking`: one exchange, by the blocking calls.
//! - `mpi-threads`: a kernel thread for each exchange.
//!
//! `cpus=all`: the ranks may use all CPUs; `cpus=each`: each is bound to a CPU of its own, as MPI's
//! launchers do by default.

mod figures;

use std::process::Command;
use std::time::Duration;
use std::{env, path::PathBuf};

use crate::kit::driver::Driver;
use crate::kit::exchange::exchange;
use crate::kit::failure::last_line;
use crate::kit::{
    Choice, Effort, Experiment, Failure, List, Measure, OrFailure, Params, Plan, Rounds, Sample,
    Skip, host, mpi,
};

/// Messages between ranks of MPI.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "messages between two ranks of MPI: fibers, kernel threads, one thread with many requests",
    sizes: &["exchanges"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

static DRIVER: Driver = Driver::new(
    &[
        ("mpi.c", include_str!("../../../drivers/mpi.c")),
        ("rank.h", include_str!("../../../drivers/rank.h")),
    ],
    mpi::find,
);

/// File name of the program with fibers.
const PROGRAM: &str = "daiko-lab-mpi";
/// Time that the ranks may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most memory for the messages of a rank.
const MOST_BYTES: usize = 64 << 20;

#[derive(Clone, Copy)]
struct RankMethod {
    name: &'static str,
    /// The first argument of the program.
    argument: &'static str,
    has_fibers: bool,
    /// The most exchanges that it is measured with.
    most: usize,
}

const METHODS: [RankMethod; 5] = [
    RankMethod { name: "daiko", argument: "latency", has_fibers: true, most: usize::MAX },
    RankMethod { name: "daiko-balanced", argument: "balanced", has_fibers: true, most: usize::MAX },
    RankMethod { name: "mpi-waitall", argument: "waitall", has_fibers: false, most: usize::MAX },
    RankMethod { name: "mpi-blocking", argument: "blocking", has_fibers: false, most: 1 },
    RankMethod { name: "mpi-threads", argument: "threads", has_fibers: false, most: 100 },
];

/// The CPUs that the ranks may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankCpus {
    All,
    Each,
}

impl Choice for RankCpus {
    const NAMES: &'static [(Self, &'static str)] = &[(Self::All, "all"), (Self::Each, "each")];
}

/// The messages of a sample.
#[derive(Clone, Copy)]
struct Messages {
    exchanges: usize,
    bytes: usize,
    cpus: RankCpus,
}

fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    let own = if quick { vec![1, 100] } else { vec![1, 10, 100, 1000] };
    let exchanges = plan.options.threads.clone().unwrap_or(own);
    let lengths: &[usize] = if quick { &[8] } else { &[8, 4096, 1 << 20] };
    for method in METHODS {
        for &bytes in lengths {
            let fits = |&&count: &&usize| count <= method.most && count * bytes <= MOST_BYTES;
            for &exchanges in exchanges.iter().filter(fits) {
                for cpus in RankCpus::all() {
                    let params = Params::new().with("exchanges", exchanges).with("bytes", bytes);
                    let rounds = method.supports(cpus).map(|()| Rounds::Calibrated { first: 10 });
                    plan.add(method.name, params.with("cpus", cpus), rounds);
                }
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = METHODS.into_iter().find(|known| known.name == method)?;
    let exchanges = params.size("exchanges").filter(|&count| count > 0)?;
    let bytes = params.size("bytes").filter(|&bytes| bytes >= 8)?;
    let messages = Messages { exchanges, bytes, cpus: params.choice("cpus")? };
    Some(Box::new(move |effort| method.sample(messages, effort)))
}

impl RankMethod {
    /// Fails with the reason to skip.
    fn supports(&self, cpus: RankCpus) -> Result<(), Skip> {
        if cpus == RankCpus::Each && host::cpus() < 2 {
            return Err(Skip::new("two ranks need two CPUs"));
        }
        self.check_program()
    }

    fn check_program(&self) -> Result<(), Skip> {
        DRIVER.supports()?;
        if self.has_fibers { program().map(drop) } else { Ok(()) }
    }

    fn sample(&self, messages: Messages, effort: Effort) -> Result<Sample, Failure> {
        let (elapsed, sum) = self.run(messages, effort.rounds)?;
        let exchanges = messages.exchanges as u64;
        // Each answer is 1 more than the number of the exchange.
        let expected = effort.rounds * exchanges * (exchanges + 1) / 2;
        if sum != expected {
            let line = format!("the sum of the answers is {sum}, not {expected}");
            return Err(Failure::Broken(line));
        }
        Ok(Sample::timed(effort.rounds, 2 * effort.rounds * exchanges, elapsed))
    }

    fn run(&self, messages: Messages, rounds: u64) -> Result<(Duration, u64), Failure> {
        let program = if self.has_fibers { program()? } else { DRIVER.program()? };
        let cpus = host::cpu_list();
        let mut command = mpi::launcher();
        for rank in 0..2 {
            command.args([":"].iter().take(rank)).args(["-n", "1"]);
            let cpu = cpus.get(rank).filter(|_| messages.cpus == RankCpus::Each);
            if let Some(cpu) = cpu {
                command.args(["taskset", "-c", &cpu.to_string()]);
            }
            let numbers = [messages.exchanges as u64, messages.bytes as u64, rounds];
            command.arg(&program).arg(self.argument);
            command.args(numbers.map(|number| number.to_string()));
        }
        told(command)
    }
}

/// Runs the ranks; returns the time and the sum that rank 0 tells.
fn told(command: Command) -> Result<(Duration, u64), Failure> {
    let answer = exchange(command, &[], PATIENCE).or_broken("mpirun")?;
    let reply = String::from_utf8_lossy(answer.reply.as_deref().unwrap_or_default()).into_owned();
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [elapsed, sum] => Ok((Duration::from_nanos(elapsed), sum)),
        _ => {
            let line = last_line(&answer.errors);
            Err(Failure::Broken(format!("mpirun ended with {} and said {line:?}", answer.status)))
        }
    }
}

/// Returns the path of the program with fibers, beside this one.
fn program() -> Result<PathBuf, Skip> {
    let own = env::current_exe();
    let own =
        own.map_err(|error| Skip::new(format!("cannot find this program's file: {error}")))?;
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(Skip::new(format!("{} is not there; `make build-mpi` builds it", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_without_fibers_counts_each_answer() {
        let effort = Effort { rounds: 20, limit: Duration::from_secs(60) };
        for method in METHODS.into_iter().filter(|method| !method.has_fibers) {
            if let Err(skip) = method.check_program() {
                println!("skipped: {}: {skip}", method.name);
                continue;
            }
            let exchanges = method.most.min(3);
            let messages = Messages { exchanges, bytes: 16, cpus: RankCpus::All };
            let sample = method.sample(messages, effort);
            let sample = sample.unwrap_or_else(|failure| panic!("{}: {failure}", method.name));
            assert_eq!(sample.rounds, 20, "{}", method.name);
        }
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 17; echo no rank >&2; exit 3"]);
        let failure = told(command).unwrap_err().to_string();
        assert!(failure.contains("no rank") && failure.contains('3'), "{failure}");
    }
}
