//! P2's figure, redrawn: the time of the travelling salesman against the number of cities.

use super::published::{NAME, P2_CITIES, P2_MACHINE, P2_RATIO};
use crate::kit::{
    Baseline, Cell, Curve, CurveLine, DataTable, Drawing, Family, Mark, Point, Reach, Results,
    Section, Unit, distinct, format,
};

/// Largest cost of a search by worker processes.
const SEARCH: Reach = Reach {
    operation: "travelling salesman",
    item: None,
    baseline: Baseline::Same("daiko-borrowed"),
    most: 1.05,
};

const SEQUENTIAL: &str = "sequential";

/// The line that corresponds to PTL: all threads on one CPU.
const PTL: &str = "daiko, 1 worker";

const TEXT: &str = "Time of one search against the number of cities n, with one thread for each of \
     the (n - 1)(n - 2) subtrees of the second level; sequential has no threads. Paths are \
     compared with a copy of the best length outside the lock; the tables show the cost of a lock \
     for each comparison.";

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let curve = curve(results).map(Section::Drawing);
    curve.into_iter().chain(SEARCH.section(results, NAME)).collect()
}

/// Builds one line per method and number of workers: times of searches that seldom lock, or never.
fn curve(results: &Results) -> Option<Drawing> {
    let points = results.of(NAME).unit(Unit::Nanoseconds);
    let points =
        points.filter(|point| matches!(point.params.text("prune"), None | Some("relaxed")));
    let names = distinct(points.iter().filter(|point| mark(point).is_some()).map(name));
    let line = |name: String| {
        let points = points.filter(|point| self::name(point) == name);
        let family = family(&points.first().expect("it has the name").method);
        CurveLine::new(name, family, &points, mark)
    };
    let mut lines: Vec<CurveLine> = names.into_iter().map(line).collect();
    lines.sort_by_key(|line| line.family);
    let text = format!("{TEXT} {}{}", paper(), here(&lines));
    let table = table(&lines);
    let label = "Time of a search against number of cities, one line per method";
    let curve = Curve::new(label, ["cities", "ms per search"], lines);
    let curve = Curve { linear_x: true, ..curve };
    let title = "P2, figure 2: The travelling salesman by threads";
    Some(Drawing { table, ..curve.drawn("tsp.svg", title, text)? })
}

/// Sentence about P2's findings.
fn paper() -> String {
    format!(
        "P2 ({P2_MACHINE}) compared PTL, a library that has all threads on one CPU, with its own \
         library, in which virtual processors are UNIX processes, one for each CPU. Few cities: \
         both slower than without threads, and about equal. Many cities: PTL about as slow as \
         without threads, its own faster; with {P2_CITIES} cities it took about {} of PTL's time.",
        percent(P2_RATIO)
    )
}

/// Time of each line relative to the one that corresponds to PTL, if that exists. P2's published
/// ratio stands beside ours on most workers.
fn table(lines: &[CurveLine]) -> Option<DataTable> {
    let ptl = lines.iter().find(|line| line.name == PTL).and_then(compared)?;
    let ours = lines.iter().rfind(|line| line.family == Family::Ours && line.name != PTL);
    let row = |line: &CurveLine| {
        let time = compared(line)?;
        let published = ours.is_some_and(|ours| ours.name == line.name).then_some(P2_RATIO);
        Some(vec![
            line.name.as_str().into(),
            format::number(time).into(),
            percent(time / ptl).into(),
            Cell::some(published.map(percent)),
        ])
    };
    let heads = [
        format!("ms, {P2_CITIES} cities"),
        format!("of the time of {PTL}"),
        "published, of that of PTL".into(),
    ];
    let table =
        DataTable::new("P2, figure 2: The travelling salesman by threads", ["method"], heads);
    Some(table.with_rows(lines.iter().filter_map(row)))
}

fn percent(ratio: f64) -> String {
    format!("{:.0}%", ratio * 100.0)
}

/// Time at P2's number of cities, in milliseconds.
fn compared(line: &CurveLine) -> Option<f64> {
    let mark = line.marks.iter().find(|mark| mark.x == P2_CITIES as f64)?;
    Some(mark.y.median).filter(|&time| time > 0.0)
}

fn mark(point: &Point) -> Option<Mark> {
    let cities = point.params.number("cities")?;
    let y = point.spread().map(|ns| ns / 1e6);
    Some(Mark { x: cities as f64, y, means: format!("{cities} cities") })
}

fn name(point: &Point) -> String {
    match point.params.number("workers") {
        None => point.method.clone(),
        Some(1) => format!("{}, 1 worker", point.method),
        Some(workers) => format!("{}, {workers} workers", point.method),
    }
}

fn family(method: &str) -> Family {
    match method {
        SEQUENTIAL => Family::Alone,
        "nptl" => Family::Kernel,
        _ => Family::Ours,
    }
}

/// Sentence about this run at P2's number of cities.
fn here(lines: &[CurveLine]) -> String {
    let alone = lines.iter().find(|line| line.family == Family::Alone).and_then(compared);
    let Some(alone) = alone else { return String::new() };
    let part =
        |line: &CurveLine| Some(format!("{} {}", line.name, percent(compared(line)? / alone)));
    let families = lines.iter().filter(|line| line.family != Family::Alone);
    let parts: Vec<String> = families.filter_map(part).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" Here, with {P2_CITIES} cities, of the time without threads: {}.", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use crate::kit::Params;
    use crate::report;
    use crate::testing::made_up::{full, salesman, salesmen};
    use crate::testing::page;

    #[test]
    fn the_salesman_has_a_line_for_each_method_and_number_of_workers() {
        let html = report::html(&full());
        for name in ["sequential", "nptl", "daiko, 1 worker", "daiko, 2 workers"] {
            assert!(html.contains(&format!("{name}, 11 cities: ")), "{name}");
        }
        assert!(
            html.contains("sequential, 6 cities: 0.0100 (0.00900 to 0.0120)"),
            "in milliseconds"
        );
        assert!(!html.contains("31,080 ("), "a mark of searches that lock often");
    }

    #[test]
    fn the_salesman_is_compared_where_the_paper_does() {
        let here = "Here, with 11 cities, of the time without threads: daiko, 1 worker 110%; \
                    daiko, 2 workers 55%; daiko-processes, 2 workers 60%; nptl 70%.";
        assert!(report::html(&full()).contains(here), "no such sentence");
        let few = salesman("sequential", Params::new().with("cities", 6u64), 1.0);
        let html = page(few);
        assert!(
            html.contains("P2, figure 2: ") && !html.contains("Here, with"),
            "nothing to compare"
        );
    }

    #[test]
    fn worker_processes_are_compared_with_fibers_of_their_kind() {
        let workers = || Params::new().with("cities", 6u64).with("workers", 2u64);
        let of = |method, ms| salesman(method, workers().with("prune", "relaxed"), ms);
        let mut points = of("daiko", 4.0);
        points.extend(of("daiko-borrowed", 2.0));
        points.extend(of("daiko-processes", 3.0));
        let html = page(points);
        assert!(html.contains("<td>1.50</td>"), "to the borrowed fibers");
        assert!(!html.contains("<td>0.75</td>"), "to those of the default kind");
    }

    #[test]
    fn the_published_ratio_of_the_salesman_stands_beside_ours_on_most_workers() {
        let row = |name: &str, cells: &str| {
            format!(r#"<tr><th scope="row">{name}</th><td>{cells}</td></tr>"#)
                .replace('|', "</td><td>")
        };
        let html = report::html(&full());
        for row in [
            row("daiko, 1 worker", "44.0|100%|\u{2013}"),
            row("daiko, 2 workers", "22.0|50%|\u{2013}"),
            row("daiko-processes, 2 workers", "24.0|55%|60%"),
            row("nptl", "28.0|64%|\u{2013}"),
            row("sequential", "40.0|91%|\u{2013}"),
        ] {
            assert!(html.contains(&row), "{row}");
        }
        let mut alone = salesmen();
        alone.retain(|point| point.params.number("workers") != Some(1));
        let html = page(alone);
        assert!(
            html.contains("P2, figure 2: ") && !html.contains("of that of PTL"),
            "nothing like PTL"
        );
    }
}
