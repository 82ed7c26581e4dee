//! Compares the verdicts of test programs natively and under a command: the conformance suites of
//! `daiko run`.
//!
//! README.md beside this package describes the suites and the file of expected differences.

mod compare;
mod expected;
mod line;
mod outcomes;
mod round;
mod run;
#[path = "../../../tests/signals.rs"]
mod signals;
mod suite;
mod verdict;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use compare::Comparison;
use expected::Workers;
use line::Line;
use outcomes::Outcomes;

fn main() -> ExitCode {
    let done = execute(&Line::parse()).and_then(|(report, is_good)| {
        io::stdout()
            .write_all(report.as_bytes())
            .map_err(|error| format!("cannot write the report: {error}; free the output"))?;
        Ok(is_good)
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("daiko-conformance: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Returns the report, and true if there is nothing unexpected in it.
fn execute(line: &Line) -> Result<(String, bool), String> {
    let tests = line.tests()?;
    let rounds = line.rounds();
    let Some(command) = line.command()? else {
        return Ok((rounds.run(&tests, None)?.list(), true));
    };
    let expected = line.expected()?;
    let native = match line.native(&tests)? {
        Some(native) => native,
        None => rounds.run(&tests, None)?,
    };
    let mut under = Vec::new();
    for configuration in line.configurations(&command) {
        under.push((configuration.workers, rounds.run(&tests, Some(configuration))?));
    }
    let comparison = Comparison::new(&native, &under, &expected, |test| line.is_asked_for(test));
    let is_good = comparison.unexpected() == 0 && comparison.stale.is_empty();
    Ok((report(&native, &under, &comparison), is_good))
}

fn report(native: &Outcomes, under: &[(Workers, Outcomes)], comparison: &Comparison<'_>) -> String {
    let Comparison { differences, stale, varying } = comparison;
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    lines.extend(stale.iter().chain(varying).cloned());
    lines.push(format!("native: {}", native.counts()));
    for (workers, outcomes) in under {
        lines.push(format!("{workers}: {}", outcomes.counts()));
    }
    let unexpected = comparison.unexpected();
    lines.push(format!(
        "{} expected differences, {unexpected} unexpected, {} stale rows, {} tests not compared",
        differences.len() - unexpected,
        stale.len(),
        varying.len()
    ));
    lines.join("\n") + "\n"
}
