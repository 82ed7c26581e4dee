//! Goroutines, and threads of Argobots, in programs of their own: `drivers/forkjoin.go` and
//! `drivers/forkjoin-argobots.cpp`.

use std::process::Command;
use std::time::Duration;

use super::clock::WorkClock;
use super::work::{LEAF, Task, Work};
use crate::kit::argobots;
use crate::kit::driver::Driver;
use crate::kit::exchange::exchange;
use crate::kit::failure::last_line;
use crate::kit::ring::program::find_go;
use crate::kit::{Failure, OrFailure};

/// A goroutine for each fork.
pub(super) static GOROUTINES: Driver =
    Driver::new(&[("forkjoin.go", include_str!("../../../drivers/forkjoin.go"))], find_go);

/// A thread of Argobots for each fork, on execution streams that steal from each other.
pub(super) static ARGOBOTS_THREADS: Driver = Driver::new(
    &[("forkjoin-argobots.cpp", include_str!("../../../drivers/forkjoin-argobots.cpp"))],
    argobots::find_cpp,
);

/// Time that the program may take for set-up and the first round.
const SET_UP: Duration = Duration::from_secs(20);

pub(super) fn run_goroutines(
    work: Work,
    workers: usize,
    clock: &mut WorkClock,
) -> Result<(), Failure> {
    run(&GOROUTINES, work, workers, clock)
}

pub(super) fn run_argobots(
    work: Work,
    workers: usize,
    clock: &mut WorkClock,
) -> Result<(), Failure> {
    run(&ARGOBOTS_THREADS, work, workers, clock)
}

fn run(driver: &Driver, work: Work, workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    let (name, size, leaf) = match work.task() {
        Task::Fib(number, leaf) => ("fib", number, leaf),
        Task::Tree(values) => ("tree", values.len() as u64, 0),
        Task::Sort(numbers) => ("sort", numbers.len() as u64, LEAF as u64),
    };
    let effort = clock.effort;
    let limit = u64::try_from(effort.limit.as_nanos()).unwrap_or(u64::MAX);
    let mut command = Command::new(driver.program()?);
    command.arg(name);
    command.args([size, leaf, workers as u64, effort.rounds, limit].map(|n| n.to_string()));
    let answer = exchange(command, &[], effort.limit + SET_UP).or_broken("the driver")?;
    let reply = String::from_utf8_lossy(answer.reply.as_deref().unwrap_or_default()).into_owned();
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[elapsed, rounds, kib, result] = &numbers[..] else {
        let told = last_line(&answer.errors);
        return Err(Failure::Broken(format!(
            "the driver ended with {} and said {told:?}",
            answer.status
        )));
    };
    // The program makes the same numbers.
    work.check(result)?;
    clock.done = rounds;
    clock.elapsed = Duration::from_nanos(elapsed);
    clock.grown = Some(kib.saturating_mul(1024));
    Ok(())
}
