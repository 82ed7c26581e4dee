//! `report.html`: one file that needs no network, for desktop, phone and
//! screen reader. It is well-formed XML, so that a test can check it.

mod axis;
mod bars;
mod chart;
mod figures;
mod follow_sim;
mod ipc;
mod items;
mod p2;
mod p3;
mod p5;
mod processes;
mod serve;
mod sleep;
mod smt;
mod smt_classes;
mod svg;
pub mod table;
mod tsp;

use std::{collections::BTreeMap, fmt::Write, path::Path};

use chart::Family;
use figures::{Figure, RatioTable};
use svg::Escaped;
use table::Table;

use crate::{
    experiments::ring::conclusion,
    kit::{
        format,
        host::Host,
        results::{Missing, Results},
    },
};

const STYLE: &str = include_str!("style.css");

/// The report of `results`, which will lie at `path`.
///
/// # Examples
/// ```
/// use std::path::Path;
/// use daiko_lab::{kit::{host::Host, results::Results}, report, runner::{Measured, Schedule}};
/// let results = Results::new(Host::detect(), &Measured::default(), Schedule::QUICK);
/// assert!(report::html(&results, Path::new("report.html")).starts_with("<!DOCTYPE html>"));
/// ```
pub fn html(results: &Results, path: &Path) -> String {
    let mut page = Page::default();
    page.add(format_args!(
        r#"<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Daiko lab</title><style>{STYLE}</style></head><body>
"#
    ));
    page.header(results, path);
    page.0.push_str("<main>");
    page.ring(results);
    page.figure_section(figures::governor_curve(results));
    page.p2(results);
    page.p3(results);
    page.p5(results);
    page.sleep(results);
    page.figure_section(tsp::curve(results));
    page.figure_section(ipc::curve(results));
    serve::figures(results).into_iter().for_each(|(_, figure)| page.figure_section(Some(figure)));
    follow_sim::figures(results)
        .into_iter()
        .for_each(|(_, figure)| page.figure_section(Some(figure)));
    page.p4(results);
    smt::figures(results).into_iter().for_each(|(_, figure)| page.figure_section(Some(figure)));
    page.processes(results);
    page.smt_classes(results);
    page.tables(results);
    page.missing("Left out", &results.skipped);
    page.missing("Failed", &results.failed);
    page.notes(&results.notes);
    page.0.push_str("</main>");
    page.footer();
    page.0.push_str("</body></html>\n");
    page.0
}

/// The curves of `results`, each with a name for a file of its own: SVG that stands alone.
///
/// # Examples
/// ```
/// use daiko_lab::{kit::{host::Host, results::Results}, report, runner::{Measured, Schedule}};
/// let results = Results::new(Host::detect(), &Measured::default(), Schedule::QUICK);
/// assert!(report::drawings(&results).is_empty(), "nothing was measured");
/// ```
pub fn drawings(results: &Results) -> Vec<(&'static str, String)> {
    let curves = [
        ("ring.svg", figures::ring_curve(results)),
        ("governor.svg", figures::governor_curve(results)),
        ("tsp.svg", tsp::curve(results)),
        ("ipc.svg", ipc::curve(results)),
    ];
    let curves = curves.into_iter().filter_map(|(name, figure)| Some((name, figure?)));
    let all = curves.chain(serve::figures(results)).chain(follow_sim::figures(results));
    let all = all.chain(smt::figures(results));
    all.map(|(name, figure)| (name, stand_alone(&figure.drawing))).collect()
}

/// The first, wide drawing, with the style that a page would give it, at whatever width.
fn stand_alone(drawings: &str) -> String {
    let wide = drawings.split_inclusive("</svg>").next().unwrap_or_default();
    let (open, body) = wide.split_once('>').unwrap_or_default();
    format!(
        "{open}><style>{STYLE}\nsvg.wide {{ display: block; background: var(--paper); }}</style>{body}\n"
    )
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn add(&mut self, markup: std::fmt::Arguments<'_>) {
        self.0.write_fmt(markup).expect("strings take all");
    }

    fn header(&mut self, results: &Results, path: &Path) {
        self.add(format_args!("<header><h1>Waiting, measured on this machine</h1>"));
        self.add(format_args!(r#"<p class="facts">{}</p>"#, Escaped(&facts(&results.host))));
        if !results.host.optimised {
            self.warning("A debug build: build with --release before you compare anything.");
        }
        if results.interrupted {
            self.warning("Stopped before its end: points have fewer runs, or are missing.");
        }
        if let Some(lines) = conclusion::lines(results, path) {
            self.0.push_str(r#"<ul class="conclusion">"#);
            // The last line says where the report is: the reader is there.
            for line in &lines[..4] {
                self.add(format_args!("<li>{}</li>", Escaped(line)));
            }
            self.0.push_str("</ul>");
        }
        self.0.push_str("</header>");
    }

    fn warning(&mut self, text: &str) {
        self.add(format_args!(r#"<p class="warning">{}</p>"#, Escaped(text)));
    }

    fn ring(&mut self, results: &Results) {
        self.figure_section(figures::ring_curve(results));
        let figures = figures::of_p1(results);
        if figures.is_empty() {
            return;
        }
        self.0.push_str(
            r#"<section><h2>The figures of P1, redrawn</h2><p>P1 is the paper that polling agents come from: "waiting by polling agents and lightweight threads" (Computer System Symposium 2015; 4 cores, Linux 2.6.32). It compares methods by their speed relative to RT signals; ratios carry over to another machine, nanoseconds do not.</p><div class="pair">"#,
        );
        for figure in &figures {
            self.figure(figure, "h3");
        }
        self.0.push_str("</div></section>");
    }

    fn figure_section(&mut self, figure: Option<Figure>) {
        if let Some(figure) = figure {
            self.0.push_str("<section>");
            self.figure(&figure, "h2");
            self.0.push_str("</section>");
        }
    }

    fn figure(&mut self, figure: &Figure, heading: &str) {
        self.add(format_args!("<figure><{heading}>{}</{heading}>", Escaped(&figure.title)));
        self.add(format_args!("<figcaption>{}</figcaption>", Escaped(&figure.text)));
        self.legend(&figure.legend);
        self.0.push_str(&figure.drawing);
        if let Some(table) = &figure.table {
            self.ratio_table(&figure.title, table);
        }
        self.0.push_str("</figure>");
    }

    fn legend(&mut self, families: &[Family]) {
        if families.is_empty() {
            return;
        }
        self.0.push_str(r#"<ul class="legend">"#);
        for family in families {
            self.add(format_args!(r#"<li class="{}">{}</li>"#, family.class(), family.name()));
        }
        self.0.push_str("</ul>");
    }

    fn ratio_table(&mut self, title: &str, table: &RatioTable) {
        self.open_scroll(title);
        self.0.push_str(r#"<table><thead><tr><th class="text" scope="col">method</th>"#);
        for head in &table.heads {
            self.add(format_args!(r#"<th scope="col">{}</th>"#, Escaped(head)));
        }
        self.0.push_str("</tr></thead><tbody>");
        for row in &table.rows {
            let cell = |value: Option<String>| value.unwrap_or_else(|| "\u{2013}".into());
            self.add(format_args!(
                r#"<tr><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>"#,
                Escaped(&row.name),
                cell(row.time.map(format::number)),
                cell(row.measured.map(table.ratio)),
                cell(row.published.map(table.ratio)),
            ));
        }
        self.0.push_str("</tbody></table></div>");
    }

    fn tables(&mut self, results: &Results) {
        let tables = table::tables(results);
        if tables.is_empty() {
            return;
        }
        self.0.push_str(
            r#"<section><h2>All figures</h2><p class="hint">Medians, and under each the fastest and the slowest run.</p>"#,
        );
        for table in &tables {
            self.table(table);
        }
        self.0.push_str("</section>");
    }

    fn table(&mut self, table: &Table) {
        self.open_scroll(&table.title);
        self.add(format_args!("<table><caption>{}</caption><thead><tr>", Escaped(&table.title)));
        self.0.push_str(
            r#"<th class="text" scope="col">method</th><th class="text" scope="col">variant</th>"#,
        );
        for head in &table.heads {
            let column = table.column.as_ref().map_or(String::new(), |column| format!("{column} "));
            self.add(format_args!(r#"<th scope="col">{}{}</th>"#, Escaped(&column), Escaped(head)));
        }
        self.0.push_str("</tr></thead><tbody>");
        for row in &table.rows {
            self.add(format_args!(
                r#"<tr><th scope="row">{}</th><td class="text">{}</td>"#,
                Escaped(&row.method),
                Escaped(&row.variant)
            ));
            for cell in &row.cells {
                match cell {
                    Some(cell) => self.add(format_args!(
                        "<td>{}<small>{}\u{2013}{}</small></td>",
                        format::number(cell.median),
                        format::number(cell.min),
                        format::number(cell.max)
                    )),
                    None => self.0.push_str("<td>\u{2013}</td>"),
                }
            }
            self.0.push_str("</tr>");
        }
        self.0.push_str("</tbody></table></div>");
    }

    /// What has no value, one row per method and reason.
    fn missing(&mut self, title: &str, missing: &[Missing]) {
        if missing.is_empty() {
            return;
        }
        self.add(format_args!("<section><h2>{title}: {} points</h2>", missing.len()));
        self.open_scroll(title);
        self.0.push_str(
            r#"<table><thead><tr><th class="text" scope="col">method</th><th scope="col">points</th><th class="text" scope="col">reason</th></tr></thead><tbody>"#,
        );
        for ((method, reason), count) in grouped(missing) {
            self.add(format_args!(
                r#"<tr><th scope="row">{}</th><td>{count}</td><td class="text wrap">{}</td></tr>"#,
                Escaped(&method),
                Escaped(reason)
            ));
        }
        self.0.push_str("</tbody></table></div></section>");
    }

    fn notes(&mut self, notes: &[String]) {
        if notes.is_empty() {
            return;
        }
        self.0.push_str("<section><h2>Few rounds</h2><p class=\"hint\">Rounds of these are long: a run has few, and takes longer than it is meant to.</p><ul>");
        for note in notes {
            self.add(format_args!("<li>{}</li>", Escaped(note)));
        }
        self.0.push_str("</ul></section>");
    }

    fn footer(&mut self) {
        self.0.push_str(
            "<footer><p>How it is measured: every sample runs in a process of its own; a first one finds the number of \
             rounds that fill a run; then all methods take turns, so that drift of the machine hits all alike. Each \
             hop reads an 8-byte datum, checks that it is this lap's, and writes it to the next thread's buffer. \
             Set-up is not part of any figure. The numbers behind this page are in results.json beside it.</p></footer>",
        );
    }

    /// A wide table scrolls in a region that the keyboard reaches.
    fn open_scroll(&mut self, label: &str) {
        self.add(format_args!(
            r#"<div class="scroll" role="region" tabindex="0" aria-label="Table: {}">"#,
            Escaped(label)
        ));
    }
}

fn facts(host: &Host) -> String {
    let quota =
        host.quota.map_or(String::new(), |quota| format!(" (quota {})", format::number(quota)));
    let governor =
        host.governor.as_ref().map_or(String::new(), |governor| format!(", governor {governor}"));
    format!(
        "{}, {} CPUs allowed{quota}{governor}. Linux {}, glibc {}. Daiko {}, {}.",
        host.cpu, host.cpus, host.kernel, host.glibc, host.daiko, host.date
    )
}

/// How many points each method lacks for each reason.
pub fn grouped(missing: &[Missing]) -> BTreeMap<(String, &str), usize> {
    let mut groups = BTreeMap::new();
    for point in missing {
        let method = format!("{} {}", point.experiment, point.method);
        *groups.entry((method, point.reason.as_str())).or_default() += 1;
    }
    groups
}

#[cfg(test)]
mod tests;
