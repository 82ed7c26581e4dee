//! Rings of a program in C that uses POSIX threads: native, and on Daiko's workers.

use std::process::Command;
use std::thread;

use super::peers::driver;
use super::{Cpus, Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::driver::{Driver, Sources, Toolchain, find_compiler, words};
use crate::kit::ring::program::FIRST;
use crate::kit::{Failure, OrFailure, Skip, dropin, host, thread_limits};

const SOURCES: Sources = &[
    ("ring-pthread.c", include_str!("../../../drivers/ring-pthread.c")),
    ("ring.h", include_str!("../../../drivers/ring.h")),
];

/// A semaphore for each thread.
static SEMAPHORE: Driver = Driver::new(SOURCES, || find(&[]));

/// A mutex and a condition variable for each thread.
static CONDVAR: Driver = Driver::new(SOURCES, || find(&["-DCONDVAR"]));

fn find(definitions: &[&str]) -> Result<Toolchain, Skip> {
    let mut toolchain = find_compiler("cc", "gcc")?;
    toolchain.before.extend(definitions.iter().map(|&definition| definition.to_owned()));
    Ok(Toolchain { after: words("-pthread"), ..toolchain })
}

/// All methods of this module, in the order of tables.
pub(super) fn methods() -> Vec<Method> {
    vec![
        native("c-semaphore", &SEMAPHORE),
        native("c-condvar", &CONDVAR),
        dropin("dropin-semaphore", &SEMAPHORE),
        dropin("dropin-condvar", &CONDVAR),
    ]
}

fn native(name: &'static str, driver: &'static Driver) -> Method {
    let method =
        Method::new(name, VariedParameters::Kernel, |spec| run_natively(driver, spec, FIRST));
    Method { supports: Box::new(|_| driver.supports()), ..method }
}

fn dropin(name: &'static str, driver: &'static Driver) -> Method {
    let method = Method::new(name, VariedParameters::Library, |spec| run(driver, spec, FIRST));
    let supports = |spec: &RingSpec| {
        dropin::library()?;
        // Each has a kernel thread of its own as well.
        thread_limits::check(spec.threads)?;
        driver.supports()
    };
    Method { supports: Box::new(supports), ..method }
}

/// Runs a ring of kernel threads, with the first datum `first`.
fn run_natively(driver: &Driver, spec: &RingSpec, first: u64) -> Result<RingOutcome, Failure> {
    let command = Command::new(driver.program()?);
    let run = || {
        if spec.cpus == Cpus::One {
            let cpu = *host::cpu_list().first().expect("a process has a CPU");
            // The program inherits it.
            host::bind(cpu).or_broken(format_args!("cannot bind to CPU {cpu}"))?;
        }
        driver::run(command, spec, first).map(|(outcome, _)| outcome)
    };
    thread::scope(|scope| scope.spawn(run).join()).expect("no panic")
}

/// Runs the same program on Daiko's workers.
fn run(driver: &Driver, spec: &RingSpec, first: u64) -> Result<RingOutcome, Failure> {
    let mut command = Command::new(driver.program()?);
    dropin::preload(&mut command, spec.workers)?;
    let (outcome, errors) = driver::run(command, spec, first)?;
    dropin::check(&errors)?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::ring::kernel::harness::testing::{available, ring};

    #[test]
    fn every_method_does_all_laps_and_states_its_cpu_time() {
        for (threads, workers, cpus) in
            [(2, 1, Cpus::All), (3, 2, Cpus::One), (10, 1, Cpus::One), (10, 2, Cpus::All)]
        {
            let spec = RingSpec { workers, cpus, ..ring(threads, 20) };
            for method in available(methods(), &spec) {
                let outcome = (method.run)(&spec)
                    .unwrap_or_else(|failure| panic!("{}: {failure}", method.name));
                assert_eq!(outcome.laps, 20, "{}", method.name);
                assert!(outcome.elapsed > Duration::ZERO);
                assert!(outcome.cpu.is_some_and(|cpu| cpu > Duration::ZERO), "{}", method.name);
            }
        }
    }

    #[test]
    fn the_limit_ends_every_method_early() {
        let spec = RingSpec { limit: Duration::from_millis(200), ..ring(2, u64::MAX / 2) };
        for method in available(methods(), &spec) {
            let outcome =
                (method.run)(&spec).unwrap_or_else(|failure| panic!("{}: {failure}", method.name));
            assert!(outcome.laps < spec.laps, "{}", method.name);
        }
    }

    #[test]
    fn a_wrong_datum_is_found() {
        let spec = ring(3, 10);
        let wrong = Err(Failure::WrongDatum { expected: 2, found: 9 });
        for driver in [&SEMAPHORE, &CONDVAR] {
            if let Err(skip) = driver.supports() {
                println!("skipped: {skip}");
                continue;
            }
            assert_eq!(run_natively(driver, &spec, 9), wrong);
            match dropin::library() {
                Ok(_) => assert_eq!(run(driver, &spec, 9), wrong),
                Err(skip) => println!("skipped: {skip}"),
            }
        }
    }
}
