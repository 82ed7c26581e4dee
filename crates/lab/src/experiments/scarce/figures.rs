//! Time of a hop by workers, busy processes, presets and quotas.

use super::point::FEW_WORKERS;
use crate::kit::{
    Cell, Curve, CurveLine, DataTable, Drawing, Family, Mark, Part, Point, Points, Results,
    Section, Value, distinct, format,
};

/// The name of the experiment.
pub(super) const NAME: &str = "scarce";

const CURVE_TEXT: &str = "Time of one hop against the number of workers, on the CPUs that the \
     process may use, without other load. One waiter runs, and all others wait. Marks are medians, \
     bars reach from the fastest to the slowest run.";

const TEXT: &str = "Nanoseconds a hop: the median of the runs, below it the fastest and the slowest \
     of them, and the median relative to that of the first column of its row. A sample begins when \
     the ring begins to turn, and so includes the time in which a runtime notices that CPUs are \
     scarce.";

const WORKERS_TEXT: &str = "By the number of workers, without other load.";
const BUSY_TEXT: &str = "With two workers, by the number of busy processes beside the ring.";
const PRESETS_TEXT: &str = "By preset of Daiko, with two workers, by the number of busy processes.";
const QUOTAS_TEXT: &str = "With two workers, by the CPUs that the process gets in each 100 ms.";

const ECHO_TEXT: &str = "An echo server of two workers under a quota of CPU time, by a control group \
     where one can be made. The client is outside of the quota, and spins on a CPU. The median of \
     the runs, below it the slowest and the fastest of them, and the median relative to that \
     without a quota.";
const THROUGHPUT_TEXT: &str =
    "Requests answered per second, where each connection sends the next once it is answered.";
const LATENCY_TEXT: &str = "Nanoseconds that 99 of 100 requests do not exceed, where they are due at \
     random times, at half of that throughput.";

/// A row's parameters apart from the method.
const ROW: [&str; 3] = ["threads", "connections", "preset"];

pub(super) fn sections(results: &Results) -> Vec<Section> {
    let all = results.of(NAME);
    let points = all.without("connections");
    let curve = curve(&unlimited(&idle(&points)));
    let echoes = echoes(&all.filter(|point| point.params.get("connections").is_some()));
    curve.map(Section::Drawing).into_iter().chain(tables(&points)).chain(echoes).collect()
}

/// Builds the tables of the echo, by quota.
fn echoes(points: &Points<'_>) -> Option<Section> {
    let stats = [(THROUGHPUT_TEXT, "throughput"), (LATENCY_TEXT, "p99")];
    let parts = stats.map(|(text, stat)| table(text, "quota", &points.with("stat", stat)));
    let mut parts: Vec<Part> = parts.into_iter().flatten().flatten().collect();
    if parts.is_empty() {
        return None;
    }
    parts.insert(0, Part::Text(ECHO_TEXT.into()));
    parts.extend(stops(points));
    Some(Section::Titled("An echo server where CPUs are scarce".into(), parts))
}

fn tables(points: &Points<'_>) -> Option<Section> {
    let few = points.with("workers", FEW_WORKERS);
    let presets = unlimited(&few);
    let parts = [
        table(WORKERS_TEXT, "workers", &unlimited(&idle(points))),
        table(BUSY_TEXT, "busy", &unlimited(&plain(&few))),
        table(PRESETS_TEXT, "busy", &presets.filter(|point| point.params.get("preset").is_some())),
        table(QUOTAS_TEXT, "quota", &idle(&few)),
    ];
    let mut parts: Vec<Part> = parts.into_iter().flatten().flatten().collect();
    if parts.is_empty() {
        return None;
    }
    parts.insert(0, Part::Text(TEXT.into()));
    parts.extend(stops(points));
    Some(Section::Titled("The ring where CPUs are scarce".into(), parts))
}

/// The points of programs that set no preset.
fn plain<'a>(points: &Points<'a>) -> Points<'a> {
    points.without("preset")
}

/// Those of them without busy processes.
fn idle<'a>(points: &Points<'a>) -> Points<'a> {
    plain(points).with("busy", 0_u64)
}

fn unlimited<'a>(points: &Points<'a>) -> Points<'a> {
    points.without("quota")
}

/// Builds the curve over the workers, for the largest ring.
fn curve(points: &Points<'_>) -> Option<Drawing> {
    let threads = points.sorted_numbers("threads").into_iter().next_back()?;
    let mark = |point: &Point| {
        let workers = point.params.number("workers")?;
        let means = format!("{workers} workers");
        Some(Mark { x: workers as f64, y: point.spread(), means })
    };
    let lines = CurveLine::of_methods(&points.with("threads", threads), family, mark);
    let label = "Nanoseconds per hop against number of workers, one line per method";
    let title = format!("The ring of {} by workers", format::count(threads));
    Curve::new(label, ["workers", "ns per hop"], lines).drawn("scarce.svg", title, CURVE_TEXT)
}

/// Builds a table with its text: a row for each method and size, a column for each value of `key`.
/// One column compares nothing.
fn table(text: &str, key: &str, points: &Points<'_>) -> Option<[Part; 2]> {
    let mut columns = distinct(points.iter().map(|point| point.params.get(key)));
    columns.sort();
    let rows = distinct(points.iter().map(row_name));
    let row = |name: &String| {
        let own = points.filter(|point| row_name(point) == *name);
        let cell = |value: &Option<&Value>| {
            let mut same = own.iter().filter(|point| point.params.get(key) == *value);
            same.next()
        };
        cells(name, columns.iter().map(cell))
    };
    let heads = columns.iter().map(|value| match value {
        Some(value) => format!("{key} = {value}"),
        None => format!("no {key}"),
    });
    let table = DataTable::new(text, ["method"], heads).with_rows(rows.iter().map(row));
    (columns.len() > 1).then(|| [Part::Text(text.into()), Part::Table(table)])
}

fn row_name(point: &Point) -> String {
    let params = ROW.iter().filter_map(|key| Some((key, point.params.get(key)?)));
    let params: Vec<_> = params.map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{}, {}", point.method, params.join(", "))
}

/// A row: values relative to the first.
fn cells<'a>(name: &str, points: impl Iterator<Item = Option<&'a Point>>) -> Vec<Cell> {
    let points: Vec<_> = points.collect();
    let base = points.first().copied().flatten().map(|point| point.median);
    let cell = |point: &Option<&Point>| {
        let below = point.map(|point| {
            let range = format!("{} to {}", format::number(point.min), format::number(point.max));
            let ratio = base.map(|base| format!("; {}", format::ratio(point.median / base)));
            range + &ratio.unwrap_or_default()
        });
        Cell::some(point.map(|point| format::number(point.median))).above(below)
    };
    std::iter::once(name.into()).chain(points.iter().map(cell)).collect()
}

/// A remark on quotas that the process cannot see.
fn stops(points: &Points<'_>) -> Option<Part> {
    let has_stops = !points.with("quota-by", "stops").is_empty();
    let text = "No control group could be made: half a CPU was imitated by stops of the process, \
         for 50 of each 100 ms, which no runtime can see beforehand.";
    has_stops.then(|| Part::Hint(text.into()))
}

fn family(method: &str) -> Family {
    if method.starts_with("daiko") { Family::Ours } else { Family::Peer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Params, Reading, Unit};
    use crate::testing;

    fn hop(method: &str, workers: u64, busy: u64, ns: f64) -> Hop {
        let params = Params::new().with("threads", 1000_u64).with("workers", workers);
        Hop { method: method.into(), params: params.with("busy", busy), ns }
    }

    struct Hop {
        method: String,
        params: Params,
        ns: f64,
    }

    impl Hop {
        fn with(mut self, key: &str, value: &str) -> Self {
            self.params = self.params.with(key, value);
            self
        }

        fn points(&self) -> Vec<Point> {
            let reading = Reading::new(Unit::Nanoseconds, self.ns);
            testing::points(NAME, &self.method, &self.params, &[reading])
        }
    }

    fn page(hops: &[Hop]) -> String {
        testing::page(hops.iter().flat_map(Hop::points).collect())
    }

    fn row(name: &str, cells: &[(&str, &str)]) -> String {
        let cell =
            |(value, below): &(&str, &str)| format!("<td>{value}<small>{below}</small></td>");
        format!(r#"<tr><th scope="row">{name}</th>{}"#, cells.iter().map(cell).collect::<String>())
    }

    #[test]
    fn ratios_of_a_row_are_to_its_first_column() {
        let html = page(&[
            hop("tokio", 2, 0, 200.0),
            hop("tokio", 2, 2, 500.0),
            hop("tokio", 2, 4, 1000.0),
        ]);
        let row = row(
            "tokio, threads = 1000",
            &[
                ("200", "180 to 240; 1.00x"),
                ("500", "450 to 600; 2.50x"),
                ("1,000", "900 to 1,200; 5.00x"),
            ],
        );
        assert!(html.contains(&row), "{row}\n{html}");
    }

    #[test]
    fn a_quota_has_a_table_of_its_own_and_no_place_in_the_others() {
        let half = hop("go", 2, 0, 700.0).with("quota", "0.5").with("quota-by", "control-group");
        let html = page(&[hop("go", 2, 0, 350.0), hop("go", 4, 0, 350.0), half]);
        for head in ["no quota", "quota = 0.5", "workers = 2", "workers = 4"] {
            assert_eq!(html.matches(&format!(">{head}</th>")).count(), 1, "{head}");
        }
        assert_eq!(html.matches("630 to 840; 2.00x").count(), 1);
        assert!(!html.contains("imitated by stops"));
    }

    #[test]
    fn an_echo_has_tables_of_throughput_and_latency_and_no_place_in_the_ring() {
        let echo = |params: Params| {
            let throughput = Reading::stat(Unit::PerSecond, "throughput", 1000.0);
            let readings = [throughput, Reading::stat(Unit::Nanoseconds, "p99", 300.0)];
            testing::points(NAME, "tokio", &params, &readings)
        };
        let params = Params::new().with("connections", 50_u64).with("workers", FEW_WORKERS);
        let limited = params.clone().with("quota", "0.5").with("quota-by", "control-group");
        let html = testing::page([echo(params), echo(limited)].concat());
        assert_eq!(html.matches("tokio, connections = 50").count(), 2, "{html}");
        for below in ["900 to 1,200; 1.00x", "270 to 360; 1.00x"] {
            assert_eq!(html.matches(below).count(), 2, "{below}\n{html}");
        }
        assert!(!html.contains("The ring where CPUs are scarce"));
    }

    #[test]
    fn stops_are_told() {
        let half = hop("go", 2, 0, 700.0).with("quota", "0.5").with("quota-by", "stops");
        assert!(page(&[hop("go", 2, 0, 350.0), half]).contains("imitated by stops"));
    }

    #[test]
    fn presets_are_rows_of_a_table_of_their_own() {
        let with = |preset: &str, busy| hop("daiko", 2, busy, 100.0).with("preset", preset);
        let plain = [0, 2].map(|busy| hop("daiko", 2, busy, 100.0));
        let presets = ["balanced", "power"].map(|preset| [0, 2].map(|busy| with(preset, busy)));
        let html =
            page(&plain.into_iter().chain(presets.into_iter().flatten()).collect::<Vec<_>>());
        for row in ["", ", preset = balanced", ", preset = power"] {
            let row = format!(r#"<th scope="row">daiko, threads = 1000{row}</th>"#);
            assert_eq!(html.matches(&row).count(), 1, "{row}");
        }
    }
}
