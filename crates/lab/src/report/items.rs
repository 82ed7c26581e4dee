//! Tables of what items of `costs` cost here, by method, beside what a paper published.

use super::{Page, svg::Escaped};
use crate::{
    kit::{
        Params, format,
        results::{Point, Results},
    },
    report::table::distinct,
};

/// A paper's table, to be filled with what was measured.
pub(super) struct ItemTable {
    /// For who does not see it.
    pub(super) label: &'static str,
    /// Heads of the columns that were published.
    pub(super) heads: Vec<String>,
    /// Items, and what was published of each.
    pub(super) items: Vec<(&'static str, Vec<Published>)>,
    /// The method to which all others are related.
    pub(super) baseline: &'static str,
}

/// A cell as it was printed, and how that relates to another one.
pub(super) struct Published {
    pub(super) printed: String,
    pub(super) ratio: Option<f64>,
}

/// A row: an item, in one variant.
struct Row<'a> {
    name: String,
    /// One for each method.
    cells: Vec<Option<Cell>>,
    published: &'a [Published],
}

struct Cell {
    nanoseconds: f64,
    /// Relative to the baseline, unless it is that.
    ratio: Option<f64>,
}

impl ItemTable {
    /// The points that it is about.
    pub(super) fn points<'a>(&self, results: &'a Results) -> Vec<&'a Point> {
        let is_ours = |point: &&Point| {
            let item = point.params.text("item");
            point.experiment == "costs" && self.items.iter().any(|(name, _)| item == Some(name))
        };
        results.measured().filter(is_ours).collect()
    }

    /// A row for each variant of each item that was measured.
    fn rows(&self, points: &[&Point], methods: &[&str]) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for (item, published) in &self.items {
            let of_item = points.iter().filter(|point| point.params.text("item") == Some(item));
            let variants = distinct(of_item.map(|point| &point.params)).into_iter();
            rows.extend(variants.map(|params| self.row(points, methods, params, published)));
        }
        rows
    }

    fn row<'a>(
        &self,
        points: &[&Point],
        methods: &[&str],
        params: &Params,
        published: &'a [Published],
    ) -> Row<'a> {
        let median = |method: &str| {
            let same = |point: &&&Point| point.method == method && point.params == *params;
            points.iter().find(same).map(|point| point.median)
        };
        let baseline = median(self.baseline);
        let cell = |method: &&str| {
            let nanoseconds = median(method)?;
            let baseline = baseline.filter(|_| *method != self.baseline);
            Some(Cell { nanoseconds, ratio: baseline.map(|baseline| nanoseconds / baseline) })
        };
        Row { name: name(params), cells: methods.iter().map(cell).collect(), published }
    }
}

impl Page {
    /// The table with `points`, which are those that it is about.
    pub(super) fn items(&mut self, table: &ItemTable, points: &[&Point]) {
        let methods = distinct(points.iter().map(|point| point.method.as_str()));
        self.open_scroll(table.label);
        self.0.push_str(r#"<table><thead><tr><th class="text" scope="col">item</th>"#);
        let measured = methods.iter().map(|method| format!("{method}, ns"));
        for head in measured.chain(table.heads.iter().cloned()) {
            self.add(format_args!(r#"<th scope="col">{}</th>"#, Escaped(&head)));
        }
        self.0.push_str("</tr></thead><tbody>");
        for row in table.rows(points, &methods) {
            self.item(&row);
        }
        self.0.push_str("</tbody></table></div>");
    }

    fn item(&mut self, row: &Row<'_>) {
        self.add(format_args!(r#"<tr><th scope="row">{}</th>"#, Escaped(&row.name)));
        for cell in &row.cells {
            match cell {
                Some(cell) => self.related(&format::number(cell.nanoseconds), cell.ratio),
                None => self.0.push_str("<td>\u{2013}</td>"),
            }
        }
        for Published { printed, ratio } in row.published {
            self.related(printed, *ratio);
        }
        self.0.push_str("</tr>");
    }

    fn related(&mut self, value: &str, ratio: Option<f64>) {
        let ratio = ratio.map(|ratio| format!("<small>{}</small>", format::number(ratio)));
        self.add(format_args!("<td>{}{}</td>", Escaped(value), ratio.unwrap_or_default()));
    }
}

/// The item, then what else tells the row from others: `thread-info, of=tls`.
fn name(params: &Params) -> String {
    let parts = params.iter().map(|(key, value)| match key {
        "item" => value.to_string(),
        _ => format!("{key}={value}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}
