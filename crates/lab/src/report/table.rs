//! Results as tables: a row per method and variant, a column per size.

use std::fmt;

use super::disturbed::disturbance;
use crate::experiments;
use crate::kit::{Cell, DataTable, Point, Points, Results, Spread, Value, distinct, format};

/// A table of one experiment and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultTable {
    /// Experiment, parameters common to all rows, and unit.
    pub title: String,
    /// Parameter of the columns; `None` with a single column.
    pub column: Option<String>,
    /// Heads of the value columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<ResultRow>,
}

/// One method in one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultRow {
    /// The method's name.
    pub method: String,
    /// Parameters that distinguish this row from other rows of the method: `workers=2 layout=half`.
    pub variant: String,
    /// One value per column; `None` for a missing point.
    pub cells: Vec<Option<Spread>>,
}

/// Builds the tables of all measured points, in the order of the run.
pub fn tables(results: &Results) -> Vec<ResultTable> {
    let mut tables = Vec::new();
    for name in results.experiments() {
        let sizes = experiments::find(name).map_or(&[][..], |experiment| experiment.sizes);
        let points = results.of(name);
        // Points without a size get a table of their own, with one column.
        let column =
            |point: &Point| sizes.iter().copied().find(|key| point.params.get(key).is_some());
        for (unit, key) in distinct(points.iter().map(|point| (point.unit, column(point)))) {
            let same = points.filter(|point| (point.unit, column(point)) == (unit, key));
            tables.push(table(&format!("{name}: {unit}"), sizes, key, &same));
        }
    }
    tables
}

fn table(title: &str, sizes: &[&str], column: Option<&str>, points: &Points<'_>) -> ResultTable {
    let value_in = |point: &Point| column.and_then(|key| point.params.get(key).cloned());
    let mut columns = distinct(points.iter().map(value_in));
    columns.sort();
    let shared = shared(points, sizes);
    let mut rows: Vec<ResultRow> = Vec::new();
    for point in points.iter() {
        let own = |key: &str| Some(key) != column && !shared.iter().any(|(known, _)| *known == key);
        let variant = listed(point.params.iter().filter(|(key, _)| own(key)), " ");
        let at = rows.iter().position(|row| row.method == point.method && row.variant == variant);
        let at = at.unwrap_or_else(|| {
            let cells = vec![None; columns.len()];
            rows.push(ResultRow { method: point.method.clone(), variant, cells });
            rows.len() - 1
        });
        let index =
            columns.iter().position(|value| *value == value_in(point)).expect("collected above");
        rows[at].cells[index] = Some(point.spread());
    }
    let comma = if shared.is_empty() { "" } else { ", " };
    ResultTable {
        title: format!("{title}{comma}{}", listed(shared.into_iter(), ", ")),
        column: column.map(str::to_owned),
        heads: columns.iter().map(head).collect(),
        rows,
    }
}

/// Parameters common to all points, which the title states once; without sizes.
fn shared<'a>(points: &Points<'a>, sizes: &[&str]) -> Vec<(&'a str, &'a Value)> {
    let Some(first) = points.first() else { return Vec::new() };
    let everywhere = |(key, value): &(&str, &Value)| {
        !sizes.contains(key) && points.iter().all(|point| point.params.get(key) == Some(value))
    };
    first.params.iter().filter(everywhere).collect()
}

fn listed<'a>(params: impl Iterator<Item = (&'a str, &'a Value)>, between: &str) -> String {
    params.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(between)
}

fn head(value: &Option<Value>) -> String {
    match value {
        Some(Value::Number(number)) => format::count(*number),
        Some(Value::Text(text)) => text.clone(),
        None => "value".into(),
    }
}

impl ResultTable {
    /// The table with the range below each value.
    pub(super) fn data(&self) -> DataTable {
        let column = self.column.as_ref().map_or(String::new(), |column| format!("{column} "));
        let heads = self.heads.iter().map(|head| format!("{column}{head}"));
        let cell = |value: &Option<Spread>| {
            let [median, below] = match value {
                None => return Cell::some(None::<String>),
                Some(Spread { median, min, max, is_disturbed }) => [
                    format::number(*median) + disturbance(*is_disturbed).0,
                    format!("{}\u{2013}{}", format::number(*min), format::number(*max)),
                ],
            };
            Cell::from(median).above(Some(below))
        };
        let row = |row: &ResultRow| {
            let names = [row.method.as_str().into(), row.variant.as_str().into()];
            names.into_iter().chain(row.cells.iter().map(cell)).collect()
        };
        let table = DataTable::new(self.title.as_str(), ["method", "variant"], heads);
        table.captioned().with_rows(self.rows.iter().map(row))
    }
}

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.as_ref().map_or(String::new(), |column| format!(" by {column}"));
        writeln!(f, "{}{column}", self.title)?;
        let mut lines = vec![vec!["method".to_owned(), String::new()]];
        lines[0].extend(self.heads.iter().cloned());
        for row in &self.rows {
            let mut line = vec![row.method.clone(), row.variant.clone()];
            line.extend(row.cells.iter().map(|cell| match cell {
                Some(cell) => format::number(cell.median) + disturbance(cell.is_disturbed).0,
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
    use crate::kit::{Params, Unit};
    use crate::testing;

    fn ring(method: &str, threads: u64, cpus: &str, median: f64) -> Point {
        let params =
            Params::new().with("threads", threads).with("cpus", cpus).with("order", "shuffled");
        testing::point("ring", method, params, Unit::Nanoseconds, median)
    }

    #[test]
    fn sizes_are_columns_in_order_and_variants_are_rows() {
        let points = vec![
            ring("futex", 1000, "all", 4782.0),
            ring("futex", 10, "all", 4055.0),
            ring("futex", 10, "one", 1510.0),
        ];
        let [table] = &tables(&testing::results(points))[..] else { panic!("one table") };
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
        let limit = |method: &str, median| {
            testing::point("limits", method, Params::new(), Unit::Nanoseconds, median)
        };
        let points = vec![limit("rmw-pair", 12.0), limit("switch", 2.2)];
        let [table] = &tables(&testing::results(points))[..] else { panic!("one table") };
        assert_eq!((&table.column, &table.heads), (&None, &vec!["value".to_owned()]));
        assert_eq!(table.rows.len(), 2);
    }
}
