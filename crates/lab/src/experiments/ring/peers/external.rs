//! `go`, `argobots`, `boost-fiber`, if installed.

use std::process::Command;

use super::driver;
use crate::experiments::ring::{Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::argobots;
use crate::kit::driver::{Driver, Toolchain, find_compiler, say, words};
use crate::kit::ring::program::FIRST;
pub(super) use crate::kit::ring::program::GO;
use crate::kit::{Failure, Skip};

macro_rules! sources {
    ($($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../../../drivers/", $name)))),+]
    };
}

/// Explicit hand-off on one execution stream; resume and suspend between two streams.
pub(super) static ARGOBOTS: Driver =
    Driver::new(sources!["ring-argobots.c", "ring.h"], argobots::find_c);

/// A fiber and a buffered channel per thread.
pub(super) static BOOST_FIBER: Driver =
    Driver::new(sources!["ring-boost.cpp", "ring.h"], find_boost_fiber);

/// A library that runs its ring in a program of its own.
pub(super) fn method(name: &'static str, driver: &'static Driver) -> Method {
    let method = Method::new(name, VariedParameters::Library, |spec| run_from(driver, spec, FIRST));
    Method { supports: Box::new(|_| driver.supports()), ..method }
}

/// Runs a ring with the first datum `first`.
pub(super) fn run_from(
    driver: &Driver,
    spec: &RingSpec,
    first: u64,
) -> Result<RingOutcome, Failure> {
    let command = Command::new(driver.program()?);
    driver::run(command, spec, first).map(|(outcome, _)| outcome)
}

fn find_boost_fiber() -> Result<Toolchain, Skip> {
    let compiler = find_compiler("c++", "g++")?;
    let question = "#include <boost/version.hpp>\n\
                    #if !__has_include(<boost/fiber/all.hpp>)\n#error no fiber\n#endif\n\
                    BOOST_LIB_VERSION\n";
    let version = say(&compiler.program, &["-x", "c++", "-E", "-P", "-"], question)
        .ok_or_else(|| Skip::without("not installed", "libboost-fiber-dev"))?;
    let mut before = compiler.before;
    before.push("-std=c++17".into());
    let after = words("-lboost_fiber -lboost_context -pthread");
    Ok(Toolchain { before, after, version: compiler.version + &version, ..compiler })
}
