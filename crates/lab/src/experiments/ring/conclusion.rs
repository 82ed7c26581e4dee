//! Conclusion of a run's ring, in four lines.

use super::published::{self, NAME, P1_METHOD};
use crate::kit::{Point, Points, Results, format};

/// Preferred size of the ring for the conclusion, if it was measured.
const PREFERRED: u64 = 1000;
/// Daiko's methods: the default, then the nearest to it. The first measured one represents Daiko.
const OURS: [&str; 6] = [
    "daiko",
    "daiko-own",
    "daiko-own-mover",
    "daiko-borrowed",
    "daiko-borrowed-mover",
    "daiko-watch",
];
pub(super) const SIGNALS: &str = "rtsignal";
/// The alternatives that a user would choose: the methods, of which the fastest counts, and a name.
const BASELINES: [(&[&str], &str); 3] =
    [(&[SIGNALS], "RT signals"), (&["futex"], "futex"), (&["tokio", "tokio-current"], "tokio")];

/// The times of `method` at `threads`, in shuffled order.
fn shuffled<'a>(results: &'a Results, method: &str, threads: u64) -> Points<'a> {
    let points = results.of(NAME).method(method).without("stat");
    points.with("threads", threads).with("order", "shuffled")
}

/// The point that represents `method` at `threads`: shuffled order, all CPUs, one site, fewest
/// workers, stacks of the usual size, the thread register in hardware if there is one.
pub(super) fn plain_point<'a>(
    results: &'a Results,
    method: &str,
    threads: u64,
) -> Option<&'a Point> {
    let plain = |point: &Point| {
        let params = &point.params;
        matches!(params.text("cpus"), None | Some("all"))
            && matches!(params.number("sites"), None | Some(1))
            && params.get("stack-kib").is_none()
    };
    let points = shuffled(results, method, threads).filter(plain);
    points.iter().min_by_key(|point| {
        let by_call = point.params.text("thread-register") == Some("arch_prctl");
        (point.params.number("workers"), by_call)
    })
}

/// The fastest point of `methods` at `threads`, on any CPUs and workers: a user would choose that.
fn fastest_point<'a>(results: &'a Results, methods: &[&str], threads: u64) -> Option<&'a Point> {
    let points = methods.iter().map(|method| shuffled(results, method, threads));
    let points: Vec<&Point> = points.flat_map(|points| points.iter().collect::<Vec<_>>()).collect();
    points.into_iter().min_by(|one, other| one.median.total_cmp(&other.median))
}

/// Speed of `method` at `threads`, relative to RT signals.
fn ratio(results: &Results, method: &str, threads: u64) -> Option<f64> {
    Some(
        plain_point(results, SIGNALS, threads)?.median
            / plain_point(results, method, threads)?.median,
    )
}

/// Builds four lines: the measured point, Daiko's hop, that of other methods beside it, and P1's
/// published ratio. Returns `None` if the ring was not measured.
pub(super) fn lines(results: &Results) -> Option<Vec<String>> {
    let threads = size(results)?;
    let ours = OURS.into_iter().find(|method| plain_point(results, method, threads).is_some());
    Some(vec![
        measured_line(results, threads),
        ours_line(results, threads, ours),
        baselines_line(results, threads, ours),
        published_line(results, threads, ours),
    ])
}

/// The preferred size, else the largest size with the most methods.
fn size(results: &Results) -> Option<u64> {
    let ring = results.of(NAME);
    let sizes: Vec<u64> = ring.iter().filter_map(|point| point.params.number("threads")).collect();
    let count = |size: &u64| sizes.iter().filter(|other| *other == size).count();
    sizes.iter().copied().max_by_key(|size| (*size == PREFERRED, count(size), *size))
}

fn measured_line(results: &Results, threads: u64) -> String {
    let host = &results.host;
    let cpus = if host.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", host.cpus) };
    let debug = if host.optimised { "" } else { "; a debug build: figures say little" };
    let stopped = if results.interrupted { "; stopped early" } else { "" };
    let disturbed = match results.disturbed() {
        (0, _) => String::new(),
        (disturbed, all) => format!("; the machine was disturbed: {disturbed} of {all} values"),
    };
    format!(
        "Measured: one hop of 8 bytes round a ring of {threads} waiting threads, {}, {cpus}{debug}{stopped}{disturbed}",
        host.cpu
    )
}

fn ours_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let Some(point) = ours.and_then(|method| plain_point(results, method, threads)) else {
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

fn baselines_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let part = |(methods, name): (&[&str], &str)| {
        let Some(point) = fastest_point(results, methods, threads) else {
            return format!("{name} not measured");
        };
        let place = match point.params.text("cpus") {
            Some("one") => " on one CPU",
            Some(_) => " on all CPUs",
            None => "",
        };
        let ours = ours.and_then(|ours| plain_point(results, ours, threads));
        let ratio = ours.map_or(String::new(), |ours| {
            format!(" ({} ours)", format::ratio(point.median / ours.median))
        });
        format!("{name} {} ns{place}{ratio}", format::number(point.median))
    };
    format!("Instead, each at its best: {}", BASELINES.map(part).join(", "))
}

fn published_line(results: &Results, threads: u64, ours: Option<&str>) -> String {
    let published = published::ratio(P1_METHOD, PREFERRED, SIGNALS).expect("a published figure");
    let here = |method| ratio(results, method, threads).map(format::ratio);
    let scheme =
        here(P1_METHOD).map_or(String::new(), |ratio| format!("; its scheme here {ratio}"));
    let ours = ours.and_then(here).map_or(String::new(), |ratio| format!("; Daiko here {ratio}"));
    let here = match plain_point(results, SIGNALS, threads) {
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
    use crate::kit::{Params, Unit};
    use crate::testing;

    fn point(method: &str, threads: u64, key: &str, value: &str, ns: f64) -> Point {
        let params =
            Params::new().with("threads", threads).with("order", "shuffled").with(key, value);
        testing::point(NAME, method, params, Unit::Nanoseconds, ns)
    }

    #[test]
    fn cpu_time_is_not_taken_for_the_time_of_a_hop() {
        let cpu = point("futex", 1000, "stat", "cpu", 1.0);
        let results = testing::results(vec![cpu, point("futex", 1000, "cpus", "all", 40.0)]);
        assert_eq!(plain_point(&results, "futex", 1000).map(|point| point.median), Some(40.0));
        let lines = lines(&results).expect("a conclusion");
        assert!(lines[2].contains("futex 40.0 ns on all CPUs"), "{lines:?}");
    }

    #[test]
    fn methods_are_at_their_best_and_published_ratios_on_all_cpus() {
        let results = testing::results(vec![
            point("rtsignal", 1000, "cpus", "one", 2000.0),
            point("rtsignal", 1000, "cpus", "all", 5000.0),
            point("rtsignal", 10, "cpus", "all", 1.0),
            point("daiko", 1000, "layout", "free", 10.0),
        ]);
        let lines = lines(&results).expect("a conclusion");
        assert!(lines[0].contains("1000 waiting threads"), "{lines:?}");
        assert!(lines[1].starts_with("Daiko: 10.0 ns a hop"), "{lines:?}");
        assert!(lines[2].contains("RT signals 2,000 ns on one CPU (200x ours)"), "{lines:?}");
        assert!(lines[2].contains("tokio not measured"), "{lines:?}");
        assert!(lines[3].contains("5.24x") && lines[3].ends_with("Daiko here 500x"), "{lines:?}");
    }

    #[test]
    fn a_thread_register_in_hardware_represents_the_method() {
        let by = |way, ns| point("daiko", 1000, "thread-register", way, ns);
        let both = testing::results(vec![by("arch_prctl", 90.0), by("fsgsbase", 20.0)]);
        let one = testing::results(vec![by("arch_prctl", 90.0)]);
        for (results, ns) in [(both, 20.0), (one, 90.0)] {
            let median = plain_point(&results, "daiko", 1000).map(|point| point.median);
            assert_eq!(median, Some(ns));
        }
    }

    #[test]
    fn a_run_without_ours_says_so() {
        let results = testing::results(vec![point("futex", 10, "cpus", "all", 4000.0)]);
        let lines = lines(&results).expect("a conclusion");
        assert!(lines[0].contains("ring of 10"), "{lines:?}");
        assert_eq!(lines[1], "Daiko: not measured in this run");
        assert!(lines[3].ends_with("; RT signals not measured in this run"), "{lines:?}");
    }

    #[test]
    fn without_a_ring_there_is_no_conclusion() {
        assert_eq!(lines(&testing::results(vec![])), None);
    }
}
