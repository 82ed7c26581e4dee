//! Throughput of servers, its cost, and latencies, by the number of connections.

use crate::kit::{
    Bar, BarChart, BarGroup, Chart, Curve, CurveLine, Drawing, Family, Mark, Point, Points,
    Results, Section, format,
};

/// The name of the experiment.
pub(super) const NAME: &str = "serve";

const BARS_TEXT: &str = "Requests answered per second of the server's CPU time, in user space and \
     in the kernel, when clients send as fast as it answers; thin lines reach from the slowest to \
     the fastest run. The stores (kv, redis) get requests in the protocol of Redis, nine GET for \
     each SET of 64 bytes; the echoes send back messages of 64 bytes. The server is on one CPU and \
     the client on another, over the loopback. The tables show the requests per second of the \
     clock, and how busy both sides were: if client-cpu is near 100 and server-cpu is not, the \
     client limits the throughput. They also show the share of the least served connection: a \
     server that lets some connections wait works in a smaller memory, and answers more.";

const TOGETHER_TEXT: &str = "The same, where each connection sends sixteen requests together, and \
     the next sixteen when all of them are answered.";

const LOGGED_TEXT: &str = "Stores that write each change to a log on a device, and answer when that is \
     written. The CPU time is that of all threads of the server, which are on its CPU.";

const LATENCY_TEXT: &str = "The time that 99 of 100 requests do not exceed, without pipelining, \
     against the number of connections. Requests are due at random times, at half of each server's \
     own throughput. A latency counts from when a request was due, however long earlier requests \
     take. Marks are medians of runs, bars reach from the fastest to the slowest.";

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let in_memory = results.of(NAME).without("fsync");
    let points = |stat, pipeline: u64| in_memory.with("stat", stat).with("pipeline", pipeline);
    let title = "Serving: requests per second of CPU time";
    let together = format!("{title}, sixteen sent together");
    let drawings = [
        bars("serve.svg", &points("cpu-throughput", 1), title, BARS_TEXT),
        bars("serve-pipeline.svg", &points("cpu-throughput", 16), &together, TOGETHER_TEXT),
        latencies(&points("p99", 1)),
        logged("serve-everysec.svg", results, "everysec", "each second"),
        logged("serve-always.svg", results, "always", "before the reply"),
    ];
    drawings.into_iter().flatten().map(Section::Drawing).collect()
}

/// Builds the bars of stores with a log, a group for each kind of load.
fn logged(file: &'static str, results: &Results, fsync: &str, when: &str) -> Option<Drawing> {
    let points = results.of(NAME).with("stat", "cpu-throughput").with("fsync", fsync);
    let title = format!("Serving from a log that is synchronised {when}: requests per CPU second");
    let loads = points.sorted_numbers("writes").into_iter().flat_map(|writes| {
        let pipelines = points.sorted_numbers("pipeline").into_iter();
        pipelines.map(move |pipeline| (writes, pipeline))
    });
    let groups = loads.flat_map(|(writes, pipeline)| {
        let load = format!("{writes} % SET, {pipeline} at once");
        groups(&points.with("writes", writes).with("pipeline", pipeline), Some(&load))
    });
    let chart = BarChart {
        label: format!("Requests per second of CPU time by load and method: {title}"),
        axis: "requests per CPU second".into(),
        reference: None,
        groups: groups.collect(),
    };
    let is_empty = chart.groups.is_empty();
    (!is_empty).then(|| Drawing::new(file, &title, LOGGED_TEXT, Chart::Bars(chart)))
}

/// Builds a group of bars for each number of connections, with all methods.
fn bars(file: &'static str, points: &Points<'_>, title: &str, text: &str) -> Option<Drawing> {
    let chart = BarChart {
        label: format!("Requests per second of CPU time by connections and method: {title}"),
        axis: "requests per CPU second".into(),
        reference: None,
        groups: groups(points, None),
    };
    (!chart.groups.is_empty()).then(|| Drawing::new(file, title, text, Chart::Bars(chart)))
}

/// Builds the groups of all numbers of connections, with the load in their names.
fn groups(points: &Points<'_>, load: Option<&str>) -> Vec<BarGroup> {
    let bar = |point: &Point| Bar {
        name: point.method.clone(),
        family: family(&point.method),
        value: point.spread(),
    };
    let group = |connections| BarGroup {
        name: [Some(&*many(connections)), load]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
        bars: points.with("connections", connections).iter().map(bar).collect(),
    };
    points.sorted_numbers("connections").into_iter().map(group).collect()
}

/// Builds a line for each method.
fn latencies(points: &Points<'_>) -> Option<Drawing> {
    let mark = |point: &Point| {
        let connections = point.params.number("connections")?;
        Some(Mark { x: connections as f64, y: point.spread(), means: many(connections) })
    };
    let label = "99th percentile of latencies against connections, one line per method";
    let lines = CurveLine::of_methods(points, family, mark);
    let curve = Curve::new(label, ["connections", "ns, 99th percentile"], lines);
    let title = "Serving: latencies at half of a server's throughput";
    curve.drawn("serve-latency.svg", title, LATENCY_TEXT)
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

#[cfg(test)]
mod tests {
    use crate::report::drawings;
    use crate::testing::made_up::full;

    fn drawing(name: &str) -> String {
        let drawing = drawings(&full()).into_iter().find(|(found, _)| *found == name);
        drawing.expect(name).1
    }

    #[test]
    fn servers_are_bars_in_groups_of_connections() {
        let drawing = drawing("serve.svg");
        let heads = ["1 connection", "10k connections"];
        let heads = heads.map(|head| drawing.find(&format!(">{head}</text>")).expect(head));
        assert!(heads.is_sorted(), "{heads:?}");
        assert!(drawing.contains("<title>kv, 1 connection: 200,000 (180,000 to 240,000)</title>"));
        assert_eq!(drawing.matches("<rect class=\"bar ours\"").count(), 2);
        assert_eq!(drawing.matches("<rect class=\"bar kernel\"").count(), 2);
    }

    #[test]
    fn requests_sent_together_have_bars_of_their_own() {
        let drawing = drawing("serve-pipeline.svg");
        assert!(drawing.contains("<title>kv, 1 connection: 1,600,000 ("));
        assert_eq!(drawing.matches("<rect ").count(), 3);
    }

    #[test]
    fn latencies_are_of_single_requests() {
        let drawing = drawing("serve-latency.svg");
        let mark = "<title>redis, 10k connections: 625,000 (562,500 to 750,000)</title>";
        assert!(drawing.contains(mark), "{drawing}");
        assert_eq!(
            drawing.matches("<title>redis, ").count(),
            2,
            "one for each number of connections"
        );
    }
}
