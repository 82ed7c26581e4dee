//! Tables 2 to 4 of P3: migrations of receivers that packets follow and the cost of these
//! migrations, beside the published figures.

use super::published::NAME;
use crate::kit::p3::{CPU, EVENTS, FLOWS, MACHINE, SETTLE, UNINTENDED};
use crate::kit::{Cell, DataTable, Part, Points, Results, Section, format};

const TEXT: &str = "In P3, a receiver stays where it has moved to until the interrupt that wakes \
     it has followed, by Receive Flow Steering (RFS). P3 compared that with the unchanged \
     scheduler of Linux 3.2. Here daiko-follow does so, and daiko-mover does not. Below each \
     figure of daiko-follow stands its ratio to that of daiko-mover, and below P3's proposal its \
     ratio to the existing scheduler. Kernel threads are placed by the scheduler of this kernel. \
     daiko-pinned has no migrations by design: its fibers never move. An unintended migration \
     takes a receiver back to the CPU that it left at the previous wake-up.";

const HINT: &str = "CPU use is that of the receivers' process, in per cent of one CPU. CPU use of \
     the machine is that of all CPUs together, including other load. P3 does not state the base of \
     its per cent.";

const NOT_MEASURABLE: &str = "not measurable here";

/// A row: the number and subject of a table of P3, its figures for the existing scheduler and for
/// P3's own, and the way to read the value here.
struct Row {
    name: String,
    published: [Option<f64>; 2],
    value: FigureValue,
}

enum FigureValue {
    /// Unintended migrations as a percentage of all.
    Unintended,
    /// Points with this `stat`.
    Stat(&'static str),
    /// Points with this `stat`, from processor counters, which some machines do not provide.
    Counter(&'static str),
}

impl Row {
    fn new(
        table: u32,
        name: &str,
        published: impl Into<Option<f64>>,
        proposed: impl Into<Option<f64>>,
        value: FigureValue,
    ) -> Self {
        let published = [published.into(), proposed.into()];
        Self { name: format!("{table}: {name}"), published, value }
    }

    /// Returns the row's value for `points` of a single method.
    fn value(&self, points: &Points<'_>) -> Option<f64> {
        let median = |stat| points.with("stat", stat).median();
        match self.value {
            FigureValue::Unintended => {
                let (swaps, all) = (median("swaps")?, median("migrations")?);
                (all > 0.0).then(|| 100.0 * swaps / all)
            }
            FigureValue::Stat(stat) | FigureValue::Counter(stat) => median(stat),
        }
    }

    /// Builds a cell with a value, and below it the ratio to the baseline.
    fn cell(&self, value: Option<f64>, baseline: Option<f64>) -> Cell {
        let Some(value) = value else {
            return match self.value {
                FigureValue::Counter(_) => NOT_MEASURABLE.into(),
                _ => Cell::some(None::<String>),
            };
        };
        let ratio = baseline.filter(|baseline| *baseline > 0.0).map(|baseline| value / baseline);
        Cell::from(format::number(value)).above(ratio.map(|ratio| format!("{ratio:.2}")))
    }
}

fn rows() -> Vec<Row> {
    let (unintended, [mean, most]) = (100.0 * UNINTENDED, SETTLE);
    let mut rows = vec![
        Row::new(2, "unintended, % of migrations", unintended, None, FigureValue::Unintended),
        Row::new(2, "consecutive unintended, mean", mean, None, FigureValue::Stat("settle")),
        Row::new(2, "consecutive unintended, most", most, None, FigureValue::Stat("settle-max")),
    ];
    rows.extend(EVENTS.map(|(stat, [existing, proposed])| {
        let value =
            if stat == "migrations" { FigureValue::Stat(stat) } else { FigureValue::Counter(stat) };
        Row::new(3, &format!("{stat}, 1/s"), existing, proposed, value)
    }));
    let [existing, proposed] = CPU;
    rows.push(Row::new(4, "CPU use, %", existing, proposed, FigureValue::Stat("cpu")));
    rows.push(Row::new(
        4,
        "CPU use of the machine, %",
        None,
        None,
        FigureValue::Stat("machine-cpu"),
    ));
    rows
}

/// Sections for the largest number of flows, with steered packets and without.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let points = results.of(NAME);
    let Some(flows) = points.numbers("flows").into_iter().max() else { return Vec::new() };
    let hint = format!("published: {MACHINE}, {FLOWS} flows. {HINT}");
    let mut parts = vec![Part::Text(TEXT.into()), Part::Hint(hint)];
    for (rfs, how) in [("on", "packets follow their readers"), ("off", "they do not")] {
        let here = points.with("flows", flows).with("rfs", rfs);
        if !here.is_empty() {
            let title = format!("{flows} flows, RFS {rfs}: {how}");
            parts.push(Part::Table(table(&here, title, rfs == "on")));
        }
    }
    vec![Section::Titled("Tables 2 to 4 of P3".into(), parts)]
}

fn table(points: &Points<'_>, title: String, with_published: bool) -> DataTable {
    let methods = points.methods();
    let published = ["published, existing", "published, proposed"];
    let published = published.into_iter().filter(|_| with_published);
    let heads = methods.iter().copied().chain(published);
    let table = DataTable::new(title, ["table of P3"], heads).captioned();
    table.with_rows(rows().iter().map(|row| {
        let value = |method: &str| row.value(&points.method(method));
        let cell = |method: &&str| {
            let baseline = (*method == "daiko-follow").then(|| value("daiko-mover")).flatten();
            row.cell(value(method), baseline)
        };
        let mut cells: Vec<Cell> = vec![row.name.as_str().into()];
        cells.extend(methods.iter().map(cell));
        if with_published {
            let [existing, proposed] = row.published;
            let plain =
                Row { name: String::new(), published: [None; 2], value: FigureValue::Stat("") };
            cells.extend([plain.cell(existing, None), plain.cell(proposed, existing)]);
        }
        cells
    }))
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Point, Reading, Unit};
    use crate::report;
    use crate::testing::made_up::full;
    use crate::testing::{page, points};

    fn received(method: &str, flows: u64, rfs: &str, migrations: f64) -> Vec<Point> {
        let params = Params::new().with("flows", flows).with("rfs", rfs);
        let readings = vec![
            Reading::stat(Unit::PerSecond, "migrations", migrations),
            Reading::stat(Unit::PerSecond, "swaps", migrations / 4.0),
            Reading::stat(Unit::CpuPercent, "cpu", 40.0),
            Reading::stat(Unit::Nanoseconds, "p99", 9000.0),
        ];
        points("follow", method, &params, &readings)
    }

    #[test]
    fn the_tables_of_p3_stand_beside_receivers_of_the_most_flows() {
        let both = |flows, migrations| {
            let of = |rfs| {
                [
                    received("daiko-pinned", flows, rfs, 0.0),
                    received("daiko-mover", flows, rfs, migrations),
                    received("daiko-follow", flows, rfs, migrations / 2.0),
                ]
                .concat()
            };
            [of("on"), of("off")].concat()
        };
        let html = page([both(128, 800.0), both(32, 9.0)].concat());
        assert!(
            html.contains("<caption>128 flows, RFS on")
                && html.contains("<caption>128 flows, RFS off")
        );
        assert!(!html.contains("<caption>32 flows"));
        let row = |name: &str, cells: &str| {
            format!(r#"<tr><th scope="row">{name}</th><td>{cells}</td></tr>"#)
                .replace('|', "</td><td>")
        };
        let none = "\u{2013}";
        for row in [
            row(
                "2: unintended, % of migrations",
                &format!("{none}|25.0|25.0<small>1.00</small>|8.00|{none}"),
            ),
            row(
                "3: migrations, 1/s",
                "0|800|400<small>0.50</small>|2,200|1,142<small>0.52</small>",
            ),
            row("3: migrations, 1/s", "0|800|400<small>0.50</small>"),
            row(
                "3: llc-load-misses, 1/s",
                "not measurable here|not measurable here|not measurable here|7,228|7,085<small>0.98</small>",
            ),
            row("4: CPU use, %", "40.0|40.0|40.0<small>1.00</small>|25.3|24.0<small>0.95</small>"),
        ] {
            assert!(html.contains(&row), "{row}");
        }
        assert!(!report::html(&full()).contains("Tables 2 to 4 of P3"), "nothing to show");
    }
}
