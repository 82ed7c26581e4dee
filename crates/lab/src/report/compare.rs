//! Two runs side by side, with their noise.

use std::collections::HashMap;
use std::fmt;

use crate::kit::{Host, Params, Point, Results, Spread, distinct, format};

/// The points of two runs that are in both.
#[derive(Clone, Debug, PartialEq)]
pub struct RunComparison {
    /// Differences of machines and builds, one line each with the remedy.
    pub notes: Vec<String>,
    /// A row for each common point, in the order of the first run.
    pub rows: Vec<ComparedPoint>,
    /// Number of points that only the first run has, and only the second.
    pub alone: [usize; 2],
}

/// A point that is in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPoint {
    /// Experiment and unit.
    pub table: String,
    /// Method and parameters.
    pub name: String,
    /// The values of both runs.
    pub values: [Spread; 2],
}

/// Relation of the ranges of two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeNoise {
    /// The ranges of the runs have common values: the difference may be noise.
    Overlap,
    /// The ranges of the runs are apart.
    Apart,
    /// The machine was disturbed in one of the runs.
    Disturbed,
}

impl ComparedPoint {
    /// The second value relative to the first; `None` if there is no such number.
    pub fn ratio(&self) -> Option<f64> {
        let [one, other] = self.values.map(|value| value.median);
        Some(other / one).filter(|ratio| ratio.is_finite() && *ratio >= 0.0)
    }

    /// The relation of the ranges: whether the difference may be noise.
    pub fn noise(&self) -> RangeNoise {
        let [one, other] = &self.values;
        if one.is_disturbed || other.is_disturbed {
            RangeNoise::Disturbed
        } else if one.min <= other.max && other.min <= one.max {
            RangeNoise::Overlap
        } else {
            RangeNoise::Apart
        }
    }
}

impl fmt::Display for RangeNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "ranges overlap",
            Self::Apart => "apart",
            Self::Disturbed => "disturbed",
        })
    }
}

/// Compares two runs.
///
/// # Examples
///
/// ```
/// use daiko_lab::{kit::host::Host, report::compare::compare, runner::{Measured, Schedule}};
///
/// let run = Measured::default().results(Host::detect(), Schedule::QUICK);
/// assert!(compare(&run, &run).rows.is_empty(), "nothing was measured");
/// ```
pub fn compare(one: &Results, other: &Results) -> RunComparison {
    let mut second: HashMap<String, &Point> =
        other.measured().map(|point| (identity(point), point)).collect();
    let found = second.len();
    let mut rows = Vec::new();
    let mut alone = 0;
    for point in one.measured() {
        match second.remove(&identity(point)) {
            Some(twin) => rows.push(ComparedPoint {
                table: format!("{}: {}", point.experiment, point.unit),
                name: named(&point.method, &point.params),
                values: [point.spread(), twin.spread()],
            }),
            None => alone += 1,
        }
    }
    let alone = [alone, found.saturating_sub(rows.len())];
    RunComparison { notes: notes(one, other), rows, alone }
}

/// Text that only the same point of another run has. The order of parameters does not matter.
fn identity(point: &Point) -> String {
    let mut params: Vec<_> = point.params.iter().collect();
    params.sort();
    let Point { experiment, method, unit, .. } = point;
    format!("{:?}", (experiment, method, unit, params))
}

fn named(method: &str, params: &Params) -> String {
    params.iter().fold(method.to_owned(), |name, (key, value)| format!("{name} {key}={value}"))
}

/// Facts that make the runs differ, beside the measured code.
fn notes(one: &Results, other: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let machines = differences(&one.host, &other.host);
    if !machines.is_empty() {
        notes.push(format!(
            "the machines differ: {}; measure both runs on one machine to compare code",
            machines.join(", ")
        ));
    }
    if one.host.optimised != other.host.optimised {
        notes.push("one run is of a debug build; measure it again with --release".into());
    }
    for (name, run) in [("A", one), ("B", other)] {
        let (disturbed, all) = run.disturbed();
        if disturbed > 0 {
            notes.push(format!(
                "{name}: the machine was disturbed in {disturbed} of {all} values; measure again on \
                 an idle machine"
            ));
        }
        if run.interrupted {
            notes.push(format!("{name} was stopped before its end; measure again for all points"));
        }
    }
    notes
}

fn differences(one: &Host, other: &Host) -> Vec<String> {
    let quota = |host: &Host| host.quota.map_or("none".into(), |quota| quota.to_string());
    let facts = [
        ("processor", one.cpu.clone(), other.cpu.clone()),
        ("CPUs", one.cpus.to_string(), other.cpus.to_string()),
        ("quota", quota(one), quota(other)),
        ("kernel", one.kernel.clone(), other.kernel.clone()),
        ("glibc", one.glibc.clone(), other.glibc.clone()),
        ("frequency", one.frequency.clone(), other.frequency.clone()),
        ("prefetchers", one.prefetchers.clone(), other.prefetchers.clone()),
    ];
    let differ = facts.into_iter().filter(|(_, one, other)| one != other);
    differ.map(|(name, one, other)| format!("{name} {one} against {other}")).collect()
}

impl fmt::Display for RunComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for table in distinct(self.rows.iter().map(|row| &row.table)) {
            writeln!(f, "{table}; medians (and ranges) of A and B, and B relative to A")?;
            let rows = self.rows.iter().filter(|row| row.table == *table);
            write_aligned(f, &rows.map(ComparedPoint::cells).collect::<Vec<_>>())?;
        }
        let [first, second] = self.alone;
        if first + second > 0 {
            writeln!(f, "only in A: {first} points, only in B: {second} points")?;
        }
        let apart = self.rows.iter().filter(|row| row.noise() == RangeNoise::Apart).count();
        writeln!(f, "{} points compared, the ranges of {apart} are apart", self.rows.len())
    }
}

impl ComparedPoint {
    fn cells(&self) -> [String; 5] {
        let value = |spread: &Spread| {
            let [median, min, max] = [spread.median, spread.min, spread.max].map(format::number);
            format!("{median} ({min} to {max})")
        };
        let ratio = self.ratio().map_or("-".into(), format::ratio);
        let [one, other] = &self.values;
        [self.name.clone(), value(one), value(other), ratio, self.noise().to_string()]
    }
}

/// Writes rows with names to the left and numbers to the right of their columns.
fn write_aligned(f: &mut fmt::Formatter<'_>, rows: &[[String; 5]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [name, one, other, ratio, _] =
        [0, 1, 2, 3, 4].map(|column| width(column).unwrap_or_default());
    for row in rows {
        let [own_name, own, twin, own_ratio, noise] = row;
        writeln!(
            f,
            "  {own_name:name$}  {own:>one$}  {twin:>other$}  {own_ratio:>ratio$}  {noise}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Conditions;
    use crate::kit::results::PointSample;
    use crate::testing::{self, made_up::ring};

    fn both(one: Vec<Point>, other: Vec<Point>) -> RunComparison {
        compare(&testing::results(one), &testing::results(other))
    }

    #[test]
    fn common_points_stand_side_by_side_with_ratio_and_noise() {
        let one = [ring("daiko", 10, 10.0), ring("tokio", 10, 100.0), ring("go", 10, 1.0)];
        let other = [ring("tokio", 10, 110.0), ring("daiko", 10, 20.0), ring("daiko", 2, 1.0)];
        let compared = both(one.concat(), other.concat());
        assert_eq!(compared.alone, [1, 1]);
        let rows: Vec<_> =
            compared.rows.iter().map(|row| (row.name.as_str(), row.ratio(), row.noise())).collect();
        let params = "threads=10 order=shuffled";
        assert_eq!(rows[0], (&*format!("daiko {params}"), Some(2.0), RangeNoise::Apart));
        assert_eq!(rows[1], (&*format!("tokio {params}"), Some(1.1), RangeNoise::Overlap));
        let text = compared.to_string();
        assert!(text.contains("10.0 (9.00 to 12.0)  20.0 (18.0 to 24.0)"), "{text}");
        assert!(text.ends_with("2 points compared, the ranges of 1 are apart\n"), "{text}");
    }

    #[test]
    fn a_disturbed_point_is_no_evidence() {
        let mut other = ring("daiko", 10, 20.0);
        let conditions = Conditions { others: 0.5, ..Conditions::default() };
        other[0].samples = vec![PointSample { value: 20.0, conditions }];
        let compared = both(ring("daiko", 10, 10.0), other);
        assert_eq!(compared.rows[0].noise(), RangeNoise::Disturbed);
        assert!(compared.notes[0].starts_with("B: the machine was disturbed in 1 of 1"));
    }

    #[test]
    fn another_machine_is_told_with_the_remedy() {
        let one = testing::results(ring("daiko", 10, 10.0));
        let mut other = one.clone();
        assert_eq!(compare(&one, &other).notes, [""; 0]);
        (other.host.cpu, other.interrupted) = ("another".into(), true);
        let notes = compare(&one, &other).notes;
        assert!(
            notes[0].contains("processor") && notes[0].contains("against another"),
            "{notes:?}"
        );
        assert!(notes[0].ends_with("measure both runs on one machine to compare code"));
        assert!(notes[1].starts_with("B was stopped"), "{notes:?}");
    }

    #[test]
    fn a_ratio_to_nothing_is_a_dash() {
        let compared = both(ring("daiko", 10, 0.0), ring("daiko", 10, 1.0));
        assert_eq!(compared.rows[0].ratio(), None);
        assert!(compared.to_string().contains("  -  "));
    }
}
