//! Runs every peer through the same rings.

use std::time::Duration;

use super::{external, methods};
use crate::experiments::ring::RingSpec;
use crate::experiments::ring::kernel::harness::testing::{available, ring};
use crate::kit::Failure;

fn run_all(threads: usize, workers: usize) {
    let spec = RingSpec { workers, ..ring(threads, 3) };
    for method in available(methods(), &spec) {
        let outcome = (method.run)(&spec).unwrap_or_else(|failure| {
            panic!("{} with {threads} threads, {workers} workers: {failure}", method.name)
        });
        assert_eq!(outcome.laps, 3, "{}", method.name);
        assert!(outcome.elapsed > Duration::ZERO);
    }
}

#[test]
fn every_peer_does_all_laps_on_one_worker() {
    [2, 3, 10].into_iter().for_each(|threads| run_all(threads, 1));
}

#[test]
fn every_peer_does_all_laps_on_two_workers() {
    [2, 3, 10].into_iter().for_each(|threads| run_all(threads, 2));
}

#[test]
fn names_are_those_of_the_result_format() {
    let names: Vec<_> = methods().iter().map(|method| method.name).collect();
    let format = ["tokio", "tokio-current", "std-park", "crossbeam-channel", "may"];
    assert_eq!(names, [&format[..], &["go", "argobots", "boost-fiber"]].concat());
}

#[test]
fn the_limit_ends_every_peer_early() {
    let spec = RingSpec { limit: Duration::from_millis(200), ..ring(2, u64::MAX / 2) };
    for method in available(methods(), &spec) {
        let outcome = (method.run)(&spec).unwrap_or_else(|failure| {
            panic!("{}: {failure}", method.name);
        });
        assert!(outcome.laps < spec.laps, "{}", method.name);
    }
}

#[test]
fn drivers_find_a_wrong_datum() {
    let spec = ring(3, 10);
    for (name, driver) in [
        ("go", &external::GO),
        ("argobots", &external::ARGOBOTS),
        ("boost-fiber", &external::BOOST_FIBER),
    ] {
        match driver.supports() {
            Ok(()) => {
                let result = external::run_from(driver, &spec, 9);
                let wrong = Failure::WrongDatum { expected: 2, found: 9 };
                assert_eq!(result, Err(wrong), "{}", name);
            }
            Err(skip) => println!("skipped: {}: {skip}", name),
        }
    }
}
