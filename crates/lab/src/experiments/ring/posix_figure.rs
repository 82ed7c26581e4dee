//! The ring of a program in C, native and on Daiko's workers, beside the targets.

use super::published::NAME;
use crate::kit::{Cell, DataTable, Part, Points, Results, Section, format};

/// A program: the objects that its threads wait for, its native method and that on workers, and for
/// each of some numbers of threads the largest CPU time of a hop on one worker, in nanoseconds.
type Program = (&'static str, [&'static str; 2], [(u64, f64); 4]);

const PROGRAMS: [Program; 2] = [
    (
        "semaphore",
        ["c-semaphore", "dropin-semaphore"],
        [(2, 90.0), (10, 90.0), (100, 90.0), (1000, 90.0)],
    ),
    (
        "mutex and condition variable",
        ["c-condvar", "dropin-condvar"],
        [(2, 130.0), (10, 130.0), (100, 130.0), (1000, 160.0)],
    ),
];

/// Text before the table.
const TEXT: &str = "CPU time of a hop round a ring of threads of one program in C, in nanoseconds; \
     below it, the time that passes. The program is compiled once. It runs as it is, with all \
     threads on one CPU, and on one of Daiko's workers, by a library that is preloaded. Shuffled \
     order.";

/// The section, or `None` without points to show.
pub(super) fn section(results: &Results) -> Option<Section> {
    let rows: Vec<Vec<Cell>> = PROGRAMS
        .iter()
        .flat_map(|program| program.2.map(|size| row(results, program, size)))
        .flatten()
        .collect();
    let heads = ["threads", "native, ns", "on a worker, ns", "ratio", "target on a worker"];
    let table = DataTable::new("rings of an unmodified program", ["waits by"], heads);
    let is_empty = rows.is_empty();
    let parts = vec![Part::Text(TEXT.into()), Part::Table(table.with_rows(rows))];
    let title = "Rings of an unmodified program on a worker of Daiko";
    (!is_empty).then(|| Section::Titled(title.into(), parts))
}

/// The row of a number of threads, if it was measured.
fn row(results: &Results, program: &Program, (threads, most): (u64, f64)) -> Option<Vec<Cell>> {
    let (waits_by, [native, ours], _) = program;
    let points = |method: &str| {
        let points = results.of(NAME).method(method).with("threads", threads);
        points.with("order", "shuffled")
    };
    let [native, ours] = [points(native).with("cpus", "one"), points(ours).with("workers", 1_u64)];
    let cpu = |points: &Points<'_>| points.with("stat", "cpu").median();
    let cell = |points: &Points<'_>| {
        let time = points.without("stat").median();
        Cell::some(cpu(points).map(format::number)).above(time.map(format::number))
    };
    let ratio = cpu(&ours).zip(cpu(&native)).map(|(ours, native)| format::ratio(ours / native));
    (!native.is_empty() || !ours.is_empty()).then(|| {
        vec![
            (*waits_by).into(),
            format::count(threads).into(),
            cell(&native),
            cell(&ours),
            Cell::some(ratio),
            format!("\u{2264} {}", format::number(most)).into(),
        ]
    })
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Reading, Unit};
    use crate::testing::made_up::ring;
    use crate::testing::{page, points};

    #[test]
    fn native_rings_and_those_on_a_worker_stand_beside_their_targets() {
        let measured = |method: &str, key: &str, value: crate::kit::Value, ns: f64| {
            let params = Params::new().with("threads", 1000_u64).with("order", "shuffled");
            let cpu = Reading::stat(Unit::Nanoseconds, "cpu", ns);
            let readings = [Reading::new(Unit::Nanoseconds, 2.0 * ns), cpu];
            points("ring", method, &params.with(key, value), &readings)
        };
        let all = [
            measured("c-condvar", "cpus", "all".into(), 9000.0),
            measured("c-condvar", "cpus", "one".into(), 4000.0),
            measured("dropin-condvar", "workers", 1_u64.into(), 200.0),
            measured("dropin-condvar", "workers", 2_u64.into(), 900.0),
        ];
        let html = page(all.concat());
        let cells = "<td>1000</td><td>4,000<small>8,000</small></td>\
                     <td>200<small>400</small></td><td>1/20.0</td><td>\u{2264} 160</td>";
        let row = format!(r#"<th scope="row">mutex and condition variable</th>{cells}"#);
        assert!(html.contains(&row), "no such row");
        let title = "Rings of an unmodified program";
        assert!(html.contains(title) && !page(ring("daiko", 10, 9.0)).contains(title));
    }
}
