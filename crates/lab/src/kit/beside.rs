//! Methods beside Daiko: a table, and a drawing for each kind of work, with one denominator.

use super::experiment::is_ours;
use super::figure::{Cell, Chart, DataTable, Drawing, Family, Part, RatioChart, RatioRow, Section};
use super::results::{Point, Points, distinct};
use super::{Params, format};

/// The method that all values are relative to.
const BASE: &str = "daiko";

/// A comparison of methods.
pub(crate) struct MethodComparison {
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// The parameter with a drawing for each of its values.
    pub(crate) kind: &'static str,
    /// The quantity of the points, with its unit.
    pub(crate) quantity: &'static str,
}

impl MethodComparison {
    /// Builds the section, or `None` without points.
    pub(crate) fn section(&self, points: &Points<'_>) -> Option<Section> {
        let kinds = points.texts(self.kind);
        let drawings: Vec<Drawing> =
            kinds.iter().filter_map(|kind| self.drawing(points, kind)).collect();
        let parts = [Part::Text(self.text.into()), Part::Table(self.table(points))];
        let drawn = (!drawings.is_empty()).then_some(Part::Drawings(drawings));
        let parts = parts.into_iter().chain(drawn).collect();
        (!points.is_empty()).then(|| Section::Titled(self.title.into(), parts))
    }

    fn table(&self, points: &Points<'_>) -> DataTable {
        let methods = points.methods();
        let row = |params: &Params| {
            let same = points.filter(|point| point.params == *params);
            let spread = |method: &str| same.method(method).first().map(Point::spread);
            let base = spread(BASE).map(|base| base.median);
            let cell = |method: &&str| {
                let value = spread(method);
                let ratio = value.zip(base).filter(|_| *method != BASE);
                let ratio = ratio.map(|(value, base)| format::ratio(value.median / base));
                let value = value.map(|value| format::number(value.median) + value.sign());
                Cell::some(value).above(ratio)
            };
            [Cell::from(named(params))].into_iter().chain(methods.iter().map(cell)).collect()
        };
        let all = distinct(points.iter().map(|point| &point.params));
        let label = format!("{}: {}; below each, the ratio to {BASE}", self.title, self.quantity);
        let heads = methods.iter().copied();
        DataTable::new(label, ["case"], heads).captioned().with_rows(all.into_iter().map(row))
    }

    fn drawing(&self, points: &Points<'_>, kind: &str) -> Option<Drawing> {
        let own = points.with(self.kind, kind);
        let row = |point: &Point| {
            let base = own.method(BASE).filter(|base| base.params == point.params);
            let base = base.first()?.spread();
            let params = named_without(&point.params, self.kind);
            Some(RatioRow {
                name: format!("{}, {params}", point.method),
                family: family(&point.method),
                published: None,
                measured: Some(point.spread().over(base)),
            })
        };
        let rows: Vec<RatioRow> =
            own.iter().filter(|point| point.method != BASE).filter_map(row).collect();
        let title = format!("{}: {kind}", self.title);
        let chart = RatioChart {
            label: format!("{title}: {} relative to {BASE}", self.quantity),
            axis: format!("times that of {BASE}"),
            rows,
        };
        (!chart.rows.is_empty()).then(|| Drawing {
            file: None,
            text: format!("{} relative to {BASE} in the same case, with range.", self.quantity),
            title,
            chart: Chart::Ratios(chart),
            has_legend: false,
            table: None,
        })
    }
}

fn named(params: &Params) -> String {
    named_without(params, "")
}

fn named_without(params: &Params, key: &str) -> String {
    let own = params.iter().filter(|(known, _)| *known != key && *known != "stat");
    own.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn family(method: &str) -> Family {
    match method {
        "sequential" => Family::Alone,
        _ if is_ours(method) => Family::Ours,
        _ => Family::Peer,
    }
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Reading, Unit};
    use crate::testing::{page, points};

    #[test]
    fn all_values_are_relative_to_daiko_in_the_same_case() {
        let measured = |method: &str, workers: u64, ns: f64| {
            let params = Params::new().with("work", "tree").with("workers", workers);
            points("fork-join", method, &params, &[Reading::new(Unit::Nanoseconds, ns)])
        };
        let all = [measured("daiko", 1, 100.0), measured("daiko", 2, 60.0)].concat();
        let html = page([all, measured("rayon", 1, 50.0), measured("rayon", 2, 30.0)].concat());
        let row = r#"<tr><th scope="row">work=tree workers=2</th><td>60.0</td><td>30.0<small>0.500x</small>"#;
        assert!(html.contains(row), "{html}");
        assert!(html.contains("Fork and join: tree"), "no drawing");
        assert!(html.contains("rayon, workers=2: measured 0.500x"), "no value on hover");
    }
}
