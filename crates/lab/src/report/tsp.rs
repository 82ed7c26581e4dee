//! P2's figure, redrawn: the time of the travelling salesman against the number
//! of cities.

use super::{
    chart::{Family, Line, LineChart, LinePoint, Span},
    figures::{Figure, span},
};
use crate::{
    experiment::Unit,
    format,
    results::{Point, Results},
};

const SEQUENTIAL: &str = "sequential";
/// P2 gives a figure for this many cities.
const P2_CITIES: u64 = 11;

const TEXT: &str = "Time of one search against the number of cities n, with one thread for each of the \
     (n - 1)(n - 2) subtrees of the second level; sequential has no threads. Paths are compared with a copy \
     of the best length outside the lock; the tables tell what it costs to lock for each comparison. P2 (two \
     Pentium Pro, FreeBSD 3.0) compared PTL, a library that has all threads on one CPU, with its own, which \
     has a process on each. Few cities: both slower than without threads, and about equal. Many cities: PTL \
     about as slow as without threads, its own faster; with 11 cities it took about 60% of PTL's time.";

/// The curve: one line per method and number of workers.
pub(super) fn curve(results: &Results) -> Option<Figure> {
    let lines = lines(results);
    let text = TEXT.to_owned() + &here(&lines);
    let chart = LineChart {
        label: "Time of a search against number of cities, one line per method".into(),
        x: "cities".into(),
        y: "ms per search".into(),
        ticks_at_values: true,
        linear_x: true,
        linear_y: false,
        name_ends: false,
        lines,
    };
    (!chart.lines.is_empty()).then(|| {
        Figure::of_lines("P2, figure 2: The travelling salesman by threads", &text, &chart)
    })
}

fn lines(results: &Results) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for point in results.measured().filter(|point| is_drawn(point)) {
        let Some(mark) = mark(point) else { continue };
        let name = name(point);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(mark),
            None => lines.push(Line { name, family: family(&point.method), points: vec![mark] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    lines.sort_by_key(|line| line.family);
    lines
}

/// A time, of a search that locks seldom if it locks.
fn is_drawn(point: &Point) -> bool {
    point.experiment == "tsp"
        && point.unit == Unit::Nanoseconds
        && matches!(point.params.text("prune"), None | Some("relaxed"))
}

fn mark(point: &Point) -> Option<LinePoint> {
    let cities = point.params.number("cities")?;
    let Span { median, min, max } = span(point);
    let y = Span { median: median / 1e6, min: min / 1e6, max: max / 1e6 };
    Some(LinePoint { x: cities as f64, y, means: format!("{cities} cities") })
}

fn name(point: &Point) -> String {
    match point.params.number("workers") {
        None => point.method.clone(),
        Some(1) => format!("{}, 1 worker", point.method),
        Some(workers) => format!("{}, {workers} workers", point.method),
    }
}

fn family(method: &str) -> Family {
    match method {
        SEQUENTIAL => Family::Alone,
        "nptl" => Family::Kernel,
        _ => Family::Ours,
    }
}

/// What this run says where the paper gives a figure.
fn here(lines: &[Line]) -> String {
    let time = |line: &Line| {
        let mark = line.points.iter().find(|mark| mark.x == P2_CITIES as f64)?;
        Some(mark.y.median)
    };
    let alone = lines.iter().find(|line| line.family == Family::Alone).and_then(time);
    let Some(alone) = alone.filter(|&alone| alone > 0.0) else { return String::new() };
    let part = |line: &Line| {
        Some(format!("{} {}%", line.name, format::number(time(line)? / alone * 100.0)))
    };
    let others = lines.iter().filter(|line| line.family != Family::Alone);
    let parts: Vec<String> = others.filter_map(part).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" Here, with {P2_CITIES} cities, of the time without threads: {}.", parts.join("; "))
}
