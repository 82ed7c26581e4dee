//! P3's figures that the simulation should reproduce.

use crate::kit::p3::{CPU, EVENTS, FLOWS, SETTLE, UNINTENDED};
use crate::kit::{Params, Point, Unit};

/// The name of the experiment.
pub(super) const NAME: &str = "follow-sim";

const FIGURES: [(&str, &str); 6] = [
    ("existing", "migrations"),
    ("existing", "unintended"),
    ("existing", "settle-mean"),
    ("existing", "settle-max"),
    ("follow", "migrations"),
    ("follow", "cpu"),
];

pub(super) fn points() -> Vec<Point> {
    FIGURES.map(|(method, stat)| point(method, stat)).into()
}

fn point(method: &str, stat: &str) -> Point {
    let (unit, baseline) = match (method, stat) {
        ("follow", _) => (Unit::Ratio, Some("existing")),
        (_, "unintended") => (Unit::Ratio, Some("migrations")),
        (_, "migrations") => (Unit::PerSecond, None),
        _ => (Unit::Count, None),
    };
    let params = Params::new().with("cpus", 12u64).with("flows", FLOWS);
    let params = params.with_some("baseline", baseline).with("stat", stat);
    let value = value(method, stat).expect("listed");
    Point { unit, ..Point::published("P3", NAME, method, params, value) }
}

/// P3's figure by method (`existing`, or `follow`, its own policy) and `stat`. Figures of `follow`
/// are relative to `existing`, `unintended` is relative to all migrations.
pub(super) fn value(method: &str, stat: &str) -> Option<f64> {
    let events = EVENTS.into_iter().chain([("cpu", CPU)]).find(|(name, _)| *name == stat);
    match (method, stat) {
        ("existing", "unintended") => Some(UNINTENDED),
        ("existing", "settle-mean") => Some(SETTLE[0]),
        ("existing", "settle-max") => Some(SETTLE[1]),
        ("existing", _) => events.map(|(_, [existing, _])| existing),
        ("follow", _) => events.map(|(_, [existing, proposed])| proposed / existing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_existing_events_and_ratios_of_changed_events() {
        let told = |point: &Point| {
            let params = ["stat", "baseline"].map(|key| point.params.text(key).unwrap_or("none"));
            format!("{} {} {:.3} {}", point.method, params.join(" "), point.median, point.unit)
        };
        assert_eq!(
            points().iter().map(told).collect::<Vec<_>>(),
            [
                "existing migrations none 2200.000 1/s",
                "existing unintended migrations 0.080 ratio",
                "existing settle-mean none 1.210 count",
                "existing settle-max none 9.000 count",
                "follow migrations existing 0.519 ratio",
                "follow cpu existing 0.949 ratio",
            ]
        );
        assert_eq!(value("follow", "migrations"), Some(1142.0 / 2200.0));
        assert_eq!(value("follow", "swaps"), None);
    }
}
