//! The section of the report.

use crate::kit::beside::MethodComparison;
use crate::kit::{Results, Section, Unit};

pub(super) const NAME: &str = "files";

const COMPARISON: MethodComparison = MethodComparison {
    title: "Files",
    text: "Time of an operation on a page of 4096 bytes of a file, while `depth` threads do such operations: a \
           read of a page that is in the page cache (hit), or on the device only (miss), or a write and fdatasync \
           (fsync). Fibers and tasks have as many workers as there are CPUs.",
    kind: "op",
    quantity: "ns per operation",
};

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(NAME).unit(Unit::Nanoseconds).without("stat");
    COMPARISON.section(&own).into_iter().collect()
}
