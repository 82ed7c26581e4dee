//! The ring's curve, and P1's figures redrawn for this machine.

use super::conclusion::{self, SIGNALS, plain_point};
use super::posix_figure;
use super::published::{self, NAME, P1_CPUS, P1_METHOD};
use crate::kit::experiment::is_ours;
use crate::kit::{
    Baseline, Cell, Chart, Curve, CurveLine, DataTable, Drawing, Family, Mark, Part, Point,
    RatioChart, RatioRow, Reach, Results, Section, format,
};

/// Largest cost of a hop between worker processes.
const HOP: Reach = Reach {
    operation: "hop",
    item: None,
    baseline: Baseline::Same("daiko-borrowed-mover"),
    most: 1.15,
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let conclusion = conclusion::lines(results).map(Section::Conclusion);
    let curve = curve(results).map(Section::Drawing);
    [conclusion, curve, posix_figure::section(results), p1(results), HOP.section(results, NAME)]
        .into_iter()
        .flatten()
        .collect()
}

const RING_TEXT: &str = "Time of one hop against the number of threads in the ring. One of them \
     runs, and all other threads wait. Shuffled order; kernel threads on all allowed CPUs, \
     libraries on one worker where they have one. Marks are medians, bars reach from the fastest \
     to the slowest run.";

const LIMIT_TEXT: &str = " assembly-ring is the limit: a bare switch with no scheduler at all; \
     assembly-ring-own also writes the thread pointer at each switch, as fibers with thread-locals \
     of their own need.";

/// Builds the curve, with one line per method.
fn curve(results: &Results) -> Option<Drawing> {
    let ring = results.of(NAME);
    let sizes = ring.sorted_numbers("threads");
    let methods = ring.methods().into_iter();
    let line = |method| line(method, family(method), &sizes, |n| plain_point(results, method, n));
    let mut lines: Vec<CurveLine> = methods.map(line).collect();
    for method in ["assembly-ring", "assembly-ring-own"] {
        let limit = |size| results.of("limits").method(method).with("threads", size).first();
        lines.push(self::line(method, Family::Limit, &sizes, limit));
    }
    lines.sort_by_key(|line| line.family);
    let label = "Nanoseconds per hop against number of threads, one line per method";
    let curve = Curve::new(label, ["threads in the ring", "ns per hop"], lines);
    let limit = curve.lines.iter().any(|line| line.family == Family::Limit);
    let text = RING_TEXT.to_owned() + if limit { LIMIT_TEXT } else { "" };
    let title = "The ring: time of a hop from thread to thread";
    curve.drawn("ring.svg", title, text)
}

fn line<'a>(
    name: &str,
    family: Family,
    sizes: &[u64],
    point: impl Fn(u64) -> Option<&'a Point>,
) -> CurveLine {
    let mark = |&size: &u64| {
        Some(Mark { x: size as f64, y: point(size)?.spread(), means: format!("n = {size}") })
    };
    CurveLine { name: name.into(), family, marks: sizes.iter().filter_map(mark).collect() }
}

const P1_TEXT: &str = "P1 is the paper that polling agents come from: \"waiting by polling agents and lightweight \
     threads\" (Computer System Symposium 2015; 4 cores, Linux 2.6.32). It compares methods by their speed relative to \
     RT signals; ratios carry over to another machine, nanoseconds do not.";

/// A figure of P1: its number and title, and for each ratio to RT signals, P1's number of threads,
/// the number here, and the method.
type P1Figure = (u32, &'static str, Vec<(u64, u64, &'static str)>);

/// P1's figures, except those without any measured ratio.
fn p1(results: &Results) -> Option<Section> {
    let cpus = results.host.cpus as u64;
    let all = |method| (P1_CPUS, cpus, method);
    let more = |method| (P1_CPUS + 1, cpus.saturating_add(1), method);
    let scale = [10, 100, 1000].into_iter().flat_map(|n| [(n, n, P1_METHOD), (n, n, "daiko")]);
    let agents = ["agent+rtsignal", P1_METHOD, "daiko-watch", "daiko"];
    let figures: [P1Figure; 5] = [
        (3, "Polling, with one thread per CPU", vec![all("polling")]),
        (4, "Polling, with one thread more than CPUs", vec![more("polling")]),
        (6, "An agent that wakes threads by signals", vec![more("agent+rtsignal")]),
        (11, "An agent that switches to fibers", agents.map(more).into()),
        (12, "An agent that switches to fibers, with many threads", scale.collect()),
    ];
    let drawings: Vec<Drawing> =
        figures.iter().filter_map(|figure| p1_drawing(results, figure)).collect();
    let parts = vec![Part::Text(P1_TEXT.into()), Part::Drawings(drawings.clone())];
    (!drawings.is_empty()).then(|| Section::Titled("The figures of P1, redrawn".into(), parts))
}

fn p1_drawing(results: &Results, (number, title, methods): &P1Figure) -> Option<Drawing> {
    let (paper, here, _) = methods[0];
    let several = methods.iter().any(|row| row.1 != here);
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    for &(paper, here, method) in methods {
        let name = if several { format!("{method}, n = {here}") } else { method.to_owned() };
        let published = published::ratio(method, paper, SIGNALS);
        let spread = |method| Some(plain_point(results, method, here)?.spread());
        // Speeds are the inverse of times.
        let measured = Option::zip(spread(SIGNALS), spread(method));
        let measured = measured.map(|(signals, own)| signals.over(own));
        if measured.is_none() && published.is_none() {
            continue;
        }
        cells.push(vec![
            name.as_str().into(),
            Cell::some(spread(method).map(|time| format::number(time.median))),
            Cell::some(measured.map(|ratio| format::ratio(ratio.median))),
            Cell::some(published.map(format::ratio)),
        ]);
        rows.push(RatioRow { name, family: family(method), published, measured });
    }
    rows.iter().find(|row| row.measured.is_some())?;
    let sizes = match several {
        true => "the same numbers of threads".to_owned(),
        false => format!("n = {here} threads here, {paper} in the paper"),
    };
    let derived = match rows.iter().any(|row| row.name == "agent+rtsignal") {
        true => {
            " The paper says \"no faster\" of agent+rtsignal; its ratio follows from 5.21x and 5.95x."
        }
        false => "",
    };
    let chart = RatioChart {
        label: format!("Speed relative to RT signals, measured and published: {title}"),
        axis: "times as fast as RT signals".into(),
        rows,
    };
    let title = format!("P1, figure {number}: {title}");
    let heads = ["ns per hop", "measured", "published"];
    Some(Drawing {
        file: None,
        text: format!(
            "Times as fast as RT signals, {sizes}. Filled: measured here, with range; hollow: published.{derived}"
        ),
        chart: Chart::Ratios(chart),
        has_legend: false,
        table: Some(DataTable::new(title.as_str(), ["method"], heads).with_rows(cells)),
        title,
    })
}

fn family(method: &str) -> Family {
    match method {
        "rtsignal" | "polling" | "agent+rtsignal" | "futex" | "semaphore" | "condvar"
        | "eventfd" | "pipe" | "c-semaphore" | "c-condvar" => Family::Kernel,
        _ if is_ours(method) => Family::Ours,
        _ => Family::Peer,
    }
}

#[cfg(test)]
mod tests {
    use crate::report;
    use crate::testing::made_up::full;

    #[test]
    fn the_published_ratio_stands_beside_the_measured_ratio() {
        let html = report::html(&full());
        let row = r#"<tr><th scope="row">daiko-watch-p1, n = 1000</th><td>1,400</td><td>7.14x</td><td>5.24x</td></tr>"#;
        assert!(html.contains(row), "no such row");
    }

    #[test]
    fn every_figure_of_the_paper_is_redrawn() {
        let html = report::html(&full());
        for number in [3, 4, 6, 11, 12] {
            assert!(html.contains(&format!("P1, figure {number}: ")), "figure {number}");
        }
    }
}
