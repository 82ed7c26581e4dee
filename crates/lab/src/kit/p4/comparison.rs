//! Comparison of results with P4: whether `cross` is better, as in P4, and whether its conclusions
//! hold.

use std::fmt;

use super::published::{BASELINE, CPU_TIME, IO_THROUGHPUT, SPEC};
use super::setting::Setting;
use crate::kit::{Choice, Point, Points, Results, Spread, distinct};

/// Value of `stat` that is 1 if a sample stayed disturbed.
pub(crate) const DISTURBED: &str = "disturbed";

/// IO tasks of set 1, and the IO task of set 2.
pub(crate) const DRAM: &str = "dram";
pub(crate) const PMEM: &str = "pmem";
pub(crate) const RBTREE: &str = "rbtree";

/// `cross` in comparison with another setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Faster: less time, or more throughput.
    Better,
    /// Slower.
    Worse,
    /// Neither, within the range.
    Equal,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equal => "equal",
        })
    }
}

impl Sign {
    /// The sign of `cross`, if another setting has this `value` of `stat` relative to it.
    pub(crate) fn of(value: Spread, stat: &str) -> Self {
        let (is_less, is_more) = (value.max < 1.0, value.min > 1.0);
        let is_better = if stat == CPU_TIME { is_more } else { is_less };
        match is_less || is_more {
            false => Self::Equal,
            true if is_better => Self::Better,
            true => Self::Worse,
        }
    }
}

/// A setting in comparison with `cross`, with one pair of tasks.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// The IO task.
    pub(crate) io: String,
    /// Memory that it writes to: `dax`, `emulated`, `dram`; `None` in a model.
    pub(crate) memory: Option<String>,
    /// The CPU task.
    pub(crate) cpu: String,
    /// Its size, if it has one.
    pub(crate) size: Option<u64>,
    /// [`CPU_TIME`] or [`IO_THROUGHPUT`].
    pub(crate) stat: &'static str,
    /// The other setting.
    pub(crate) setting: Setting,
    /// Value found here.
    pub(crate) here: Spread,
    /// Value of P4, if it gives one.
    pub(crate) published: Option<Spread>,
    /// Whether a sample of either setting stayed disturbed.
    pub(crate) is_disturbed: bool,
}

impl Comparison {
    /// Whether P4 found the same sign; `None` if it gives no value.
    pub(crate) fn agrees(&self) -> Option<bool> {
        Some(Sign::of(self.published?, self.stat) == Sign::of(self.here, self.stat))
    }

    /// Whether it rests on the work of `nosmt`, which was deduced from this very figure of P4.
    pub(crate) fn is_deduced(&self) -> bool {
        self.setting == Setting::NoSmt && self.stat == CPU_TIME
    }
}

/// Compares all settings of an experiment (`smt`, `smt-model`) with `cross`, in the order of the
/// results.
pub(crate) fn comparisons(results: &Results, experiment: &str) -> Vec<Comparison> {
    let own = results.of(experiment);
    let mut all = Vec::new();
    for cross in own.method(BASELINE).iter() {
        let stat = cross.params.text("stat");
        let Some(stat) = [CPU_TIME, IO_THROUGHPUT].into_iter().find(|known| stat == Some(known))
        else {
            continue;
        };
        let rest = Setting::all().filter(|setting| *setting != Setting::Cross);
        all.extend(rest.filter_map(|setting| compared(results, &own, cross, setting, stat)));
    }
    all
}

fn compared(
    results: &Results,
    own: &Points<'_>,
    cross: &Point,
    setting: Setting,
    stat: &'static str,
) -> Option<Comparison> {
    let point = own.method(setting.name()).filter(|point| point.params == cross.params).first()?;
    // There is no ratio to a base of 0.
    let is_positive = cross.min > 0.0 && cross.median > 0.0 && cross.max > 0.0;
    let here = is_positive.then(|| point.spread().over(cross.spread()))?;
    let is_disturbed = [point, cross].into_iter().any(|point| stayed_disturbed(own, point));
    let text = |key| cross.params.text(key).map(str::to_owned);
    let (io, cpu) = (text("io")?, text("cpu")?);
    let published = published(results, &cross.experiment, setting, [&io, &cpu, stat]);
    let (memory, size) = (text("memory"), cross.params.number("size"));
    Some(Comparison { io, memory, cpu, size, stat, setting, here, published, is_disturbed })
}

fn stayed_disturbed(own: &Points<'_>, point: &Point) -> bool {
    let params = point.params.clone().with("stat", DISTURBED);
    let looked = own.method(&point.method).filter(|other| other.params == params);
    looked.iter().any(|other| other.max > 0.0)
}

/// P4's value for these tasks; for programs, its value for SPEC CPU.
fn published(
    results: &Results,
    experiment: &str,
    setting: Setting,
    [io, cpu, stat]: [&str; 3],
) -> Option<Spread> {
    let cpu = if io == RBTREE { SPEC } else { cpu };
    let wanted = [("io", io), ("cpu", cpu), ("stat", stat)];
    let same = |point: &&Point| {
        point.source.is_some()
            && point.experiment == experiment
            && point.method == setting.name()
            && wanted.iter().all(|(key, value)| point.params.text(key) == Some(value))
    };
    results.points.iter().find(same).map(Point::spread)
}

/// The comparisons with the largest size of each pair of tasks, where P4 reads its ratios off.
pub(crate) fn largest(comparisons: &[Comparison]) -> Vec<&Comparison> {
    let is_largest = |one: &&Comparison| {
        let same = |other: &&Comparison| (&other.io, &other.cpu) == (&one.io, &one.cpu);
        one.size == comparisons.iter().filter(same).map(|other| other.size).max().flatten()
    };
    comparisons.iter().filter(is_largest).collect()
}

/// A conclusion of P4, and the number of cases in which it holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conclusion {
    /// P4's statement.
    pub(crate) statement: &'static str,
    /// Number of cases in which it holds.
    pub(crate) holds: usize,
    /// Number of cases; 0 if it was not measured.
    pub(crate) of: usize,
}

/// Checks P4's conclusions on the medians of the largest sizes. Disturbed points are not counted as
/// cases.
pub(crate) fn conclusions(comparisons: &[Comparison]) -> [Conclusion; 4] {
    let mut largest = largest(comparisons);
    largest.retain(|one| !one.is_disturbed);
    [
        stronger_with_pmem(&largest),
        stronger_with_computing(&largest),
        cross_best(&largest),
        smt_best(&largest),
    ]
}

fn conclusion(statement: &'static str, cases: &[bool]) -> Conclusion {
    let holds = cases.iter().filter(|holds| **holds).count();
    Conclusion { statement, holds, of: cases.len() }
}

/// A median measured here.
fn median(all: &[&Comparison], io: &str, cpu: &str, stat: &str, setting: Setting) -> Option<f64> {
    let same = |one: &&&Comparison| {
        (one.io.as_str(), one.cpu.as_str(), one.stat, one.setting) == (io, cpu, stat, setting)
    };
    all.iter().find(same).map(|one| one.here.median)
}

/// The CPU tasks of set 1.
pub(crate) const COMPUTE: [&str; 3] = ["idiv", "product", "sum"];

fn stronger_with_pmem(all: &[&Comparison]) -> Conclusion {
    let case = |cpu: &&str| {
        let time = |io| median(all, io, cpu, CPU_TIME, Setting::Parallel);
        Some(time(PMEM)? > time(DRAM)?)
    };
    let cases: Vec<bool> = COMPUTE.iter().filter_map(case).collect();
    conclusion(
        "pairing shortens run times more where the IO task writes to persistent memory than where to DRAM",
        &cases,
    )
}

fn stronger_with_computing(all: &[&Comparison]) -> Conclusion {
    let mut cases = Vec::new();
    for io in [PMEM, DRAM] {
        let time = |cpu| median(all, io, cpu, CPU_TIME, Setting::Parallel);
        // The sums are the most memory-bound.
        let less = time("sum");
        let more = ["idiv", "product"].into_iter().filter_map(time);
        cases.extend(more.zip(less.into_iter().cycle()).map(|(more, less)| more > less));
    }
    conclusion(
        "pairing shortens run times more, the more the CPU task computes: divisions and products more than sums",
        &cases,
    )
}

/// For each pair of tasks, the result of `case` on the throughputs of other settings relative to
/// `cross`.
fn throughputs(
    all: &[&Comparison],
    case: impl Fn(&dyn Fn(Setting) -> Option<f64>) -> Option<bool>,
) -> Vec<bool> {
    let pairs = distinct(all.iter().map(|one| (one.io.as_str(), one.cpu.as_str())));
    let of_pair = |(io, cpu)| case(&|setting| median(all, io, cpu, IO_THROUGHPUT, setting));
    pairs.into_iter().filter_map(of_pair).collect()
}

/// P4 has all settings in figure 3, and all measured settings in figure 5.
fn cross_best(all: &[&Comparison]) -> Conclusion {
    let cases = throughputs(all, |of| {
        let rest: Vec<f64> = Setting::all().filter_map(of).collect();
        (!rest.is_empty()).then(|| rest.iter().all(|other| *other < 1.0))
    });
    conclusion(
        "cross has the most IO throughput of all settings that were measured, beside every CPU task",
        &cases,
    )
}

fn smt_best(all: &[&Comparison]) -> Conclusion {
    let cases = throughputs(all, |of| Some(of(Setting::Parallel)? > of(Setting::NoSmt)?));
    conclusion("parallel has more IO throughput than nosmt beside every CPU task", &cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(min: f64, max: f64) -> Spread {
        Spread { median: f64::midpoint(min, max), min, max, is_disturbed: false }
    }

    #[test]
    fn cross_is_better_where_other_settings_take_longer_or_do_less() {
        for (stat, min, max, sign) in [
            (CPU_TIME, 1.1, 1.2, Sign::Better),
            (CPU_TIME, 0.8, 0.9, Sign::Worse),
            (IO_THROUGHPUT, 1.1, 1.2, Sign::Worse),
            (IO_THROUGHPUT, 0.8, 0.9, Sign::Better),
            (CPU_TIME, 0.9, 1.1, Sign::Equal),
            (IO_THROUGHPUT, 0.9, 1.1, Sign::Equal),
            (CPU_TIME, 1.0, 1.0, Sign::Equal),
        ] {
            assert_eq!(Sign::of(relative(min, max), stat), sign, "{stat} {min} {max}");
        }
    }

    fn comparison(
        io: &str,
        cpu: &str,
        size: Option<u64>,
        stat: &'static str,
        value: f64,
    ) -> Comparison {
        Comparison {
            io: io.into(),
            memory: None,
            cpu: cpu.into(),
            size,
            stat,
            setting: Setting::Parallel,
            here: relative(value, value),
            published: None,
            is_disturbed: false,
        }
    }

    /// Comparisons with P4's run times.
    fn times() -> Vec<Comparison> {
        [("pmem", [1.15, 1.14, 1.0]), ("dram", [0.98, 1.07, 0.92])]
            .into_iter()
            .flat_map(|(io, ratios)| {
                let tasks = COMPUTE.into_iter().zip(ratios);
                tasks.map(move |(cpu, ratio)| comparison(io, cpu, Some(9), CPU_TIME, ratio))
            })
            .collect()
    }

    fn throughput(cpu: &str, parallel: f64, nosmt: f64) -> [Comparison; 2] {
        let of = |value| comparison("rbtree", cpu, None, IO_THROUGHPUT, value);
        [of(parallel), Comparison { setting: Setting::NoSmt, ..of(nosmt) }]
    }

    fn held(comparisons: &[Comparison]) -> [(usize, usize); 4] {
        conclusions(comparisons).map(|conclusion| (conclusion.holds, conclusion.of))
    }

    #[test]
    fn the_figures_of_p4_have_its_conclusions_hold() {
        let mut all = times();
        all.extend(throughput("gzip", 0.9, 0.6));
        all.extend(throughput("xz", 0.94, 0.5));
        assert_eq!(held(&all), [(3, 3), (4, 4), (2, 2), (2, 2)]);
    }

    #[test]
    fn conclusions_fail_where_figures_are_otherwise() {
        let mut all = times();
        all[0].here = relative(0.97, 0.97);
        all.extend(throughput("gzip", 1.1, 0.6));
        all.extend(throughput("xz", 0.5, 0.6));
        assert_eq!(held(&all), [(2, 3), (3, 4), (1, 2), (1, 2)]);
    }

    #[test]
    fn cross_is_best_only_beside_all_settings() {
        let [parallel, nosmt] = throughput("gzip", 0.9, 0.6);
        let shared = |setting| Comparison { setting, ..throughput("gzip", 1.1, 0.6)[0].clone() };
        for setting in [Setting::NoSmt2tCross, Setting::NoSmt2tParallel] {
            let all = [parallel.clone(), nosmt.clone(), shared(setting)];
            assert_eq!(held(&all)[2..], [(0, 1), (1, 1)], "{}", setting.name());
        }
    }

    #[test]
    fn a_point_that_stayed_disturbed_is_no_case() {
        let mut all = times();
        all.extend(throughput("gzip", 0.9, 0.6));
        all.iter_mut().for_each(|one| one.is_disturbed = one.cpu != "product");
        assert_eq!(held(&all), [(1, 1), (0, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn an_unmeasured_claim_has_no_cases() {
        assert_eq!(held(&[]), [(0, 0); 4]);
        assert_eq!(held(&times()[..1]), [(0, 0); 4]);
    }

    #[test]
    fn only_the_largest_size_counts() {
        let mut all = times();
        all.push(comparison("pmem", "idiv", Some(8), CPU_TIME, 0.1));
        assert_eq!(largest(&all).len(), 6);
        assert_eq!(held(&all)[0], (3, 3));
    }
}
