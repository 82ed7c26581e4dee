//! What the papers published, as points beside the measured ones.
//!
//! P1: waiting by polling agents and lightweight threads, Computer System
//! Symposium 2015; Xeon E3-1240 v3, 4 cores, Linux 2.6.32. It gives speeds
//! relative to another method; that is what carries over to another machine.

use crate::{
    experiment::{Params, Unit},
    results::Point,
};

/// CPUs of the machine of P1: its "4 threads" are one per CPU, its "5" one
/// more than CPUs.
pub const P1_CPUS: u64 = 4;

/// P1's own mechanism, run on Daiko.
pub const P1_METHOD: &str = "daiko-watch-p1";

/// All published figures.
pub fn points() -> Vec<Point> {
    vec![
        p1("polling", P1_CPUS, "rtsignal", 19.0),
        p1("polling", P1_CPUS + 1, "rtsignal", 1.0 / 2557.0),
        // Not printed as a number ("no faster"): follows from the next two.
        p1("agent+rtsignal", P1_CPUS + 1, "rtsignal", 5.21 / 5.95),
        p1(P1_METHOD, P1_CPUS + 1, "rtsignal", 5.21),
        p1(P1_METHOD, P1_CPUS + 1, "agent+rtsignal", 5.95),
        p1(P1_METHOD, 1000, "rtsignal", 5.24),
    ]
}

/// How many times as fast as `baseline` P1 found `method`.
pub fn p1_ratio(method: &str, threads: u64, baseline: &str) -> Option<f64> {
    let same = |point: &Point| {
        point.method == method
            && point.params.number("threads") == Some(threads)
            && point.params.text("baseline") == Some(baseline)
    };
    points().into_iter().find(same).map(|point| point.median)
}

fn p1(method: &str, threads: u64, baseline: &str, ratio: f64) -> Point {
    Point {
        experiment: "ring".into(),
        method: method.into(),
        params: Params::new()
            .with("threads", threads)
            .with("cpus", "all")
            .with("baseline", baseline),
        unit: Unit::Ratio,
        median: ratio,
        min: ratio,
        max: ratio,
        runs: 0,
        source: Some("P1".into()),
    }
}
