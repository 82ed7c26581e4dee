//! Figures of P1: waiting by polling agents and lightweight threads, Computer System Symposium
//! 2015; Xeon E3-1240 v3, 4 cores, Linux 2.6.32.
//!
//! P1 gives speeds relative to another method, which carry over to another machine.

use crate::kit::{Params, Point};

/// The name of the experiment.
pub(super) const NAME: &str = "ring";

/// CPUs of the machine of P1: its "4 threads" are one per CPU, its "5" one more than CPUs.
pub(super) const P1_CPUS: u64 = 4;

/// P1's own mechanism, run on Daiko.
pub(super) const P1_METHOD: &str = "daiko-watch-p1";

/// Methods with their number of threads, the method of comparison, and the relative speed.
const RATIOS: [(&str, u64, &str, f64); 6] = [
    ("polling", P1_CPUS, "rtsignal", 19.0),
    ("polling", P1_CPUS + 1, "rtsignal", 1.0 / 2557.0),
    // P1 prints no number here ("no faster"). The value follows from the next two.
    ("agent+rtsignal", P1_CPUS + 1, "rtsignal", 5.21 / 5.95),
    (P1_METHOD, P1_CPUS + 1, "rtsignal", 5.21),
    (P1_METHOD, P1_CPUS + 1, "agent+rtsignal", 5.95),
    (P1_METHOD, 1000, "rtsignal", 5.24),
];

/// All of P1's ratios.
pub(super) fn points() -> Vec<Point> {
    let point = |(method, threads, baseline, ratio)| {
        let params =
            Params::new().with("threads", threads).with("cpus", "all").with("baseline", baseline);
        Point::published("P1", NAME, method, params, ratio)
    };
    RATIOS.map(point).into()
}

/// Speed of `method` relative to `baseline`, as published in P1.
pub(super) fn ratio(method: &str, threads: u64, baseline: &str) -> Option<f64> {
    let found = RATIOS.iter().find(|row| (row.0, row.1, row.2) == (method, threads, baseline));
    found.map(|row| row.3)
}
