use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::*;
use crate::kit::{Failure, Options, Sample, Unit};
use crate::testing::long_enough;

fn cases(options: &Options) -> Vec<String> {
    EXPERIMENT.plan(options).iter().map(|planned| planned.case.to_string()).collect()
}

#[test]
fn names_are_those_of_the_result_format() {
    assert_eq!((EXPERIMENT.methods)(), ["threads", "daiko-pinned", "daiko-mover", "daiko-follow"]);
}

#[test]
fn every_combination_has_one_point() {
    let cases = cases(&Options::default());
    assert_eq!(cases.len(), methods().count() * FLOWS.len() * 2);
    assert!(cases.contains(&"follow daiko-mover flows=512 rfs=on".to_owned()));
    let distinct: BTreeSet<_> = cases.iter().collect();
    assert_eq!(distinct.len(), cases.len(), "none is there twice");
}

#[test]
fn a_quick_run_has_the_points_of_few_flows() {
    let quick = cases(&Options { quick: true, ..Options::default() });
    let all = cases(&Options::default());
    assert!(quick.iter().all(|case| all.contains(case) && !case.contains("128")));
    assert_eq!(quick.len(), methods().count() * 4);
}

#[test]
fn a_point_that_there_is_not_is_refused() {
    let params = |flows: usize| Params::new().with("flows", flows).with("rfs", "on");
    assert!(measure("threads", &params(5)).is_some());
    assert!(measure("tokio", &params(5)).is_none());
    assert!(measure("threads", &params(0)).is_none());
    assert!(measure("threads", &params(1_000_000)).is_none());
    assert!(measure("threads", &params(5).with("rfs", "perhaps")).is_none());
}

const NAME: &str = "every_method_receives_all_that_is_sent";

#[test]
fn every_method_receives_all_that_is_sent() {
    if let Err(skip) = host::two_cpus() {
        println!("skipped: {NAME}: {skip}");
        return;
    }
    for method in methods() {
        for rfs in [false, true] {
            if let Err(skip) = Ground::supports(rfs) {
                println!("skipped: {NAME}: {} {rfs}: {skip}", method.name);
                continue;
            }
            match sample_on_a_thread(method, rfs) {
                Ok(sample) => check(method, &sample),
                Err(Failure::Unavailable(reason)) => println!("skipped: {NAME}: {reason}"),
                Err(failure) => panic!("{} {rfs}: {failure}", method.name),
            }
        }
    }
}

/// Takes a sample on a thread of its own, as sampling enters another network.
fn sample_on_a_thread(method: Receiving, rfs: bool) -> Result<Sample, Failure> {
    long_enough(Duration::from_millis(100), |window| {
        let sample = || FollowSpec { method, flows: 5, rfs, window }.sample();
        let sample = thread::scope(|scope| scope.spawn(sample).join()).expect("no panic")?;
        match sample.rounds {
            0 => Err(Failure::TooShort("nothing has come".into())),
            _ => Ok(sample),
        }
    })
}

fn value(sample: &Sample, unit: Unit, stat: &str) -> f64 {
    let same = |it: &&crate::kit::Reading| it.unit == unit && it.stat.as_deref() == Some(stat);
    let reading = sample.readings.iter().find(same);
    reading.unwrap_or_else(|| panic!("{stat}: {sample:?}")).value
}

fn check(method: Receiving, sample: &Sample) {
    let count = |stat| value(sample, Unit::PerSecond, stat);
    assert!(count("throughput") > 0.0 && count("wakes") > 0.0, "{sample:?}");
    assert!(count("swaps") <= count("migrations") && count("migrations") <= count("wakes"));
    assert!(value(sample, Unit::Nanoseconds, "p99") > 0.0);
    assert!(value(sample, Unit::CpuPercent, "cpu") > 0.0);
    if method.name == "daiko-pinned" {
        assert_eq!(count("migrations"), 0.0, "{sample:?}");
    }
}

#[test]
fn receivers_that_cannot_begin_are_told_with_their_reason() {
    let refused = Receiving {
        name: "refused",
        receive: |_, _| Err(std::io::Error::from_raw_os_error(libc::EMFILE)),
    };
    match sample_on_a_thread(refused, false) {
        Err(Failure::Limit(reason)) => {
            assert!(reason.starts_with("the receivers have ended: Too many"), "{reason}");
        }
        Err(Failure::Unavailable(reason)) => println!("skipped: {reason}"),
        other => panic!("{other:?}"),
    }
}
