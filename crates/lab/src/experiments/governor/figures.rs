//! CPU cost of waiting against the wake latency.

use crate::kit::{Curve, CurveLine, Family, Mark, Point, Points, Results, Section, Unit, format};

/// The name of the experiment.
pub(super) const NAME: &str = "governor";

/// The method without a runtime.
pub(super) const FUTEX: &str = "futex";

const TEXT: &str = "Each mark is one rate of wake-ups: the CPU time used, in per cent of one CPU, \
     against the median time from a wake to its waiter running, with the fewest agents measured. \
     Lower and further left is better. The tables show the cost of idling and the effect of more \
     agents.";

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let points = results.of(NAME);
    let methods = points.methods().into_iter();
    let lines = methods.map(|method| line(method, &points.method(method))).collect();
    let label = "CPU use against median wake latency, one line per preset";
    let curve = Curve::new(label, ["wake latency, ns (median)", "CPU, % of one"], lines);
    let curve = Curve { linear_y: true, measured_x: true, ..curve };
    let title = "CPU cost of fast wake-ups";
    curve.drawn("governor.svg", title, TEXT).map(Section::Drawing).into_iter().collect()
}

/// Builds one mark per rate, the lowest first, with the fewest agents measured.
fn line(method: &str, points: &Points<'_>) -> CurveLine {
    let fewest = points.iter().map(|point| point.params.number("agents")).min().flatten();
    let points = points.filter(|point| point.params.number("agents") == fewest);
    let mark = |rate: u64| {
        let points = points.with("rate", rate);
        let is_median = |point: &Point| matches!(point.params.text("stat"), None | Some("p50"));
        let latency = points.unit(Unit::Nanoseconds).filter(is_median).first()?;
        let load = points.unit(Unit::CpuPercent).first()?;
        let means = format!("{}/s", format::count(rate));
        Some(Mark { x: latency.median, y: load.spread(), means })
    };
    let marks = points.sorted_numbers("rate").into_iter().filter_map(mark).collect();
    let family = if method == FUTEX { Family::Kernel } else { Family::Ours };
    CurveLine { name: method.into(), family, marks }
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Reading, Unit};
    use crate::testing::{page, points};

    #[test]
    fn the_governor_curve_is_of_the_fewest_agents() {
        let point = |rate: u64, agents: u64| {
            let params = Params::new().with("rate", rate).with("agents", agents);
            let readings = vec![
                Reading::new(Unit::CpuPercent, 1.0),
                Reading::stat(Unit::Nanoseconds, "p50", 400.0),
            ];
            points("governor", "balanced", &params, &readings)
        };
        let all = [point(777, 2), point(1000, 1), point(10, 1)].concat();
        let html = page(all);
        assert!(html.contains("1000/s"), "one agent's mark");
        assert!(!html.contains("777/s"), "a mark of two agents");
    }
}
