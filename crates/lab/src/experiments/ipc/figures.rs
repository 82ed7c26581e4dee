//! Round trip to another process, against the number of clients and against the length of messages.

use crate::kit::{Curve, CurveLine, Family, Mark, Point, Results, Section, Unit};

/// The name of the experiment.
pub(super) const NAME: &str = "ipc";

/// Placements with their descriptions. The first measured one is drawn.
const PLACEMENTS: [(&str, &str); 2] = [
    ("two-cpus", "The server is on one CPU, all clients are on another."),
    ("one-cpu", "The server and all clients are on one CPU."),
];

const TEXT: &str = "Time from a question of 8 bytes to its answer, against the number of client \
     processes of one server. Marks are medians of batches of calls, without clock readings in \
     between; bars reach from the fastest to the slowest run. spin is the limit: two processes \
     that poll one line of memory; mailbox polls two. Where clients share a CPU, a client that \
     never sleeps is answered at once while it runs, and not at all while other clients run: the \
     tables show the percentiles, the calls of all clients per second, and the slowest client's \
     share of them.";

const TEXT_OF_BYTES: &str = "Median time of a call of a single client, against the bytes of the \
     question, and of the answer. Each side copies or computes every word of a message: the client \
     from its own memory and back to it. mailbox has a place for the question and one for the \
     answer; with the methods that poll one place, the answer replaces the question.";

/// Builds the curves against clients and against bytes.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    by_clients(results).into_iter().chain(by_bytes(results)).collect()
}

/// Builds one line per method: the time of a single client's calls.
fn by_bytes(results: &Results) -> Option<Section> {
    let points = results.of(NAME).unit(Unit::Nanoseconds).with("stat", "p50").with("clients", 1u64);
    let of = |(placement, placed)| {
        let points = points.with("placement", placement);
        (CurveLine::of_methods(&points, family, mark_of_bytes), placed)
    };
    let has_lengths = |lines: &[CurveLine]| lines.iter().any(|line| line.marks.len() > 1);
    let (lines, placed) = PLACEMENTS.into_iter().map(of).find(|(lines, _)| has_lengths(lines))?;
    let label = "Nanoseconds from question to answer against bytes, one line per method";
    let curve = Curve::new(label, ["bytes of a message", "ns per call"], lines);
    let title = "Between processes: short and long messages";
    curve.drawn("ipc-bytes.svg", title, format!("{TEXT_OF_BYTES} {placed}")).map(Section::Drawing)
}

fn mark_of_bytes(point: &Point) -> Option<Mark> {
    let bytes = point.params.number("bytes")?;
    Some(Mark { x: bytes as f64, y: point.spread(), means: format!("{bytes} bytes") })
}

/// Builds one line per method: the round trip of short messages.
fn by_clients(results: &Results) -> Option<Section> {
    let points = results.of(NAME).unit(Unit::Nanoseconds).without("stat").with("bytes", 8u64);
    let of = |(placement, placed)| {
        let points = points.with("placement", placement);
        (CurveLine::of_methods(&points, family, mark), placed)
    };
    let (lines, placed) = PLACEMENTS.into_iter().map(of).find(|(lines, _)| !lines.is_empty())?;
    let label = "Nanoseconds from question to answer against client processes, one line per method";
    let curve = Curve::new(label, ["client processes", "ns per round trip"], lines);
    let (title, text) = ("Between processes: from question to answer", format!("{TEXT} {placed}"));
    curve.drawn("ipc.svg", title, text).map(Section::Drawing)
}

fn mark(point: &Point) -> Option<Mark> {
    let clients = point.params.number("clients")?;
    let means = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
    Some(Mark { x: clients as f64, y: point.spread(), means })
}

fn family(method: &str) -> Family {
    match method {
        "spin" => Family::Limit,
        "mpi" | "redis" | "iceoryx2" => Family::Peer,
        _ if method.starts_with("daiko") => Family::Ours,
        _ => Family::Kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Chart, Drawing};
    use crate::report;
    use crate::testing::made_up::{full, round_trips};
    use crate::testing::{self};

    fn drawing(points: Vec<Point>) -> Drawing {
        match &sections(&testing::results(points))[..] {
            [Section::Drawing(drawing)] => drawing.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_curve_of_processes_is_of_medians_on_two_cpus() {
        let page = report::html(&full());
        assert!(page.contains("<title>spin, 1 client: 111 (99.9 to 133)</title>"));
        let drawing_of_both = drawing([round_trips("one-cpu"), round_trips("two-cpus")].concat());
        let Chart::Curve(Curve { lines, .. }) = drawing_of_both.chart else { panic!("no curve") };
        let tcp = lines.iter().find(|line| line.name == "tcp").expect("a line");
        let marks: Vec<&str> = tcp.marks.iter().map(|mark| mark.means.as_str()).collect();
        assert_eq!(marks, ["1 client", "4 clients", "16 clients"]);
        assert!(
            drawing_of_both.text.ends_with("The server is on one CPU, all clients are on another.")
        );
        let mut long = round_trips("two-cpus");
        for point in &mut long {
            point.params = point.params.clone().with("bytes", 64u64);
        }
        let drawing = drawing([long, round_trips("one-cpu")].concat());
        assert!(drawing.text.ends_with("on one CPU."), "measured points, of short messages");
    }

    #[test]
    fn the_curve_of_lengths_is_of_single_clients() {
        let of_length = |bytes: u64| {
            let mut points = round_trips("two-cpus");
            for point in &mut points {
                point.params = point.params.clone().with("bytes", bytes);
            }
            points
        };
        assert!(by_bytes(&testing::results(of_length(8))).is_none(), "one length is no curve");
        let both = testing::results([of_length(8), of_length(65536)].concat());
        let Some(Section::Drawing(drawing)) = by_bytes(&both) else { panic!("no drawing") };
        let Chart::Curve(Curve { lines, .. }) = drawing.chart else { panic!("no curve") };
        let tcp = lines.iter().find(|line| line.name == "tcp").expect("a line");
        let marks: Vec<&str> = tcp.marks.iter().map(|mark| mark.means.as_str()).collect();
        assert_eq!(marks, ["8 bytes", "65536 bytes"]);
    }
}
