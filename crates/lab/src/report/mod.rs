//! The report `report.html`: one file that needs no network, for desktop, phone and screen reader.
//! It is well-formed XML, so that a test can check it.

mod axis;
mod bars;
pub mod compare;
mod curve;
mod disturbed;
mod ratios;
mod svg;
pub mod table;

use std::collections::BTreeMap;
use std::fmt::Write;

pub use self::disturbed::disturbed_line;
use self::svg::{Escaped, Screen};
use crate::experiments::{self, legend};
use crate::kit::{
    Cell, Chart, Column, DataTable, Drawing, Family, Host, Missing, Part, Results, Section,
    distinct, format,
};

const STYLE: &str = include_str!("style.css");

/// Builds the report of `results`.
///
/// # Examples
///
/// ```
/// use daiko_lab::{kit::host::Host, report, runner::{Measured, Schedule}};
///
/// let results = Measured::default().results(Host::detect(), Schedule::QUICK);
/// assert!(report::html(&results).starts_with("<!DOCTYPE html>"));
/// ```
pub fn html(results: &Results) -> String {
    let mut page = HtmlPage::default();
    page.add(format_args!(
        r#"<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Daiko lab</title><style>{STYLE}</style></head><body>
"#
    ));
    let sections = sections(results);
    page.header(results, &sections);
    page.0.push_str("<main>");
    sections.iter().for_each(|section| page.section(section));
    page.methods(results);
    page.tables(results);
    page.missing("Left out", &results.skipped);
    page.missing("Failed", &results.failed);
    page.notes(&results.notes);
    page.0.push_str("</main>");
    page.footer();
    page.0.push_str("</body></html>\n");
    page.0
}

/// Returns the drawings of `results` as stand-alone SVG, each with its file name.
///
/// # Examples
///
/// ```
/// use daiko_lab::{kit::host::Host, report, runner::{Measured, Schedule}};
///
/// let results = Measured::default().results(Host::detect(), Schedule::QUICK);
/// assert!(report::drawings(&results).is_empty(), "nothing was measured");
/// ```
pub fn drawings(results: &Results) -> Vec<(&'static str, String)> {
    let alone = |section| match section {
        Section::Drawing(Drawing { file, chart, .. }) => Some((file?, stand_alone(&chart))),
        _ => None,
    };
    sections(results).into_iter().filter_map(alone).collect()
}

/// The concluding lines of `results`, if they allow a conclusion.
pub fn conclusion(results: &Results) -> Option<Vec<String>> {
    sections(results).into_iter().find_map(|section| match section {
        Section::Conclusion(lines) => Some(lines),
        _ => None,
    })
}

/// Sections of all experiments; sections with the same title are merged.
fn sections(results: &Results) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for section in experiments::ALL.iter().flat_map(|experiment| (experiment.sections)(results)) {
        if !sections.iter_mut().any(|other| has_joined(other, &section)) {
            sections.push(section);
        }
    }
    sections
}

/// Adds the rows of `section` to `other` if both have the same title. Returns whether they have.
fn has_joined(other: &mut Section, section: &Section) -> bool {
    let (Section::Titled(title, parts), Section::Titled(own, more)) = (other, section) else {
        return false;
    };
    if title != own {
        return false;
    }
    for pair in parts.iter_mut().zip(more) {
        if let (Part::Table(table), Part::Table(more)) = pair {
            table.rows.extend(more.rows.iter().cloned());
        }
    }
    true
}

/// A drawing for wide screens with the style of the page, usable at any width.
fn stand_alone(chart: &Chart) -> String {
    let drawing = chart.draw(Screen::Wide);
    let (open, body) = drawing.split_once('>').unwrap_or_default();
    format!(
        "{open}><style>{STYLE}\nsvg.wide {{ display: block; background: var(--paper); }}</style>{body}\n"
    )
}

impl Chart {
    fn draw(&self, screen: Screen) -> String {
        match self {
            Self::Curve(chart) => chart.draw(screen),
            Self::Bars(chart) => chart.draw(screen),
            Self::Ratios(chart) => chart.draw(screen),
        }
    }

    /// Families in the chart, in the order of legends.
    fn families(&self) -> Vec<Family> {
        let mut families: Vec<Family> = match self {
            Self::Curve(chart) => chart.lines.iter().map(|line| line.family).collect(),
            Self::Bars(chart) => chart.bars().map(|bar| bar.family).collect(),
            Self::Ratios(chart) => chart.rows.iter().map(|row| row.family).collect(),
        };
        families.sort_unstable();
        families.dedup();
        families
    }
}

impl Family {
    fn class(self) -> &'static str {
        self.look().0
    }

    /// Its class, and its name in a legend.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Ours => ("ours", "Daiko"),
            Self::Peer => ("peer", "libraries"),
            Self::Kernel => ("kernel", "kernel mechanisms"),
            Self::Alone => ("limit", "no threads"),
            Self::Limit => ("limit", "limit"),
            Self::Published => ("limit", "published"),
        }
    }
}

const CLASS_FACTS: &str = r#" class="facts""#;
const CLASS_HINT: &str = r#" class="hint""#;

#[derive(Default)]
struct HtmlPage(String);

impl HtmlPage {
    fn add(&mut self, markup: std::fmt::Arguments<'_>) {
        self.0.write_fmt(markup).expect("strings take all");
    }

    /// Adds an element with a text; `attribute` may be empty.
    fn element(&mut self, tag: &str, attribute: &str, text: &str) {
        self.add(format_args!("<{tag}{attribute}>{}</{tag}>", Escaped(text)));
    }

    fn list(&mut self, attribute: &str, lines: &[String]) {
        self.add(format_args!("<ul{attribute}>"));
        lines.iter().for_each(|line| self.element("li", "", line));
        self.0.push_str("</ul>");
    }

    fn header(&mut self, results: &Results, sections: &[Section]) {
        self.add(format_args!("<header><h1>Waiting, measured on this machine</h1>"));
        self.element("p", CLASS_FACTS, &facts(&results.host));
        if !results.host.optimised {
            self.warning("A debug build: build with --release before you compare anything.");
        }
        if let Some(line) = disturbed_line(results) {
            self.warning(&line);
        }
        if results.interrupted {
            self.warning("Stopped before its end: points have fewer runs, or are missing.");
        }
        for section in sections {
            if let Section::Conclusion(lines) = section {
                self.list(r#" class="conclusion""#, lines);
            }
        }
        self.0.push_str("</header>");
    }

    fn warning(&mut self, text: &str) {
        self.element("p", r#" class="warning""#, text);
    }

    fn section(&mut self, section: &Section) {
        match section {
            Section::Conclusion(_) => return,
            Section::Drawing(drawing) => {
                self.0.push_str("<section>");
                self.drawing(drawing, "h2");
            }
            Section::Titled(title, parts) => {
                self.0.push_str("<section>");
                self.element("h2", "", title);
                parts.iter().for_each(|part| self.part(part));
            }
        }
        self.0.push_str("</section>");
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(text) => self.element("p", "", text),
            Part::Hint(text) => self.element("p", CLASS_HINT, text),
            Part::List(lines) => self.list("", lines),
            Part::Table(table) => self.table(table),
            Part::Drawings(drawings) => {
                self.0.push_str(r#"<div class="pair">"#);
                drawings.iter().for_each(|drawing| self.drawing(drawing, "h3"));
                self.0.push_str("</div>");
            }
        }
    }

    /// Adds a drawing for each width, so that text is readable on both.
    fn drawing(&mut self, drawing: &Drawing, heading: &str) {
        self.0.push_str("<figure>");
        self.element(heading, "", &drawing.title);
        self.element("figcaption", "", &drawing.text);
        if drawing.has_legend {
            self.legend(&drawing.chart.families());
        }
        for screen in [Screen::Wide, Screen::Narrow] {
            self.0.push_str(&drawing.chart.draw(screen));
        }
        drawing.table.iter().for_each(|table| self.table(table));
        self.0.push_str("</figure>");
    }

    fn legend(&mut self, families: &[Family]) {
        self.0.push_str(r#"<ul class="legend">"#);
        for family in families {
            let (class, name) = family.look();
            self.add(format_args!(r#"<li class="{class}">{name}</li>"#));
        }
        self.0.push_str("</ul>");
    }

    /// Adds a table in a region that scrolls if the table is too wide. The region can be focused by
    /// keyboard.
    fn table(&mut self, table: &DataTable) {
        self.add(format_args!(
            r#"<div class="scroll" role="region" tabindex="0" aria-label="Table: {}"><table>"#,
            Escaped(&table.label)
        ));
        if table.has_caption {
            self.element("caption", "", &table.label);
        }
        self.0.push_str("<thead><tr>");
        for column in &table.columns {
            match column {
                Column::Text(head) | Column::Lines(head) => {
                    self.element("th", r#" class="text" scope="col""#, head);
                }
                Column::Number(head) => self.element("th", r#" scope="col""#, head),
            }
        }
        self.0.push_str("</tr></thead><tbody>");
        table.rows.iter().for_each(|row| self.row(&table.columns, row));
        self.0.push_str("</tbody></table></div>");
    }

    fn row(&mut self, columns: &[Column], cells: &[Cell]) {
        self.0.push_str("<tr>");
        for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let (tag, attribute) = match column {
                _ if index == 0 => ("th", r#" scope="row""#),
                Column::Text(_) => ("td", r#" class="text""#),
                Column::Lines(_) => ("td", r#" class="text wrap""#),
                Column::Number(_) => ("td", ""),
            };
            self.add(format_args!("<{tag}{attribute}>{}", Escaped(&cell.value)));
            cell.below.iter().for_each(|below| self.element("small", "", below));
            self.add(format_args!("</{tag}>"));
        }
        self.0.push_str("</tr>");
    }

    /// Adds the description of each measured method.
    fn methods(&mut self, results: &Results) {
        let methods = distinct(results.measured().map(|point| point.method.as_str()));
        let row = |method: &&str| Some(vec![(*method).into(), legend::describe(method)?.into()]);
        let mut table = DataTable::new("methods", ["method"], [""; 0]);
        table.columns.push(Column::Lines("description".into()));
        let table = table.with_rows(methods.iter().filter_map(row));
        if !table.rows.is_empty() {
            self.section(&Section::Titled("Methods".into(), vec![Part::Table(table)]));
        }
    }

    fn tables(&mut self, results: &Results) {
        let tables = table::tables(results);
        if !tables.is_empty() {
            let hint = "Medians, and below each the fastest and the slowest run. A mark ! means that other \
                        programs or guests took CPU time during one of the runs.";
            let tables = tables.iter().map(|table| Part::Table(table.data()));
            let parts = [Part::Hint(hint.into())].into_iter().chain(tables).collect();
            self.section(&Section::Titled("All figures".into(), parts));
        }
    }

    /// Adds the points without a value, one row per method and reason.
    fn missing(&mut self, title: &str, missing: &[Missing]) {
        if missing.is_empty() {
            return;
        }
        let row = |((method, reason), count): ((String, &str), usize)| {
            vec![method.into(), count.to_string().into(), reason.into()]
        };
        let mut table = DataTable::new(title, ["method"], ["points"]);
        table.columns.push(Column::Lines("reason".into()));
        let table = table.with_rows(grouped(missing).into_iter().map(row));
        let title = format!("{title}: {} points", missing.len());
        self.section(&Section::Titled(title, vec![Part::Table(table)]));
    }

    fn notes(&mut self, notes: &[String]) {
        if !notes.is_empty() {
            let hint = "The rounds of these points are long: a run has few of them, and takes longer than intended.";
            let parts = vec![Part::Hint(hint.into()), Part::List(notes.into())];
            self.section(&Section::Titled("Few rounds".into(), parts));
        }
    }

    fn footer(&mut self) {
        self.0.push_str(
            "<footer><p>How it is measured: every sample runs in a process of its own; a first one finds the number of \
             rounds that fill a run; then all methods take turns, so that drift of the machine affects all of them alike. Each \
             hop reads an 8-byte datum, checks that it is this lap's, and writes it to the next thread's buffer. \
             Set-up is not part of any figure. The numbers behind this page are in results.json beside it.</p></footer>",
        );
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

/// Counts the missing points of each method by reason.
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
