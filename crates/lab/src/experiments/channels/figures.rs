//! The section of the report.

use crate::kit::beside::MethodComparison;
use crate::kit::{Results, Section, Unit};

pub(super) const NAME: &str = "channels";

const COMPARISON: MethodComparison = MethodComparison {
    title: "Channels",
    text: "Time of a message through a channel, by its shape: the number of messages that it holds \
           (any, 128, one, none), and the numbers of producers and consumers; or through one of two channels that \
           a consumer selects from. Fibers, tasks and goroutines have so many workers, kernel \
           threads so many CPUs.",
    kind: "shape",
    quantity: "ns per message",
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME).unit(Unit::Nanoseconds);
    COMPARISON.section(&own).into_iter().collect()
}
