//! Results as tables: a row per method and variant, a column per size.

use std::fmt;

use crate::kit::{
    Unit, Value, format,
    results::{Point, Results},
};

/// Parameters that make columns; the first one an experiment has is taken.
const COLUMNS: [&str; 9] =
    ["threads", "lag", "rate", "cities", "timers", "clients", "connections", "flows", "size"];

/// A table of one experiment and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The experiment, what all rows share, and the unit.
    pub title: String,
    /// What the columns count, `None` with a single column.
    pub column: Option<String>,
    /// Heads of the value columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One method in one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The method's name.
    pub method: String,
    /// What tells this row from others of the method: `workers=2 layout=half`.
    pub variant: String,
    /// One cell per column; `None` where nothing was measured.
    pub cells: Vec<Option<Cell>>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The median of the runs.
    pub median: f64,
    /// The smallest run.
    pub min: f64,
    /// The largest run.
    pub max: f64,
}

/// The tables of all that was measured, in the order of the run.
pub fn tables(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    for experiment in results.experiments() {
        let points: Vec<&Point> =
            results.measured().filter(|point| point.experiment == experiment).collect();
        // Points without a size have a table of their own: one column.
        let column =
            |point: &Point| COLUMNS.into_iter().find(|key| point.params.get(key).is_some());
        for kind in distinct(points.iter().map(|point| (point.unit, column(point)))) {
            let same = points.iter().copied().filter(|point| (point.unit, column(point)) == kind);
            tables.push(table(experiment, kind.0, kind.1, &same.collect::<Vec<_>>()));
        }
    }
    tables
}

fn table(experiment: &str, unit: Unit, column: Option<&str>, points: &[&Point]) -> Table {
    let value_in = |point: &Point| column.and_then(|key| point.params.get(key).cloned());
    let mut columns = distinct(points.iter().map(|point| value_in(point)));
    columns.sort();
    let shared = shared(points);
    let mut rows: Vec<Row> = Vec::new();
    for point in points {
        let variant = variant(point, column, &shared);
        let at = rows.iter().position(|row| row.method == point.method && row.variant == variant);
        let at = at.unwrap_or_else(|| {
            let cells = vec![None; columns.len()];
            rows.push(Row { method: point.method.clone(), variant, cells });
            rows.len() - 1
        });
        let index =
            columns.iter().position(|value| *value == value_in(point)).expect("collected above");
        rows[at].cells[index] = Some(Cell { median: point.median, min: point.min, max: point.max });
    }
    let shared: Vec<String> = shared.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let shared = if shared.is_empty() { String::new() } else { format!(", {}", shared.join(", ")) };
    Table {
        title: format!("{experiment}: {unit}{shared}"),
        column: column.map(str::to_owned),
        heads: columns.iter().map(head).collect(),
        rows,
    }
}

/// Parameters that all points share are said once, in the title.
fn shared(points: &[&Point]) -> Vec<(String, Value)> {
    let Some((first, rest)) = points.split_first() else { return Vec::new() };
    let everywhere = |(key, value): &(&str, &Value)| {
        !COLUMNS.contains(key) && rest.iter().all(|point| point.params.get(key) == Some(value))
    };
    let shared = first.params.iter().filter(everywhere);
    shared.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

fn variant(point: &Point, column: Option<&str>, shared: &[(String, Value)]) -> String {
    let own = |(key, _): &(&str, &Value)| {
        Some(*key) != column && !shared.iter().any(|(shared, _)| shared == key)
    };
    let parts: Vec<String> =
        point.params.iter().filter(own).map(|(key, value)| format!("{key}={value}")).collect();
    parts.join(" ")
}

fn head(value: &Option<Value>) -> String {
    match value {
        Some(Value::Number(number)) => format::count(*number),
        Some(Value::Text(text)) => text.clone(),
        None => "value".into(),
    }
}

/// Each once, in the order of their first.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.as_ref().map_or(String::new(), |column| format!(" by {column}"));
        writeln!(f, "{}{column}", self.title)?;
        let mut lines = vec![vec!["method".to_owned(), String::new()]];
        lines[0].extend(self.heads.iter().cloned());
        for row in &self.rows {
            let mut line = vec![row.method.clone(), row.variant.clone()];
            line.extend(row.cells.iter().map(|cell| match cell {
                Some(cell) => format::number(cell.median),
                None => "-".into(),
            }));
            lines.push(line);
        }
        let columns = 0..lines[0].len();
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = columns.map(width).collect();
        for line in &lines {
            let mut text = String::new();
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let padded =
                    if column < 2 { format!("{cell:width$}") } else { format!("{cell:>width$}") };
                text.push_str("  ");
                text.push_str(&padded);
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Params;

    fn point(method: &str, params: Params, unit: Unit, median: f64) -> Point {
        Point {
            experiment: "ring".into(),
            method: method.into(),
            params,
            unit,
            median,
            min: median,
            max: median,
            runs: 5,
            source: None,
        }
    }

    fn ring(method: &str, threads: u64, cpus: &str, median: f64) -> Point {
        let params =
            Params::new().with("threads", threads).with("cpus", cpus).with("order", "shuffled");
        point(method, params, Unit::Nanoseconds, median)
    }

    #[test]
    fn sizes_are_columns_in_order_and_variants_are_rows() {
        let points = [
            ring("futex", 1000, "all", 4782.0),
            ring("futex", 10, "all", 4055.0),
            ring("futex", 10, "one", 1510.0),
        ];
        let table =
            table("ring", Unit::Nanoseconds, Some("threads"), &points.iter().collect::<Vec<_>>());
        assert_eq!(table.title, "ring: ns, order=shuffled");
        assert_eq!(table.heads, ["10", "1000"]);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1].variant, "cpus=one");
        assert_eq!(table.rows[1].cells[1], None);
        let text = table.to_string();
        assert_eq!(text.lines().nth(2), Some("  futex   cpus=all  4,055  4,782"), "{text}");
    }

    #[test]
    fn without_sizes_there_is_one_column() {
        let points = [
            point("rmw-pair", Params::new(), Unit::Nanoseconds, 12.0),
            point("switch", Params::new(), Unit::Nanoseconds, 2.2),
        ];
        let table = table("limits", Unit::Nanoseconds, None, &points.iter().collect::<Vec<_>>());
        assert_eq!((table.column, table.heads), (None, vec!["value".to_owned()]));
        assert_eq!(table.rows.len(), 2);
    }
}
