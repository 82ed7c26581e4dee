//! CPU cost of waiting against the wake latency.

use crate::kit::{Curve, CurveLine, Family, Mark, Point, Points, Results, Section, Unit, format};

/// The name of the experiment.
pub(super) const NAME: &str = "governor";

/// The method without a runtime.
pub(super) const FUTEX: &str = "futex";

/// The method with the runtime of tokio.
pub(super) const TOKIO: &str = "tokio";
/// Tokio's runtime of one thread.
pub(super) const TOKIO_CURRENT: &str = "tokio-current";

const TEXT: &str = "Each line is a preset, a goal (target: a latency; budget: a number of CPUs) or a \
     peer, each mark one rate of wake-ups: the CPU time used, in per cent of one CPU, against the \
     median time from a wake to its waiter running, with the fewest agents measured. Lower and \
     further left is better. The tables show the cost of idling and the effect of more agents.";

const TAIL_TEXT: &str = "The same, against the time that 99 of 100 wakes do not exceed: the one that \
     a target is for.";

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let median = ("p50", "median", "governor.svg", "CPU cost of fast wake-ups", TEXT);
    let tail = ("p99", "99th percentile", "governor-p99.svg", "CPU cost of the tail", TAIL_TEXT);
    let drawn = |(stat, meaning, file, title, text)| {
        curve(results, stat, meaning).drawn(file, title, text).map(Section::Drawing)
    };
    [median, tail].into_iter().filter_map(drawn).collect()
}

/// Builds the curve of CPU use against the latency `stat`.
fn curve(results: &Results, stat: &str, meaning: &str) -> Curve {
    let points = results.of(NAME);
    let methods = points.methods().into_iter();
    let lines = methods.map(|method| line(method, &points.method(method), stat)).collect();
    let label = format!("CPU use against wake latency ({meaning}), by preset, goal and peer");
    let x = format!("wake latency, ns ({meaning})");
    let curve = Curve::new(label, [&x, "CPU, % of one"], lines);
    Curve { measured_x: true, ..curve }
}

/// Builds one mark per rate, the lowest first, with the fewest agents measured.
fn line(method: &str, points: &Points<'_>, stat: &str) -> CurveLine {
    let fewest = points.iter().map(|point| point.params.number("agents")).min().flatten();
    let points = points.filter(|point| point.params.number("agents") == fewest);
    let mark = |rate: u64| {
        let points = points.with("rate", rate);
        let is_wanted = |point: &Point| point.params.text("stat") == Some(stat);
        let latency = points.unit(Unit::Nanoseconds).filter(is_wanted).first()?;
        let load = points.unit(Unit::CpuPercent).first()?;
        let means = format!("{}/s", format::count(rate));
        Some(Mark { x: latency.median, y: load.spread(), means })
    };
    let marks = points.sorted_numbers("rate").into_iter().filter_map(mark).collect();
    CurveLine { name: method.into(), family: family(method), marks }
}

fn family(method: &str) -> Family {
    match method {
        FUTEX => Family::Kernel,
        TOKIO | TOKIO_CURRENT => Family::Peer,
        _ => Family::Ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Params, Reading};
    use crate::testing::{page, points, results};

    fn readings() -> Vec<Reading> {
        vec![
            Reading::new(Unit::CpuPercent, 1.0),
            Reading::stat(Unit::Nanoseconds, "p50", 400.0),
            Reading::stat(Unit::Nanoseconds, "p99", 40_000.0),
        ]
    }

    #[test]
    fn the_governor_curve_is_of_the_fewest_agents() {
        let point = |rate: u64, agents: u64| {
            let params = Params::new().with("rate", rate).with("agents", agents);
            points(NAME, "balanced", &params, &readings())
        };
        let all = [point(777, 2), point(1000, 1), point(10, 1)].concat();
        let html = page(all);
        assert!(html.contains("1000/s"), "one agent's mark");
        assert!(!html.contains("777/s"), "a mark of two agents");
    }

    #[test]
    fn each_preset_goal_and_peer_is_a_line_of_both_curves() {
        let params = Params::new().with("rate", 10u64);
        let of = |method| points(NAME, method, &params, &readings());
        let results = results(["power", "target-10us", TOKIO, FUTEX].map(of).concat());
        for (stat, latency) in [("p50", 400.0), ("p99", 40_000.0)] {
            let lines = curve(&results, stat, "").lines;
            let families: Vec<_> = lines.iter().map(|line| line.family).collect();
            use Family::{Kernel, Ours, Peer};
            assert_eq!(families, [Ours, Ours, Peer, Kernel]);
            assert!(lines.iter().all(|line| line.marks[0].x == latency), "{stat}");
        }
    }
}
