//! What it costs to ask another process, against the number of clients.

use super::{
    chart::{Family, Line, LineChart, LinePoint},
    figures::{Figure, span},
};
use crate::{
    kit::{
        Unit,
        results::{Point, Results},
    },
    report::table::distinct,
};

/// Placements with the words for them; the first that was measured is drawn.
const PLACEMENTS: [(&str, &str); 2] = [
    ("two-cpus", "The server is on one CPU, all clients are on another."),
    ("one-cpu", "The server and all clients are on one CPU."),
];

const TEXT: &str = "From a question of 8 bytes until its answer has come, against the number of client processes \
     of one server. Marks are medians of many calls together, without a clock between them; bars reach \
     from the fastest to the slowest run. spin is the limit: two processes that look at one line of memory. \
     Where clients share a CPU, one that never sleeps is answered at once as long as it runs, and not at \
     all while others do: the tables tell the percentiles, what all clients get in a second, and the slowest \
     client's share of it.";

/// The curve: one line per method.
pub(super) fn curve(results: &Results) -> Option<Figure> {
    let (lines, placed) = PLACEMENTS
        .into_iter()
        .map(|(placement, placed)| (lines(results, placement), placed))
        .find(|(lines, _)| !lines.is_empty())?;
    let chart = LineChart {
        label: "Nanoseconds from question to answer against client processes, one line per method"
            .into(),
        x: "client processes".into(),
        y: "ns per round trip".into(),
        ticks_at_values: true,
        linear_x: false,
        linear_y: false,
        name_ends: false,
        lines,
    };
    let text = format!("{TEXT} {placed}");
    Some(Figure::of_lines("Between processes: from question to answer", &text, &chart))
}

fn lines(results: &Results, placement: &str) -> Vec<Line> {
    let points: Vec<&Point> =
        results.measured().filter(|point| is_drawn(point, placement)).collect();
    let methods = distinct(points.iter().map(|point| point.method.as_str()));
    let mut lines: Vec<Line> = methods.into_iter().map(|method| line(&points, method)).collect();
    lines.retain(|line| !line.points.is_empty());
    lines.sort_by_key(|line| line.family);
    lines
}

/// A round trip's time, of short messages.
fn is_drawn(point: &Point, placement: &str) -> bool {
    let params = &point.params;
    point.experiment == "ipc"
        && point.unit == Unit::Nanoseconds
        && params.get("stat").is_none()
        && params.number("bytes") == Some(8)
        && params.text("placement") == Some(placement)
}

fn line(points: &[&Point], method: &str) -> Line {
    let mark = |point: &&Point| {
        let clients = point.params.number("clients")?;
        let means = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
        Some(LinePoint { x: clients as f64, y: span(point), means })
    };
    let of_method = points.iter().filter(|point| point.method == method);
    let mut points: Vec<LinePoint> = of_method.filter_map(mark).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    Line { name: method.to_owned(), family: family(method), points }
}

fn family(method: &str) -> Family {
    match method {
        "spin" => Family::Limit,
        "mpi" | "redis" => Family::Peer,
        _ if method.starts_with("daiko") => Family::Ours,
        _ => Family::Kernel,
    }
}
