//! What the ring of this run says, in five lines.

use std::path::Path;

use crate::{
    kit::{
        format,
        results::{Point, Results},
    },
    published::{self, P1_METHOD},
};

/// The size of ring that the conclusion is about, if it was measured.
const PREFERRED: u64 = 1000;
/// Ours, best first: the first that was measured stands for all.
const OURS: [&str; 3] = ["daiko", "daiko-mover", "daiko-watch"];
const SIGNALS: &str = "rtsignal";
/// What a user would pick instead.
const OTHERS: [(&str, &str); 3] = [(SIGNALS, "RT signals"), ("futex", "futex"), ("tokio", "tokio")];

/// The point that stands for `method` at `threads` in the ring: shuffled order,
/// all CPUs, one site, fewest workers.
pub fn ring_point<'a>(results: &'a Results, method: &str, threads: u64) -> Option<&'a Point> {
    results
        .measured()
        .filter(|point| {
            let params = &point.params;
            point.experiment == "ring"
                && point.method == method
                && params.number("threads") == Some(threads)
                && params.text("order") == Some("shuffled")
                && matches!(params.text("cpus"), None | Some("all"))
                && matches!(params.number("sites"), None | Some(1))
        })
        .min_by_key(|point| point.params.number("workers"))
}

/// The fastest point of `method` at `threads` in the ring, whatever CPUs and workers it has: what a
/// user would pick.
fn fastest_point<'a>(results: &'a Results, method: &str, threads: u64) -> Option<&'a Point> {
    results
        .measured()
        .filter(|point| {
            point.experiment == "ring"
                && point.method == method
                && point.params.number("threads") == Some(threads)
                && point.params.text("order") == Some("shuffled")
        })
        .min_by(|one, other| one.median.total_cmp(&other.median))
}

/// How many times as fast as `baseline` the ring's `method` is at `threads`.
pub fn ring_ratio(results: &Results, method: &str, baseline: &str, threads: u64) -> Option<f64> {
    Some(
        ring_point(results, baseline, threads)?.median
            / ring_point(results, method, threads)?.median,
    )
}

/// Five lines: what was measured, our hop, others' beside it, what P1
/// published, where the report is. `None` if the ring was not measured.
pub fn lines(results: &Results, report: &Path) -> Option<[String; 5]> {
    let threads = size(results)?;
    let ours = OURS.into_iter().find(|method| ring_point(results, method, threads).is_some());
    Some([
        measured_line(results, threads),
        ours_line(results, threads, ours),
        others_line(results, threads, ours),
        published_line(results, threads, ours),
        format!("Report, with all figures and tables: {}", report.display()),
    ])
}

/// The preferred size, else the largest one with most methods.
fn size(results: &Results) -> Option<u64> {
    let ring = results.measured().filter(|point| point.experiment == "ring");
    let sizes: Vec<u64> = ring.filter_map(|point| point.params.number("threads")).collect();
    let count = |size: &u64| sizes.iter().filter(|other| *other == size).count();
    sizes.iter().copied().max_by_key(|size| (*size == PREFERRED, count(size), *size))
}

fn measured_line(results: &Results, threads: u64) -> String {
    let host = &results.host;
    let cpus = if host.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", host.cpus) };
    let debug = if host.optimised { "" } else { "; a debug build: figures say little" };
    let stopped = if results.interrupted { "; stopped early" } else { "" };
    format!(
        "Measured: one hop of 8 bytes round a ring of {threads} waiting threads, {}, {cpus}{debug}{stopped}",
        host.cpu
    )
}

fn ours_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let Some(point) = ours.and_then(|method| ring_point(results, method, threads)) else {
        return "Daiko: not measured in this run".into();
    };
    format!(
        "Daiko: {} ns a hop ({}; {} to {} in {} runs)",
        format::number(point.median),
        point.method,
        format::number(point.min),
        format::number(point.max),
        point.runs
    )
}

fn others_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let part = |(method, name): (&str, &str)| {
        let Some(point) = fastest_point(results, method, threads) else {
            return format!("{name} not measured");
        };
        let place = match point.params.text("cpus") {
            Some("one") => " on one CPU",
            Some(_) => " on all CPUs",
            None => "",
        };
        let ours = ours.and_then(|ours| ring_point(results, ours, threads));
        let ratio = ours.map_or(String::new(), |ours| {
            format!(" ({} ours)", format::ratio(point.median / ours.median))
        });
        format!("{name} {} ns{place}{ratio}", format::number(point.median))
    };
    format!("Instead, each at its best: {}", OTHERS.map(part).join(", "))
}

fn published_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let published = published::p1_ratio(P1_METHOD, PREFERRED, SIGNALS).expect("a published figure");
    let here = |method| ring_ratio(results, method, SIGNALS, threads).map(format::ratio);
    let scheme =
        here(P1_METHOD).map_or(String::new(), |ratio| format!("; its scheme here {ratio}"));
    let ours = ours.and_then(here).map_or(String::new(), |ratio| format!("; Daiko here {ratio}"));
    let here = match ring_point(results, SIGNALS, threads) {
        Some(_) => scheme + &ours,
        None => "; RT signals not measured in this run".into(),
    };
    format!(
        "Against RT signals on all CPUs: polling agents as published (P1, 2015, n = {PREFERRED}) {}{here}",
        format::ratio(published)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kit::{Case, Params, Reading, Sample, Unit, host::Host},
        runner::{Measured, Schedule, Series},
    };

    fn series(method: &str, threads: u64, key: &str, value: &str, ns: f64) -> Series {
        let params =
            Params::new().with("threads", threads).with("order", "shuffled").with(key, value);
        let case = Case { experiment: "ring".into(), method: method.into(), params };
        let readings = vec![Reading::new(Unit::Nanoseconds, ns)];
        let sample = Sample { rounds: 9, elapsed: Schedule::QUICK.target, readings };
        Series { case, rounds: 9, samples: vec![sample] }
    }

    fn results(series: Vec<Series>) -> Results {
        let measured = Measured { series, ..Measured::default() };
        Results::new(Host::detect(), &measured, Schedule::QUICK)
    }

    #[test]
    fn others_are_at_their_best_and_published_ratios_on_all_cpus() {
        let results = results(vec![
            series("rtsignal", 1000, "cpus", "one", 2000.0),
            series("rtsignal", 1000, "cpus", "all", 5000.0),
            series("rtsignal", 10, "cpus", "all", 1.0),
            series("daiko", 1000, "layout", "free", 10.0),
        ]);
        let lines = lines(&results, Path::new("out/report.html")).expect("a conclusion");
        assert!(lines[0].contains("1000 waiting threads"), "{lines:?}");
        assert!(lines[1].starts_with("Daiko: 10.0 ns a hop"), "{lines:?}");
        assert!(lines[2].contains("RT signals 2,000 ns on one CPU (200x ours)"), "{lines:?}");
        assert!(lines[2].contains("tokio not measured"), "{lines:?}");
        assert!(lines[3].contains("5.24x") && lines[3].ends_with("Daiko here 500x"), "{lines:?}");
        assert!(lines[4].ends_with("out/report.html"), "{lines:?}");
    }

    #[test]
    fn a_run_without_ours_says_so() {
        let results = results(vec![series("futex", 10, "cpus", "all", 4000.0)]);
        let lines = lines(&results, Path::new("r")).expect("a conclusion");
        assert!(lines[0].contains("ring of 10"), "{lines:?}");
        assert_eq!(lines[1], "Daiko: not measured in this run");
        assert!(lines[3].ends_with("; RT signals not measured in this run"), "{lines:?}");
    }

    #[test]
    fn without_a_ring_there_is_no_conclusion() {
        assert_eq!(lines(&results(vec![]), Path::new("r")), None);
    }
}
