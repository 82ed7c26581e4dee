//! Calls of a program in C that uses POSIX threads: native, and on Daiko's workers.

use std::process::Command;
use std::time::Duration;

use super::item::{CostMethod, Item};
use super::threads::on_one_cpu;
use crate::kit::driver::{Driver, Toolchain, find_compiler, words};
use crate::kit::exchange::exchange;
use crate::kit::failure::last_line;
use crate::kit::{Effort, Failure, OrFailure, Sample, Skip, dropin};

pub(super) const NATIVE: CostMethod = CostMethod::new(
    "c-nptl",
    &[&[
        Item::within(on_one_cpu, "mutex", |effort| natively("mutex", effort)).given(compiler),
        Item::within(on_one_cpu, "semaphore", |effort| natively("semaphore", effort))
            .given(compiler),
        Item::within(on_one_cpu, "create-join", |effort| natively("create-join", effort))
            .given(compiler),
        Item::within(on_one_cpu, "errand", |effort| natively("errand", effort)).given(compiler),
    ]],
);

pub(super) const DROPIN: CostMethod = CostMethod::new(
    "dropin",
    &[&[
        Item::of("mutex", |effort| on_a_worker("mutex", effort)).given(compiler_and_library),
        Item::of("semaphore", |effort| on_a_worker("semaphore", effort))
            .given(compiler_and_library),
        Item::of("create-join", |effort| on_a_worker("create-join", effort))
            .given(compiler_and_library),
        Item::of("errand", |effort| on_a_worker("errand", effort)).given(compiler_and_library),
    ]],
);

static PROGRAM: Driver =
    Driver::new(&[("costs-pthread.c", include_str!("../../../drivers/costs-pthread.c"))], find);

fn find() -> Result<Toolchain, Skip> {
    Ok(Toolchain { after: words("-pthread"), ..find_compiler("cc", "gcc")? })
}

fn compiler() -> Result<(), Skip> {
    PROGRAM.supports()
}

fn compiler_and_library() -> Result<(), Skip> {
    dropin::library()?;
    PROGRAM.supports()
}

/// Operations of a round.
fn operations(item: &str) -> u64 {
    match item {
        "mutex" | "semaphore" => super::calls::PAIRS,
        _ => 1,
    }
}

fn natively(item: &str, effort: Effort) -> Result<Sample, Failure> {
    run(Command::new(PROGRAM.program()?), item, effort).map(|(sample, _)| sample)
}

fn on_a_worker(item: &str, effort: Effort) -> Result<Sample, Failure> {
    let mut command = Command::new(PROGRAM.program()?);
    dropin::preload(&mut command, 1)?;
    let (sample, errors) = run(command, item, effort)?;
    dropin::check(&errors)?;
    Ok(sample)
}

/// Time that the program may take for set-up and for the first round.
const SET_UP: Duration = Duration::from_secs(20);

/// Runs the program. Also returns the text on its standard error.
fn run(mut command: Command, item: &str, effort: Effort) -> Result<(Sample, Vec<u8>), Failure> {
    let limit = u64::try_from(effort.limit.as_nanos()).unwrap_or(u64::MAX);
    command.arg(item).args([effort.rounds, limit].map(|number| number.to_string()));
    let answer = exchange(command, &[], effort.limit + SET_UP).or_broken("the driver")?;
    let reply = String::from_utf8_lossy(answer.reply.as_deref().unwrap_or_default()).into_owned();
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [elapsed, rounds] if answer.status.success() && rounds > 0 => {
            let elapsed = Duration::from_nanos(elapsed);
            Ok((Sample::timed(rounds, rounds * operations(item), elapsed), answer.errors))
        }
        _ => {
            let (status, told) = (answer.status, last_line(&answer.errors));
            Err(Failure::Broken(format!("the driver ended with {status} and said {told:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_the_program_are_told() {
        if let Err(skip) = compiler() {
            println!("skipped: {skip}");
            return;
        }
        let effort = Effort { rounds: 1, limit: Duration::ZERO };
        let told = natively("nonsense", effort).expect_err("no such item").to_string();
        assert_eq!(told, "the driver ended with exit status: 2 and said \"no such item\"");
    }
}
