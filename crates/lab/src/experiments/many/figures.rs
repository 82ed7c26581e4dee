//! The sections of the report.

use crate::kit::beside::MethodComparison;
use crate::kit::{Results, Section, Unit};

pub(super) const NAME: &str = "many";

const COMPARISON: MethodComparison = MethodComparison {
    title: "Many threads",
    text: "Time of each phase for each of many threads on one worker, and their CPU time: start \
           until all are suspended, wake until all have ended, join; or all sleep once, and end.",
    kind: "stat",
    quantity: "ns per thread",
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME).unit(Unit::Nanoseconds);
    COMPARISON.section(&own).into_iter().collect()
}
