//! What servers answer, what it costs them, and how long that takes, by the number of connections.

use super::{
    bars::{Bar, BarChart, Group},
    chart::{Family, Line, LineChart, LinePoint},
    figures::{Figure, span},
};
use crate::{
    kit::{
        format,
        results::{Point, Results},
    },
    report::table::distinct,
};

const BARS_TEXT: &str = "Requests answered per second of the server's CPU time, in user space and in the kernel, when it is \
     asked as fast as it answers; thin lines reach from the slowest to the fastest run. The stores (kv, redis) are \
     asked by the protocol of Redis, nine GET for each SET of 64 bytes; the echoes send back messages of \
     64 bytes. The server is on one CPU, who asks is on another, over the loopback. The tables tell the requests \
     per second of the clock, and how busy both sides were: where client-cpu is near 100 and server-cpu is \
     not, those are the client's limit. They also tell the share of the connection that was served least: a server \
     that leaves some waiting works in a smaller memory, and answers more.";

const TOGETHER_TEXT: &str = "Likewise, where each connection sends sixteen requests together, and the next ones when all of them \
     are answered.";

const LATENCY_TEXT: &str = "The time that 99 of 100 requests do not exceed, without pipelining, against the number of \
     connections that they come by. Requests are due at random times, each server's own half of what it can \
     answer; a latency is from when a request was due, whatever earlier ones take. Marks are medians of runs, bars \
     reach from the fastest to the slowest.";

/// Figures with the names of their files.
pub(super) fn figures(results: &Results) -> Vec<(&'static str, Figure)> {
    let title = "Serving: requests for a second of CPU time";
    let together = format!("{title}, sixteen sent together");
    let figures = [
        ("serve.svg", bars(results, 1, title, BARS_TEXT)),
        ("serve-pipeline.svg", bars(results, 16, &together, TOGETHER_TEXT)),
        ("serve-latency.svg", latencies(results)),
    ];
    figures.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
}

/// A group of bars for each number of connections, of all methods.
fn bars(results: &Results, pipeline: u64, title: &str, text: &str) -> Option<Figure> {
    let points = points(results, "cpu-throughput", pipeline);
    let mut connections = distinct(points.iter().filter_map(|point| connections(point)));
    connections.sort_unstable();
    let chart = BarChart {
        label: format!("Requests per second of CPU time by connections and method: {title}"),
        axis: "requests per CPU second".into(),
        groups: connections.into_iter().map(|connections| group(&points, connections)).collect(),
    };
    (!chart.groups.is_empty()).then(|| Figure {
        title: title.into(),
        text: text.into(),
        legend: chart.families(),
        drawing: chart.draw(),
        table: None,
    })
}

fn group(points: &[&Point], of: u64) -> Group {
    let bar = |point: &&Point| Bar {
        name: point.method.clone(),
        family: family(&point.method),
        value: span(point),
    };
    let points = points.iter().filter(|point| connections(point) == Some(of));
    Group { name: many(of), bars: points.map(bar).collect() }
}

/// A line for each method.
fn latencies(results: &Results) -> Option<Figure> {
    let points = points(results, "p99", 1);
    let methods = distinct(points.iter().map(|point| point.method.as_str()));
    let mut lines: Vec<Line> = methods.into_iter().map(|method| line(&points, method)).collect();
    lines.sort_by_key(|line| line.family);
    let chart = LineChart {
        label: "99th percentile of latencies against connections, one line per method".into(),
        x: "connections".into(),
        y: "ns, 99th percentile".into(),
        ticks_at_values: true,
        linear_x: false,
        linear_y: false,
        name_ends: false,
        lines,
    };
    let title = "Serving: latencies at half of what a server can answer";
    (!chart.lines.is_empty()).then(|| Figure::of_lines(title, LATENCY_TEXT, &chart))
}

fn line(points: &[&Point], method: &str) -> Line {
    let mark = |point: &&Point| {
        let connections = connections(point)?;
        Some(LinePoint { x: connections as f64, y: span(point), means: many(connections) })
    };
    let of_method = points.iter().filter(|point| point.method == method);
    let mut points: Vec<LinePoint> = of_method.filter_map(mark).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    Line { name: method.to_owned(), family: family(method), points }
}

fn points<'a>(results: &'a Results, stat: &str, pipeline: u64) -> Vec<&'a Point> {
    let is_wanted = |point: &&Point| {
        point.experiment == "serve"
            && point.params.text("stat") == Some(stat)
            && point.params.number("pipeline") == Some(pipeline)
    };
    results.measured().filter(is_wanted).collect()
}

fn connections(point: &Point) -> Option<u64> {
    point.params.number("connections")
}

fn many(connections: u64) -> String {
    match connections {
        1 => "1 connection".into(),
        _ => format!("{} connections", format::count(connections)),
    }
}

fn family(method: &str) -> Family {
    match method {
        "kv" => Family::Ours,
        _ if method.starts_with("echo-daiko") => Family::Ours,
        "echo-threads" => Family::Kernel,
        _ => Family::Peer,
    }
}
