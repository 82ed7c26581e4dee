//! The section of the report.

use crate::kit::beside::MethodComparison;
use crate::kit::{Results, Section, Unit};

pub(super) const NAME: &str = "mpi";

const COMPARISON: MethodComparison = MethodComparison {
    title: "MPI",
    text: "Time of a message between two ranks of one machine, while each has so many exchanges under way: a fiber \
           each, a kernel thread each, or the requests of one thread. The ranks may use all CPUs, or each has one.",
    kind: "cpus",
    quantity: "ns per message",
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME).unit(Unit::Nanoseconds);
    COMPARISON.section(&own).into_iter().collect()
}
