//! P3's figures: the effect of its policy, under the fibers that follow it, and its figures of the
//! existing scheduler, under kernel threads.

use crate::kit::p3::{CPU, EVENTS, FLOWS, SETTLE, UNINTENDED};
use crate::kit::{Params, Point, Unit};

/// The name of the experiment.
pub(super) const NAME: &str = "follow";

pub(super) fn points() -> Vec<Point> {
    let changed = EVENTS.into_iter().chain([("cpu", CPU)]);
    let changed = changed.map(|(stat, [existing, proposed])| {
        point("daiko-follow", stat, Some("existing"), proposed / existing)
    });
    let [settle, longest] = SETTLE;
    let counted = [("settle", settle), ("settle-max", longest)]
        .map(|(stat, count)| Point { unit: Unit::Count, ..point("threads", stat, None, count) });
    let unintended = point("threads", "swaps", Some("migrations"), UNINTENDED);
    changed.chain([unintended]).chain(counted).collect()
}

fn point(method: &str, stat: &str, baseline: Option<&str>, figure: f64) -> Point {
    let params = Params::new().with("flows", FLOWS).with("rfs", "on").with("stat", stat);
    Point::published("P3", NAME, method, params.with_some("baseline", baseline), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p3_has_ratios_of_changed_events_and_counts_of_existing_events() {
        let told = |point: &Point| {
            let params = ["stat", "baseline"].map(|key| point.params.text(key).unwrap_or("none"));
            format!("{} {} {:.3} {}", point.method, params.join(" "), point.median, point.unit)
        };
        assert_eq!(
            points().iter().map(told).collect::<Vec<_>>(),
            [
                "daiko-follow migrations existing 0.519 ratio",
                "daiko-follow llc-load-misses existing 0.980 ratio",
                "daiko-follow llc-store-misses existing 0.949 ratio",
                "daiko-follow dtlb-load-misses existing 0.912 ratio",
                "daiko-follow dtlb-store-misses existing 0.920 ratio",
                "daiko-follow cpu existing 0.949 ratio",
                "threads swaps migrations 0.080 ratio",
                "threads settle none 1.210 count",
                "threads settle-max none 9.000 count",
            ]
        );
    }
}
