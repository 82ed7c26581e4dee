//! What the papers published, as points beside the measured ones.
//!
//! P1: waiting by polling agents and lightweight threads, Computer System
//! Symposium 2015; Xeon E3-1240 v3, 4 cores, Linux 2.6.32. It gives speeds
//! relative to another method; that is what carries over to another machine.
//!
//! P2: a library of light-weight processes for multiprocessors, University of
//! Electro-Communications, 1998. It gives the time of its application relative to
//! that under another library, and of both libraries what their mutexes cost.
//!
//! P3: wake-ups that consider interrupts which follow the process, Tokyo University of Technology. It counts
//! migrations, misses and CPU use of a kernel under its policy and under the one before.
//!
//! P4: scheduling for persistent memory under simultaneous multithreading, Keio University and AIST. It gives run times and throughputs of
//! its settings relative to `cross`, the one that it proposes.
//!
//! P5: an evaluation of Linux's thread library NPTL, Toshiba. It gives times of
//! NPTL relative to LinuxThreads, its predecessor, on two machines.
//!
//! Points of P2 and P5 are of times, and say so by `quantity=time`: less is faster. Those of P4 are of what their `stat` says.

use crate::{
    experiments::smt::{CPU_TIME, IO_THROUGHPUT},
    kit::{
        experiment::{Params, Unit},
        processes,
        results::Point,
    },
};

/// CPUs of the machine of P1: its "4 threads" are one per CPU, its "5" one
/// more than CPUs.
pub const P1_CPUS: u64 = 4;

/// P1's own mechanism, run on Daiko.
pub const P1_METHOD: &str = "daiko-watch-p1";

/// P2's travelling salesman has a figure for so many cities.
pub const P2_CITIES: u64 = 11;

/// Its machine.
pub const P2_MACHINE: &str = "two Pentium Pro, 150 MHz, 64 MB, FreeBSD 3.0";

/// Processors of [`P2_MACHINE`], on each of which its library has a UNIX process.
pub const P2_CPUS: u64 = 2;

/// Its time relative to that under PTL, a library that has all threads on one of
/// them; "about 60%".
pub const P2_RATIO: f64 = 0.60;

/// Its table 1, in microseconds: what a mutex costs that no other thread wants, under PTL and under its own library,
/// which locks by a semaphore of the kernel.
pub const P2_MUTEX: [(&str, [f64; 2]); 2] =
    [("mutex-lock", [36.0, 58.0]), ("mutex-unlock", [40.0, 58.0])];

/// The machine of P3.
pub const P3_MACHINE: &str =
    "Core i7 980X, 6 cores with 12 threads, 24 GB, Linux 3.2-rc7, Intel 82599 10 GbE, iperf";

/// How many flows its machine received.
pub const P3_FLOWS: u64 = 512;

/// Its table 2: unintended migrations, of all; "8%".
pub const P3_UNINTENDED: f64 = 0.08;

/// How many of those followed one another, on average and at most.
pub const P3_SETTLE: [f64; 2] = [1.21, 9.0];

/// Its table 3: events per second with the scheduler that there was, and with its own.
pub const P3_EVENTS: [(&str, [f64; 2]); 5] = [
    ("migrations", [2200.0, 1142.0]),
    ("llc-load-misses", [7228.0, 7085.0]),
    ("llc-store-misses", [6171.0, 5857.0]),
    ("dtlb-load-misses", [6714.0, 6124.0]),
    ("dtlb-store-misses", [6648.0, 6114.0]),
];

/// Its table 4: CPU use in per cent, likewise.
pub const P3_CPU: [f64; 2] = [25.3, 24.0];

/// The machine of P4.
pub const P4_MACHINE: &str = "Xeon Gold 6230, 2.1 GHz, two cores of one socket, hardware prefetchers off, no power saving, Optane persistent memory";

/// P4's setting to which all others are related.
pub const P4_BASELINE: &str = "cross";

/// A figure of P4: IO task and CPU task, what is related (`stat`), the settings that have it, and their value relative to [`P4_BASELINE`]:
/// from, to where it gives a range.
///
/// It says by how much `cross` is faster, in figures that have `cross` at 1: "15% faster" is a time of 1.15 there, and "25% higher" a
/// throughput of 1/1.25. Of set 2 it gives ranges without the setting that they are related to; here that is `parallel`, which has as many
/// hardware threads. "2 times" and "50%" of throughputs are of all CPU tasks.
pub const P4_RATIOS: [P4Ratio; 16] = [
    p4("pmem", "idiv", CPU_TIME, &["parallel"], [1.15, 1.15]),
    p4("pmem", "idiv", CPU_TIME, &["nosmt", "nosmt-2t-cross", "nosmt-2t-parallel"], [1.70, 1.70]),
    p4("pmem", "product", CPU_TIME, &P4_OTHERS, [1.15, 1.15]),
    p4("pmem", "sum", CPU_TIME, &["parallel"], [1.0, 1.0]),
    p4("pmem", "sum", CPU_TIME, &["nosmt"], [1.27, 1.27]),
    p4("dram", "idiv", CPU_TIME, &["parallel"], [0.98, 0.98]),
    p4("dram", "idiv", CPU_TIME, &["nosmt"], [1.44, 1.44]),
    p4("dram", "product", CPU_TIME, &P4_OTHERS, [1.07, 1.07]),
    p4("dram", "sum", CPU_TIME, &["parallel"], [0.92, 0.92]),
    p4("dram", "sum", CPU_TIME, &["nosmt"], [1.14, 1.14]),
    p4("pmem", P4_ANY, IO_THROUGHPUT, &["parallel"], [1.0 / 1.08, 1.0 / 1.07]),
    p4("pmem", P4_ANY, IO_THROUGHPUT, &["nosmt"], [1.0 / 2.0, 1.0 / 2.0]),
    p4("dram", P4_ANY, IO_THROUGHPUT, &["parallel"], [1.0 / 1.25, 1.0 / 1.25]),
    p4("dram", P4_ANY, IO_THROUGHPUT, &["nosmt"], [1.0 / 1.5, 1.0 / 1.5]),
    p4("rbtree", P4_SPEC, IO_THROUGHPUT, &["parallel"], [1.0 / 1.16, 1.0 / 1.06]),
    p4("rbtree", P4_SPEC, CPU_TIME, &["parallel"], [1.0 / 0.92, 1.0 / 0.72]),
];

/// A row of [`P4_RATIOS`].
#[derive(Clone, Copy, Debug)]
pub struct P4Ratio {
    io: &'static str,
    cpu: &'static str,
    stat: &'static str,
    settings: &'static [&'static str],
    range: [f64; 2],
}

const fn p4(
    io: &'static str,
    cpu: &'static str,
    stat: &'static str,
    settings: &'static [&'static str],
    range: [f64; 2],
) -> P4Ratio {
    P4Ratio { io, cpu, stat, settings, range }
}

const P4_OTHERS: [&str; 4] = ["parallel", "nosmt", "nosmt-2t-cross", "nosmt-2t-parallel"];

/// CPU tasks of P4's set 1; a figure of them all is that of each.
const P4_SET1: [&str; 3] = ["idiv", "product", "sum"];
const P4_ANY: &str = "any";

/// The CPU tasks of P4's set 2: 23 benchmarks, of which it gives ranges.
pub const P4_SPEC: &str = "spec-cpu-2017";

/// A machine of P5: what `machine` of a point says, processor and kernel.
pub const P5_MACHINES: [(&str, &str); 2] = [
    ("x86", "Pentium 4, 3372 MHz, Linux 2.6.11, glibc 2.3.5"),
    ("mips", "TX49/H4, 333 MHz, Linux 2.6.16, glibc 2.4 for NPTL and 2.3.6 for LinuxThreads"),
];

/// Items of `costs` that P5 has too, with its times of NPTL relative to
/// LinuxThreads on each of [`P5_MACHINES`].
///
/// The semaphore's 2.7 on x86 is printed as 27, beside times of 400 and 150.
pub const P5_RATIOS: [(&str, [f64; 2]); 8] = [
    ("thread-info", [0.92, 0.88]),
    ("mutex", [0.80, 1.1]),
    ("semaphore", [2.7, 1.9]),
    ("switch-mutex", [0.56, 0.31]),
    ("switch-semaphore", [0.54, 0.33]),
    ("switch-condvar", [0.74, 0.45]),
    ("create", [0.39, 0.23]),
    ("join", [0.20, 0.096]),
];

/// All published figures.
pub fn points() -> Vec<Point> {
    let mut points = p1_points();
    points.push(p2());
    points.extend(P2_MUTEX.map(|(item, [ptl, own])| p2_mutex(item, own / ptl)));
    points.extend(p3_points());
    points.extend(P3_SIMULATED.map(|(method, stat)| p3_simulated(method, stat)));
    points.extend(["smt", "smt-model"].into_iter().flat_map(p4_points));
    for (index, (machine, _)) in P5_MACHINES.into_iter().enumerate() {
        points.extend(P5_RATIOS.map(|(item, ratios)| p5(item, machine, ratios[index])));
    }
    points
}

fn p1_points() -> Vec<Point> {
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
    let params =
        Params::new().with("threads", threads).with("cpus", "all").with("baseline", baseline);
    published("P1", "ring", method, params, ratio)
}

/// Under what is like P2's library: as many workers, which are processes.
fn p2() -> Point {
    let params = Params::new()
        .with("cities", P2_CITIES)
        .with("workers", P2_CPUS)
        .with("quantity", "time")
        .with("baseline", "ptl");
    published("P2", "tsp", processes::METHOD, params, P2_RATIO)
}

/// Under what its library locks by.
fn p2_mutex(item: &str, ratio: f64) -> Point {
    let params = Params::new().with("item", item).with("quantity", "time").with("baseline", "ptl");
    published("P2", "costs", "semop", params, ratio)
}

/// Of what its policy changes, under the fibers that keep to it; of what there was before, under kernel threads.
fn p3_points() -> Vec<Point> {
    let changed = P3_EVENTS.into_iter().chain([("cpu", P3_CPU)]);
    let changed = changed.map(|(stat, [existing, proposed])| {
        p3("daiko-follow", stat, Some("existing"), proposed / existing)
    });
    let [settle, longest] = P3_SETTLE;
    let counted = [("settle", settle), ("settle-max", longest)]
        .map(|(stat, count)| Point { unit: Unit::Count, ..p3("threads", stat, None, count) });
    let unintended = p3("threads", "swaps", Some("migrations"), P3_UNINTENDED);
    changed.chain([unintended]).chain(counted).collect()
}

fn p3(method: &str, stat: &str, baseline: Option<&str>, figure: f64) -> Point {
    let params = Params::new().with("flows", P3_FLOWS).with("rfs", "on").with("stat", stat);
    let params = match baseline {
        Some(baseline) => params.with("baseline", baseline),
        None => params,
    };
    published("P3", "follow", method, params, figure)
}

/// What a simulator of its policies is to find.
const P3_SIMULATED: [(&str, &str); 6] = [
    ("existing", "migrations"),
    ("existing", "unintended"),
    ("existing", "settle-mean"),
    ("existing", "settle-max"),
    ("follow", "migrations"),
    ("follow", "cpu"),
];

/// A figure of P3 by method (`existing`, or `follow`, its own policy) and `stat`: of `follow` relative to `existing`, `unintended`
/// to all migrations.
pub fn p3_value(method: &str, stat: &str) -> Option<f64> {
    let [existing, proposed] = match stat {
        "cpu" => P3_CPU,
        _ => P3_EVENTS.iter().find(|event| event.0 == stat).map_or([f64::NAN; 2], |event| event.1),
    };
    let value = match (method, stat) {
        ("existing", "unintended") => P3_UNINTENDED,
        ("existing", "settle-mean") => P3_SETTLE[0],
        ("existing", "settle-max") => P3_SETTLE[1],
        ("existing", _) => existing,
        ("follow", _) => proposed / existing,
        _ => return None,
    };
    (!value.is_nan()).then_some(value)
}

fn p3_simulated(method: &str, stat: &str) -> Point {
    let (unit, baseline) = match (method, stat) {
        ("follow", _) => (Unit::Ratio, Some("existing")),
        (_, "unintended") => (Unit::Ratio, Some("migrations")),
        (_, "migrations") => (Unit::PerSecond, None),
        _ => (Unit::Count, None),
    };
    let params = Params::new().with("cpus", 12u64).with("flows", P3_FLOWS);
    let params = match baseline {
        Some(baseline) => params.with("baseline", baseline),
        None => params,
    };
    let value = p3_value(method, stat).expect("listed");
    Point { unit, ..published("P3", "follow-sim", method, params.with("stat", stat), value) }
}

/// Its figures beside those of `experiment`; set 2's are only beside measured ones.
fn p4_points(experiment: &'static str) -> Vec<Point> {
    let rows = P4_RATIOS.iter().filter(|row| experiment == "smt" || row.cpu != P4_SPEC);
    let mut points = Vec::new();
    for P4Ratio { io, cpu, stat, settings, range: [least, most] } in rows {
        let tasks = if *cpu == P4_ANY { &P4_SET1[..] } else { std::slice::from_ref(cpu) };
        for (task, setting) in
            tasks.iter().flat_map(|task| settings.iter().map(move |setting| (task, setting)))
        {
            let params = Params::new().with("io", *io).with("cpu", *task).with("stat", *stat);
            let params = params.with("baseline", P4_BASELINE);
            // Of a range that is all it gives, the middle.
            let middle = f64::midpoint(*least, *most);
            let point = published("P4", experiment, setting, params, middle);
            points.push(Point { min: *least, max: *most, ..point });
        }
    }
    points
}

fn p5(item: &str, machine: &str, ratio: f64) -> Point {
    let params = Params::new()
        .with("item", item)
        .with("machine", machine)
        .with("quantity", "time")
        .with("baseline", "linuxthreads");
    published("P5", "costs", "nptl", params, ratio)
}

fn published(paper: &str, experiment: &str, method: &str, params: Params, ratio: f64) -> Point {
    Point {
        experiment: experiment.into(),
        method: method.into(),
        params,
        unit: Unit::Ratio,
        median: ratio,
        min: ratio,
        max: ratio,
        runs: 0,
        source: Some(paper.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_has_ratios_of_times_for_its_application_and_its_mutex() {
        let points = points();
        let p2 = points.iter().filter(|point| point.source.as_deref() == Some("P2"));
        let told: Vec<String> = p2
            .map(|point| {
                assert_eq!(point.unit, Unit::Ratio);
                let params = point.params.iter().map(|(key, value)| format!(" {key}={value}"));
                let params: String = params.collect();
                format!("{} {}{params}: {:.2}", point.experiment, point.method, point.median)
            })
            .collect();
        assert_eq!(
            told,
            [
                "tsp daiko-processes cities=11 workers=2 quantity=time baseline=ptl: 0.60",
                "costs semop item=mutex-lock quantity=time baseline=ptl: 1.61",
                "costs semop item=mutex-unlock quantity=time baseline=ptl: 1.45",
            ]
        );
    }

    #[test]
    fn p3_has_ratios_of_what_its_policy_changes_and_counts_of_what_there_was() {
        let points = points();
        let p3 = points.iter().filter(|point| point.source.as_deref() == Some("P3"));
        let told: Vec<String> = p3
            .map(|point| {
                let params =
                    ["stat", "baseline"].map(|key| point.params.text(key).unwrap_or("none"));
                let (params, unit) = (params.join(" "), point.unit);
                format!("{} {params} {:.3} {unit}", point.method, point.median)
            })
            .collect();
        assert_eq!(
            told,
            [
                "daiko-follow migrations existing 0.519 ratio",
                "daiko-follow llc-load-misses existing 0.980 ratio",
                "daiko-follow llc-store-misses existing 0.949 ratio",
                "daiko-follow dtlb-load-misses existing 0.912 ratio",
                "daiko-follow dtlb-store-misses existing 0.920 ratio",
                "daiko-follow cpu existing 0.949 ratio",
                "threads swaps migrations 0.080 ratio",
                "threads settle none 1.210 count",
                "threads settle-max none 9.000 count",
                "existing migrations none 2200.000 1/s",
                "existing unintended migrations 0.080 ratio",
                "existing settle-mean none 1.210 count",
                "existing settle-max none 9.000 count",
                "follow migrations existing 0.519 ratio",
                "follow cpu existing 0.949 ratio",
            ]
        );
        assert_eq!(p3_value("follow", "migrations"), Some(1142.0 / 2200.0));
        assert_eq!(p3_value("follow", "swaps"), None);
    }

    #[test]
    fn p4_has_ratios_to_cross_of_times_and_throughputs() {
        let points = points();
        let of = |experiment: &'static str| {
            let own = move |point: &&Point| {
                point.source.as_deref() == Some("P4") && point.experiment == experiment
            };
            points.iter().filter(own).collect::<Vec<_>>()
        };
        let told = |point: &&Point| {
            let params = ["io", "cpu", "stat"].map(|key| point.params.text(key).expect("given"));
            assert_eq!(point.params.text("baseline"), Some("cross"));
            format!("{} {} {:.2} {:.2}", point.method, params.join(" "), point.min, point.max)
        };
        let (measured, modelled) = (of("smt"), of("smt-model"));
        let measured: Vec<String> = measured.iter().map(told).collect();
        let modelled: Vec<String> = modelled.iter().map(told).collect();
        // Seven rows of times are of one setting, one of three, two of four; four rows of throughputs of three tasks.
        assert_eq!(
            (measured.len(), modelled.len()),
            (7 + 3 + 2 * 4 + 4 * 3 + 2, 7 + 3 + 2 * 4 + 4 * 3)
        );
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
        assert!(modelled.iter().all(|line| measured.contains(line) && !line.contains("rbtree")));
    }

    #[test]
    fn p5_has_a_ratio_of_times_for_each_item_and_machine() {
        let points = points();
        let p5 = points.iter().filter(|point| point.source.as_deref() == Some("P5"));
        let told: Vec<String> = p5
            .map(|point| {
                assert_eq!(point.unit, Unit::Ratio);
                let params: Vec<_> =
                    point.params.iter().map(|(_, value)| value.to_string()).collect();
                format!(
                    "{} {} {} {}",
                    point.experiment,
                    point.method,
                    params.join(" "),
                    point.median
                )
            })
            .collect();
        assert_eq!(told.len(), 16);
        assert!(
            told.contains(&"costs nptl semaphore x86 time linuxthreads 2.7".into()),
            "{told:?}"
        );
        assert!(told.contains(&"costs nptl join mips time linuxthreads 0.096".into()), "{told:?}");
    }
}
