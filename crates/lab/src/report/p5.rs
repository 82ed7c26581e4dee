//! The tables of P5: what each item costs here, by method, and what it
//! published beside it.

use super::{Page, svg::Escaped};
use crate::{
    experiment::Params,
    format,
    published::{P5_MACHINES, P5_RATIOS},
    results::{Point, Results},
    table::distinct,
};

const NPTL: &str = "nptl";

/// What stands before the table.
const TEXT: &str = "P5 is an evaluation of Linux's thread library NPTL beside its predecessor \
     LinuxThreads. It published the time of the one relative to the other's, on two machines; less is \
     faster, and such ratios carry over where nanoseconds do not. Beside them stands what the same items cost \
     here, in nanoseconds, and under each how that relates to NPTL here. P5 does not say how it \
     switched by a mutex, nor whether the threads that it joined had ended: here they have.";

/// The times of P5 themselves. Nothing is computed from them.
const FOOTNOTE: &str = "The times that P5 printed, as extracted from its text, which lost decimal points and \
     prefixes of units (x86 NPTL, LinuxThreads; MIPS NPTL, LinuxThreads): thread-info 54, 59; 150, 170. \
     mutex 64, 80; 570, 520. semaphore 400, 150; 1870, 960. switch-mutex 153, 274; 19.8, 62.9. \
     switch-semaphore 154, 283; 19.7, 59.8. switch-condvar 228, 309; 29.1, 64.6. create 12.5, 31.9; 146, 637. \
     join 5.7, 28.4; 805, 841. Internal evidence suggests nanoseconds for thread-info, 5.4 and 5.9 on x86, \
     and for mutex and semaphore; microseconds for all others, switches on x86 being hundredths (1.53, 2.74), \
     and the join of NPTL on MIPS 80.5. The semaphore's ratio on x86 is printed as 27, and is 2.7 by its times.";

/// A row: an item of P5, in one variant.
struct Row {
    name: String,
    /// One for each method.
    cells: Vec<Option<Cell>>,
    /// On each machine.
    published: [f64; 2],
}

struct Cell {
    nanoseconds: f64,
    /// Relative to NPTL, unless it is NPTL.
    of_nptl: Option<f64>,
}

impl Page {
    /// The section, if there is anything to show.
    pub(super) fn p5(&mut self, results: &Results) {
        let points: Vec<&Point> = results.measured().filter(|point| is_of_p5(point)).collect();
        if points.is_empty() {
            return;
        }
        let methods = distinct(points.iter().map(|point| point.method.as_str()));
        let machines = P5_MACHINES.map(|(name, what)| format!("{name}: {what}")).join("; ");
        self.add(format_args!("<section><h2>The tables of P5</h2><p>{TEXT}</p>"));
        self.add(format_args!(r#"<p class="hint">{machines}.</p>"#));
        self.open_scroll("the tables of P5");
        self.p5_head(&methods);
        for row in rows(&points, &methods) {
            self.p5_row(&row);
        }
        self.add(format_args!(r#"</tbody></table></div><p class="hint">{FOOTNOTE}</p></section>"#));
    }

    fn p5_head(&mut self, methods: &[&str]) {
        self.0.push_str(r#"<table><thead><tr><th class="text" scope="col">item</th>"#);
        for method in methods {
            self.add(format_args!(r#"<th scope="col">{}, ns</th>"#, Escaped(method)));
        }
        for (machine, _) in P5_MACHINES {
            self.add(format_args!(r#"<th scope="col">published, {machine}</th>"#));
        }
        self.0.push_str("</tr></thead><tbody>");
    }

    fn p5_row(&mut self, row: &Row) {
        self.add(format_args!(r#"<tr><th scope="row">{}</th>"#, Escaped(&row.name)));
        for cell in &row.cells {
            let Some(Cell { nanoseconds, of_nptl }) = cell else {
                self.0.push_str("<td>\u{2013}</td>");
                continue;
            };
            let ratio = of_nptl.map(|ratio| format!("<small>{}</small>", format::number(ratio)));
            let (value, ratio) = (format::number(*nanoseconds), ratio.unwrap_or_default());
            self.add(format_args!("<td>{value}{ratio}</td>"));
        }
        // As printed: they have two digits.
        for ratio in row.published {
            self.add(format_args!("<td>{ratio}</td>"));
        }
        self.0.push_str("</tr>");
    }
}

fn is_of_p5(point: &Point) -> bool {
    let item = point.params.text("item");
    point.experiment == "costs" && P5_RATIOS.iter().any(|(name, _)| item == Some(name))
}

/// A row for each variant of each item that was measured.
fn rows(points: &[&Point], methods: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (item, published) in P5_RATIOS {
        let of_item = points.iter().filter(|point| point.params.text("item") == Some(item));
        let variants = distinct(of_item.map(|point| &point.params));
        rows.extend(variants.into_iter().map(|params| row(points, methods, params, published)));
    }
    rows
}

fn row(points: &[&Point], methods: &[&str], params: &Params, published: [f64; 2]) -> Row {
    let median = |method: &str| {
        let same = |point: &&&Point| point.method == method && point.params == *params;
        points.iter().find(same).map(|point| point.median)
    };
    let nptl = median(NPTL);
    let cell = |method: &&str| {
        let nanoseconds = median(method)?;
        let of_nptl = nptl.filter(|_| *method != NPTL).map(|nptl| nanoseconds / nptl);
        Some(Cell { nanoseconds, of_nptl })
    };
    Row { name: name(params), cells: methods.iter().map(cell).collect(), published }
}

/// The item, then what else tells the row from others: `thread-info, of=tls`.
fn name(params: &Params) -> String {
    let parts = params.iter().map(|(key, value)| match key {
        "item" => value.to_string(),
        _ => format!("{key}={value}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}
