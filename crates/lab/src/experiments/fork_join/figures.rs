//! The section of the report.

use crate::kit::beside::MethodComparison;
use crate::kit::{Results, Section, Unit};

pub(super) const NAME: &str = "fork-join";

const COMPARISON: MethodComparison = MethodComparison {
    title: "Fork and join",
    text: "Time of a whole work that forks and joins: Fibonacci numbers without a cut-off (fib-24) \
           and with one (fib-30), the sum over a tree, a merge sort. One branch of each fork is \
           started as a thread of the method, and joined.",
    kind: "work",
    quantity: "ns",
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME).unit(Unit::Nanoseconds);
    COMPARISON.section(&own).into_iter().collect()
}
