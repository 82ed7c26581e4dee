//! P2's figure, redrawn: the time of the travelling salesman against the number
//! of cities.

use super::{
    chart::{Family, Line, LineChart, LinePoint, Span},
    figures::{Figure, RatioLine, RatioTable, span},
};
use crate::{
    kit::{
        Unit,
        results::{Point, Results},
    },
    published::{P2_CITIES, P2_MACHINE, P2_RATIO},
};

const SEQUENTIAL: &str = "sequential";

/// The line that is like PTL: all threads on one CPU.
const PTL: &str = "daiko, 1 worker";

const TEXT: &str = "Time of one search against the number of cities n, with one thread for each of the \
     (n - 1)(n - 2) subtrees of the second level; sequential has no threads. Paths are compared with a copy \
     of the best length outside the lock; the tables tell what it costs to lock for each comparison.";

/// The curve: one line per method and number of workers.
pub(super) fn curve(results: &Results) -> Option<Figure> {
    let lines = lines(results);
    let text = format!("{TEXT} {}{}", paper(), here(&lines));
    let table = table(&lines);
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
    (!chart.lines.is_empty()).then(|| Figure {
        table,
        ..Figure::of_lines("P2, figure 2: The travelling salesman by threads", &text, &chart)
    })
}

/// What P2 found.
fn paper() -> String {
    format!(
        "P2 ({P2_MACHINE}) compared PTL, a library that has all threads on one CPU, with its own, \
         whose virtual processors are UNIX processes, one for each CPU. Few cities: both slower than without \
         threads, and about equal. Many cities: PTL about as slow as without threads, its own faster; \
         with {P2_CITIES} cities it took about {} of PTL's time.",
        percent(P2_RATIO)
    )
}

/// The time of each line relative to the one that is like PTL, if there is that; beside ours on
/// most workers what P2 published.
fn table(lines: &[Line]) -> Option<RatioTable> {
    let ptl = lines.iter().find(|line| line.name == PTL).and_then(compared)?;
    let ours = lines.iter().rfind(|line| line.family == Family::Ours && line.name != PTL);
    let row = |line: &Line| {
        let time = compared(line)?;
        let published = ours.is_some_and(|ours| ours.name == line.name).then_some(P2_RATIO);
        let (name, measured) = (line.name.clone(), Some(time / ptl));
        Some(RatioLine { name, time: Some(time), measured, published })
    };
    let time = format!("ms, {P2_CITIES} cities");
    Some(RatioTable {
        heads: [time, format!("of the time of {PTL}"), "published, of that of PTL".into()],
        ratio: percent,
        rows: lines.iter().filter_map(row).collect(),
    })
}

fn percent(ratio: f64) -> String {
    format!("{:.0}%", ratio * 100.0)
}

/// The time where P2 gives a figure, in milliseconds.
fn compared(line: &Line) -> Option<f64> {
    let mark = line.points.iter().find(|mark| mark.x == P2_CITIES as f64)?;
    Some(mark.y.median).filter(|&time| time > 0.0)
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
    let alone = lines.iter().find(|line| line.family == Family::Alone).and_then(compared);
    let Some(alone) = alone else { return String::new() };
    let part = |line: &Line| Some(format!("{} {}", line.name, percent(compared(line)? / alone)));
    let others = lines.iter().filter(|line| line.family != Family::Alone);
    let parts: Vec<String> = others.filter_map(part).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" Here, with {P2_CITIES} cities, of the time without threads: {}.", parts.join("; "))
}
