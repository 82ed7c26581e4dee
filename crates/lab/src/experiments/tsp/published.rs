//! A figure of P2: a library of light-weight processes for multiprocessors, University of
//! Electro-Communications, 1998. It gives the time of its application relative to that under
//! another library.

use crate::kit::{Params, Point, processes};

/// The name of the experiment.
pub(super) const NAME: &str = "tsp";

/// Number of cities of P2's figure.
pub(super) const P2_CITIES: u64 = 11;

/// P2's machine.
pub(super) const P2_MACHINE: &str = "two Pentium Pro, 150 MHz, 64 MB, FreeBSD 3.0";

/// Processors of [`P2_MACHINE`]. P2's library has a UNIX process on each.
const P2_CPUS: u64 = 2;

/// P2's time relative to that under PTL, a library that has all threads on one processor; "about
/// 60%".
pub(super) const P2_RATIO: f64 = 0.60;

/// The figure, under the method that corresponds to P2's library: as many workers, which are
/// processes.
pub(super) fn points() -> Vec<Point> {
    let params = Params::new()
        .with("cities", P2_CITIES)
        .with("workers", P2_CPUS)
        .with("quantity", "time")
        .with("baseline", "ptl");
    vec![Point::published("P2", NAME, processes::METHOD, params, P2_RATIO)]
}
