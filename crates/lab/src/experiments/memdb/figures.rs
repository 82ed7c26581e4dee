//! Transactions per second of CPU time and latencies, by the number of sessions.

use super::point::{LogKind, TransportKind};
use crate::kit::{
    Bar, BarChart, BarGroup, Chart, Choice, Curve, CurveLine, DataTable, Drawing, Family, Mark,
    Part, Point, Points, Results, Section, format,
};

/// The name of the experiment.
pub(super) const NAME: &str = "memdb";

const BARS_TEXT: &str = "Transactions per second of the program's CPU time, in user space and in \
     the kernel, while each session gets its next one as soon as the last is answered. The program \
     is on one CPU, the load on another. The transactions are like those of TPC-C, on 2 warehouses, \
     without texts, think times and some of its tables: these are no figures of TPC-C.";

const LATENCY_TEXT: &str = "The time that 99 of 100 transactions do not exceed, from when one was \
     due, at 5,000 per second for all methods.";

const REACH_TEXT: &str = "The fibers beside the same program on kernel threads and on tokio, with \
     10,000 sessions. Throughput is per second of CPU time.";

/// The peers, and how many times their throughput the fibers should have.
const REACH: [(&str, f64); 2] = [("threads", 1.5), ("tokio", 1.1)];
const REACH_SESSIONS: u64 = 10_000;

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let all = results.of(NAME);
    let mut sections = Vec::new();
    for transport in TransportKind::all() {
        for log in LogKind::all() {
            let own = all.with("transport", transport.name()).with("log", log.name());
            let title = format!("Database, {}", named(transport, log));
            let drawings = [
                bars(&own.with("stat", "cpu-throughput"), &title),
                latencies(&own.with("stat", "p99"), &title),
            ];
            sections.extend(drawings.into_iter().flatten().map(Section::Drawing));
        }
    }
    sections.extend(reach(&all));
    sections
}

fn named(transport: TransportKind, log: LogKind) -> String {
    let transport = match transport {
        TransportKind::InProcess => "sessions in the process of the load",
        TransportKind::Tcp => "sessions over TCP",
    };
    let log = match log {
        LogKind::None => "no log",
        LogKind::Always => "a log that is synchronised before the reply",
    };
    format!("{transport}, {log}")
}

/// Builds a group of bars for each number of sessions, with all methods.
fn bars(points: &Points<'_>, title: &str) -> Option<Drawing> {
    let bar = |point: &Point| Bar {
        name: point.method.clone(),
        family: family(&point.method),
        value: point.spread(),
    };
    let group = |sessions| BarGroup {
        name: many(sessions),
        bars: points.with("sessions", sessions).iter().map(bar).collect(),
    };
    let groups: Vec<_> = points.sorted_numbers("sessions").into_iter().map(group).collect();
    let title = format!("{title}: transactions per second of CPU time");
    let chart = BarChart {
        label: format!("Transactions per second of CPU time by sessions and method: {title}"),
        axis: "transactions per CPU second".into(),
        reference: None,
        groups,
    };
    (!chart.groups.is_empty()).then(|| drawn(title, BARS_TEXT, Chart::Bars(chart)))
}

/// Builds a line for each method.
fn latencies(points: &Points<'_>, title: &str) -> Option<Drawing> {
    let mark = |point: &Point| {
        let sessions = point.params.number("sessions")?;
        Some(Mark { x: sessions as f64, y: point.spread(), means: many(sessions) })
    };
    let label =
        format!("99th percentile of latencies against sessions, one line per method: {title}");
    let lines = CurveLine::of_methods(points, family, mark);
    if lines.is_empty() {
        return None;
    }
    let curve = Curve::new(&label, ["sessions", "ns, 99th percentile"], lines);
    Some(drawn(format!("{title}: latencies"), LATENCY_TEXT, Chart::Curve(curve)))
}

fn drawn(title: String, text: &str, chart: Chart) -> Drawing {
    Drawing { file: None, text: text.into(), title, chart, has_legend: true, table: None }
}

/// Builds a table of the ratios to the peers.
fn reach(all: &Points<'_>) -> Option<Section> {
    let own = all.with("sessions", REACH_SESSIONS);
    let mut rows = Vec::new();
    for transport in TransportKind::all() {
        for log in LogKind::all() {
            let here = own.with("transport", transport.name()).with("log", log.name());
            let median = |method: &str, stat: &str| {
                here.with("stat", stat).method(method).first().map(|point| point.median)
            };
            for (peer, least) in REACH {
                let ratio = |stat| Some(median("daiko", stat)? / median(peer, stat)?);
                let (Some(throughput), Some(p99)) = (ratio("cpu-throughput"), ratio("p99")) else {
                    continue;
                };
                rows.push(vec![
                    named(transport, log).into(),
                    peer.into(),
                    format::ratio(throughput).into(),
                    format!("\u{2265} {least}").into(),
                    format::ratio(p99).into(),
                    "\u{2264} 1".into(),
                ]);
            }
        }
    }
    let heads = ["transactions, ratio", "target", "p99, ratio", "target"];
    let table = DataTable::new("fibers relative to peers", ["sessions", "peer"], heads);
    let table = table.with_rows(rows);
    let is_empty = table.rows.is_empty();
    let parts = vec![Part::Text(REACH_TEXT.into()), Part::Table(table)];
    (!is_empty).then(|| Section::Titled("Database beside its peers".into(), parts))
}

fn many(sessions: u64) -> String {
    format!("{} sessions", format::count(sessions))
}

fn family(method: &str) -> Family {
    match method {
        "threads" => Family::Kernel,
        _ if method.starts_with("daiko") => Family::Ours,
        _ => Family::Peer,
    }
}
