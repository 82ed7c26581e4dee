//! Cost of worker processes relative to worker threads, and its limit.

use super::case::{Params, Unit};
use super::figure::{DataTable, Part, Section};
use super::results::{Point, Results};
use super::{format, processes};

const TEXT: &str = "Fibers of worker processes, beside the same fibers on as many worker threads, \
     and an uncontended mutex beside the two locked instructions that every mutex needs. Rings of \
     the layout free are left out: the number of hops that cross is random there.";

/// Points of worker processes in an experiment, and the limit of their time relative to a baseline.
pub(crate) struct Reach {
    /// Name in the table.
    pub(crate) operation: &'static str,
    /// The item of these points, if the experiment has items.
    pub(crate) item: Option<&'static str>,
    /// The baseline of these points.
    pub(crate) baseline: Baseline,
    /// Largest ratio to the baseline.
    pub(crate) most: f64,
}

/// Baseline for points of worker processes.
pub(crate) enum Baseline {
    /// The point of that method with the same parameters.
    Same(&'static str),
    /// The point of `limits` of that name.
    Limit(&'static str),
}

impl Reach {
    /// Builds a section with a row for each point of `experiment` with a baseline. All experiments
    /// give it the same title.
    pub(crate) fn section(&self, results: &Results, experiment: &str) -> Option<Section> {
        let own = results.of(experiment).method(processes::METHOD).unit(Unit::Nanoseconds);
        let own = own.without("stat").filter(|point| {
            let params = &point.params;
            params.text("item") == self.item && params.text("layout") != Some("free")
        });
        let rows = own.iter().filter_map(|point| {
            let baseline = self.baseline(results, point)?;
            let params = match self.item {
                Some(_) => String::new(),
                None => format!(", {}", listed(&point.params)),
            };
            Some(vec![
                format!("{}{params}", self.operation).into(),
                baseline.method.as_str().into(),
                format::number(baseline.median).into(),
                format::number(point.median).into(),
                format!("{:.2}", point.median / baseline.median).into(),
                format!("\u{2264} {}", self.most).into(),
            ])
        });
        let heads = ["baseline, ns", "processes, ns", "ratio", "target"];
        let table = DataTable::new("workers that are processes", ["operation", "baseline"], heads);
        let table = table.with_rows(rows);
        let is_empty = table.rows.is_empty();
        let parts = vec![Part::Text(TEXT.into()), Part::Table(table)];
        (!is_empty).then(|| Section::Titled("Workers that are processes".into(), parts))
    }

    fn baseline<'a>(&self, results: &'a Results, of: &Point) -> Option<&'a Point> {
        match self.baseline {
            Baseline::Same(method) => {
                let same = results.of(&of.experiment).method(method).unit(of.unit);
                same.filter(|point| point.params == of.params).first()
            }
            Baseline::Limit(method) => results.of("limits").method(method).first(),
        }
    }
}

fn listed(params: &Params) -> String {
    params.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::kit::{Params, Reading, Unit, processes};
    use crate::testing::made_up::{cost, ring, salesman};
    use crate::testing::{page, points};

    #[test]
    fn worker_processes_are_compared_with_the_same_on_threads() {
        let layout = |method: &str, layout: &str, ns: f64| {
            let mut points = ring(method, 10, ns);
            points[0].params = points[0].params.clone().with("layout", layout);
            points
        };
        let pair = || {
            points("limits", "rmw-pair", &Params::new(), &[Reading::new(Unit::Nanoseconds, 10.0)])
        };
        let ours = processes::METHOD;
        let all = [
            pair(),
            layout("daiko-borrowed-mover", "half", 20.0),
            layout("daiko-borrowed-mover", "free", 20.0),
            layout(ours, "half", 22.0),
            layout(ours, "free", 90.0),
            layout(ours, "cross", 90.0),
            cost(ours, "mutex", 13.0),
            salesman("daiko-borrowed", Params::new().with("cities", 11u64), 40.0),
            salesman(ours, Params::new().with("cities", 11u64), 41.0),
        ];
        let html = page(all.concat());
        let row = |operation: &str, cells: &str| {
            let cells = cells.replace('|', "</td><td>");
            format!(r#"<tr><th scope="row">{operation}</th><td class="text">{cells}</td></tr>"#)
        };
        for row in [
            row(
                "hop, threads=10 order=shuffled layout=half",
                "daiko-borrowed-mover|20.0|22.0|1.10|\u{2264} 1.15",
            ),
            row("mutex pair", "rmw-pair|10.0|13.0|1.30|\u{2264} 1.35"),
            row(
                "travelling salesman, cities=11",
                "daiko-borrowed|40,000,000|41,000,000|1.02|\u{2264} 1.05",
            ),
        ] {
            assert!(html.contains(&row), "{row}");
        }
        assert_eq!(html.matches("<tr><th scope=\"row\">hop, ").count(), 1, "comparable points");
        let heading = "Workers that are processes";
        assert!(!page([pair(), cost("daiko", "mutex", 9.0)].concat()).contains(heading));
    }
}
