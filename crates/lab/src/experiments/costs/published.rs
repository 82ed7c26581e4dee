//! Published figures of P2 and P5.
//!
//! P2: a library of light-weight processes for multiprocessors, University of
//! Electro-Communications, 1998. It states the mutex costs of two libraries.
//!
//! P5: an evaluation of Linux's thread library NPTL, Toshiba. It gives times of NPTL relative to
//! LinuxThreads, its predecessor, on two machines.
//!
//! All points are times and carry `quantity=time`: less is faster.

use crate::kit::{Params, Point};

/// The name of the experiment.
pub(super) const NAME: &str = "costs";

/// P2's table 1, in microseconds: the cost of an uncontended mutex under PTL and under P2's own
/// library, which locks by a semaphore of the kernel.
pub(super) const P2_MUTEX: [(&str, [f64; 2]); 2] =
    [("mutex-lock", [36.0, 58.0]), ("mutex-unlock", [40.0, 58.0])];

/// The machines of P5: the value of `machine` in a point, with processor and kernel.
pub(super) const P5_MACHINES: [(&str, &str); 2] = [
    ("x86", "Pentium 4, 3372 MHz, Linux 2.6.11, glibc 2.3.5"),
    ("mips", "TX49/H4, 333 MHz, Linux 2.6.16, glibc 2.4 for NPTL and 2.3.6 for LinuxThreads"),
];

/// Items that P5 measured as well, with its times of NPTL relative to LinuxThreads on each of
/// [`P5_MACHINES`].
///
/// The semaphore's 2.7 on x86 is printed as 27, beside times of 400 and 150.
pub(super) const P5_RATIOS: [(&str, [f64; 2]); 8] = [
    ("thread-info", [0.92, 0.88]),
    ("mutex", [0.80, 1.1]),
    ("semaphore", [2.7, 1.9]),
    ("switch-mutex", [0.56, 0.31]),
    ("switch-semaphore", [0.54, 0.33]),
    ("switch-condvar", [0.74, 0.45]),
    ("create", [0.39, 0.23]),
    ("join", [0.20, 0.096]),
];

/// All published points. P2's are those of `semop`, as its library locks by kernel semaphores.
pub(super) fn points() -> Vec<Point> {
    let time = |params: Params| params.with("quantity", "time");
    let p2 = P2_MUTEX.map(|(item, [ptl, own])| {
        let params = time(Params::new().with("item", item)).with("baseline", "ptl");
        Point::published("P2", NAME, "semop", params, own / ptl)
    });
    let p5 = P5_MACHINES.iter().enumerate().flat_map(|(index, (machine, _))| {
        P5_RATIOS.map(|(item, ratios)| {
            let params = time(Params::new().with("item", item).with("machine", *machine));
            let params = params.with("baseline", "linuxthreads");
            Point::published("P5", NAME, "nptl", params, ratios[index])
        })
    });
    p2.into_iter().chain(p5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Unit;

    fn told(source: &str) -> Vec<String> {
        let points = points().into_iter();
        let points = points.filter(|point| point.source.as_deref() == Some(source));
        let line = |point: Point| {
            assert_eq!(point.unit, Unit::Ratio);
            let params: Vec<_> = point.params.iter().map(|(_, value)| value.to_string()).collect();
            format!("{} {} {:.3}", point.method, params.join(" "), point.median)
        };
        points.map(line).collect()
    }

    #[test]
    fn p2_has_a_ratio_of_times_for_lock_and_unlock() {
        assert_eq!(
            told("P2"),
            ["semop mutex-lock time ptl 1.611", "semop mutex-unlock time ptl 1.450"]
        );
    }

    #[test]
    fn p5_has_a_ratio_of_times_for_each_item_and_machine() {
        let told = told("P5");
        assert_eq!(told.len(), 16);
        for line in
            ["nptl semaphore x86 time linuxthreads 2.700", "nptl join mips time linuxthreads 0.096"]
        {
            assert!(told.contains(&line.to_owned()), "{told:?}");
        }
    }
}
