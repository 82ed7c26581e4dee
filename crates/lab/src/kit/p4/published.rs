//! P4's figures: run times and throughputs of its settings relative to `cross`, the proposed one.
//! The `stat` of a point states its quantity.

use crate::kit::{Params, Point};

/// Value of `stat` for writes or operations per second of all IO tasks.
pub(crate) const IO_THROUGHPUT: &str = "io-throughput";
/// Value of `stat` for the mean run time of the CPU work.
pub(crate) const CPU_TIME: &str = "cpu-time";

/// The machine of P4.
pub(crate) const MACHINE: &str = "Xeon Gold 6230, 2.1 GHz, two cores of one socket, hardware prefetchers off, no power saving, Optane persistent memory";

/// P4's setting that all other settings are compared with.
pub(crate) const BASELINE: &str = "cross";

/// P4's figures: IO task and CPU task, quantity (`stat`), settings, and their value relative to
/// [`BASELINE`]: from and to, where P4 gives a range.
///
/// P4 states by how much `cross` is faster, in figures that have `cross` at 1: "15% faster" is a
/// time of 1.15 there, and "25% higher" a throughput of 1/1.25. For set 2 it gives ranges without
/// the setting of comparison; here that is `parallel`, which has as many hardware threads. "2
/// times" and "50%" of throughputs hold for all CPU tasks.
pub(crate) const RATIOS: [Ratio; 16] = [
    ("pmem", "idiv", CPU_TIME, &["parallel"], [1.15, 1.15]),
    ("pmem", "idiv", CPU_TIME, &["nosmt", "nosmt-2t-cross", "nosmt-2t-parallel"], [1.70, 1.70]),
    ("pmem", "product", CPU_TIME, &NON_CROSS, [1.15, 1.15]),
    ("pmem", "sum", CPU_TIME, &["parallel"], [1.0, 1.0]),
    ("pmem", "sum", CPU_TIME, &["nosmt"], [1.27, 1.27]),
    ("dram", "idiv", CPU_TIME, &["parallel"], [0.98, 0.98]),
    ("dram", "idiv", CPU_TIME, &["nosmt"], [1.44, 1.44]),
    ("dram", "product", CPU_TIME, &NON_CROSS, [1.07, 1.07]),
    ("dram", "sum", CPU_TIME, &["parallel"], [0.92, 0.92]),
    ("dram", "sum", CPU_TIME, &["nosmt"], [1.14, 1.14]),
    ("pmem", ANY, IO_THROUGHPUT, &["parallel"], [1.0 / 1.08, 1.0 / 1.07]),
    ("pmem", ANY, IO_THROUGHPUT, &["nosmt"], [1.0 / 2.0, 1.0 / 2.0]),
    ("dram", ANY, IO_THROUGHPUT, &["parallel"], [1.0 / 1.25, 1.0 / 1.25]),
    ("dram", ANY, IO_THROUGHPUT, &["nosmt"], [1.0 / 1.5, 1.0 / 1.5]),
    ("rbtree", SPEC, IO_THROUGHPUT, &["parallel"], [1.0 / 1.16, 1.0 / 1.06]),
    ("rbtree", SPEC, CPU_TIME, &["parallel"], [1.0 / 0.92, 1.0 / 0.72]),
];

/// A row of [`RATIOS`].
type Ratio = (&'static str, &'static str, &'static str, &'static [&'static str], [f64; 2]);

const NON_CROSS: [&str; 4] = ["parallel", "nosmt", "nosmt-2t-cross", "nosmt-2t-parallel"];

/// CPU tasks of P4's set 1. A figure of all of them is that of each.
const SET1: [&str; 3] = ["idiv", "product", "sum"];
const ANY: &str = "any";

/// The CPU tasks of P4's set 2: 23 benchmarks, for which it gives ranges.
pub(crate) const SPEC: &str = "spec-cpu-2017";

/// All published points for `experiment`.
pub(crate) fn points(experiment: &str) -> Vec<Point> {
    let mut points = Vec::new();
    for (io, cpu, stat, settings, [least, most]) in &RATIOS {
        let tasks = if *cpu == ANY { &SET1[..] } else { std::slice::from_ref(cpu) };
        for (task, setting) in
            tasks.iter().flat_map(|task| settings.iter().map(move |setting| (task, setting)))
        {
            let params = Params::new().with("io", *io).with("cpu", *task).with("stat", *stat);
            let params = params.with("baseline", BASELINE);
            // If P4 gives only a range, its middle.
            let middle = f64::midpoint(*least, *most);
            let point = Point::published("P4", experiment, setting, params, middle);
            points.push(Point { min: *least, max: *most, ..point });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4_has_ratios_to_cross_of_times_and_throughputs() {
        let told = |point: &Point| {
            let params = ["io", "cpu", "stat"].map(|key| point.params.text(key).expect("given"));
            assert_eq!(point.params.text("baseline"), Some("cross"));
            format!("{} {} {:.2} {:.2}", point.method, params.join(" "), point.min, point.max)
        };
        let [measured, modelled] =
            ["smt", "smt-model"].map(|name| points(name).iter().map(told).collect::<Vec<_>>());
        // Times: seven rows have one setting, one has three, two have four. Throughputs: four rows
        // have three tasks.
        assert_eq!(measured.len(), 7 + 3 + 2 * 4 + 4 * 3 + 2);
        for line in [
            "nosmt-2t-cross pmem idiv cpu-time 1.70 1.70",
            "nosmt dram product cpu-time 1.07 1.07",
            "parallel pmem sum io-throughput 0.93 0.93",
            "nosmt dram idiv io-throughput 0.67 0.67",
            "parallel rbtree spec-cpu-2017 io-throughput 0.86 0.94",
            "parallel rbtree spec-cpu-2017 cpu-time 1.09 1.39",
        ] {
            assert!(measured.contains(&line.into()), "{line}: {measured:?}");
        }
        assert_eq!(measured, modelled);
    }
}
