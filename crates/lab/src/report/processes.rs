//! What worker processes cost beside worker threads, and what they may cost.

use super::{Page, svg::Escaped};
use crate::kit::{
    Params, Unit, format, processes,
    results::{Point, Results},
};

/// What stands before the table.
const TEXT: &str = "Fibers whose workers are processes, beside the same fibers on as many workers that are threads, \
     and a mutex that nobody else wants beside the two locked instructions without which there is none. Rings of the \
     layout free are left out: it is chance how many of their hops cross.";

/// A kind of point of worker processes, what each is compared with, and how many times as long it may take at most.
struct Reach {
    what: &'static str,
    experiment: &'static str,
    /// The item of `costs`.
    item: Option<&'static str>,
    baseline: Baseline,
    most: f64,
}

/// What is compared with.
enum Baseline {
    /// The point of that method with the same parameters.
    Same(&'static str),
    /// The point of `limits` of that name.
    Limit(&'static str),
}

const REACH: [Reach; 3] = [
    Reach {
        what: "hop",
        experiment: "ring",
        item: None,
        baseline: Baseline::Same("daiko-mover"),
        most: 1.15,
    },
    Reach {
        what: "mutex pair",
        experiment: "costs",
        item: Some("mutex"),
        baseline: Baseline::Limit("rmw-pair"),
        most: 1.35,
    },
    Reach {
        what: "travelling salesman",
        experiment: "tsp",
        item: None,
        baseline: Baseline::Same("daiko"),
        most: 1.05,
    },
];

impl Reach {
    fn is_about(&self, point: &Point) -> bool {
        point.experiment == self.experiment
            && point.method == processes::METHOD
            && point.unit == Unit::Nanoseconds
            && point.params.text("item") == self.item
            && point.params.get("stat").is_none()
            && point.params.text("layout") != Some("free")
    }

    fn baseline<'a>(&self, results: &'a Results, of: &Point) -> Option<&'a Point> {
        let is_it = |point: &&Point| match self.baseline {
            Baseline::Same(method) => {
                point.experiment == of.experiment
                    && point.method == method
                    && point.unit == of.unit
                    && point.params == of.params
            }
            Baseline::Limit(method) => point.experiment == "limits" && point.method == method,
        };
        results.measured().find(is_it)
    }
}

/// A comparison.
struct Row<'a> {
    reach: &'static Reach,
    point: &'a Point,
    baseline: &'a Point,
}

fn rows(results: &Results) -> Vec<Row<'_>> {
    let of = |reach: &'static Reach| {
        let points = results.measured().filter(|point| reach.is_about(point));
        points.filter_map(move |point| {
            Some(Row { reach, point, baseline: reach.baseline(results, point)? })
        })
    };
    const { &REACH }.iter().flat_map(of).collect()
}

impl Page {
    /// The section, if there is anything to compare.
    pub(super) fn processes(&mut self, results: &Results) {
        let rows = rows(results);
        if rows.is_empty() {
            return;
        }
        self.add(format_args!("<section><h2>Workers that are processes</h2><p>{TEXT}</p>"));
        self.open_scroll("workers that are processes");
        self.0.push_str(
            r#"<table><thead><tr><th class="text" scope="col">what</th><th class="text" scope="col">beside</th>"#,
        );
        for head in ["that, ns", "processes, ns", "ratio", "to reach"] {
            self.add(format_args!(r#"<th scope="col">{head}</th>"#));
        }
        self.0.push_str("</tr></thead><tbody>");
        for row in &rows {
            self.compared(row);
        }
        self.0.push_str("</tbody></table></div></section>");
    }

    fn compared(&mut self, Row { reach, point, baseline }: &Row<'_>) {
        let params = match reach.item {
            Some(_) => String::new(),
            None => format!(", {}", listed(&point.params)),
        };
        self.add(format_args!(
            r#"<tr><th scope="row">{}{}</th><td class="text">{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{}</td></tr>"#,
            reach.what,
            Escaped(&params),
            Escaped(&baseline.method),
            format::number(baseline.median),
            format::number(point.median),
            point.median / baseline.median,
            format_args!("\u{2264} {}", reach.most)
        ));
    }
}

fn listed(params: &Params) -> String {
    params.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
