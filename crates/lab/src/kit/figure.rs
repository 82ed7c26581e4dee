//! Figures as data: an experiment's input for the report, which draws them.

use super::results::{Point, Points, Spread};

/// A section of the report. Sections with the same title are drawn as one.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a report has a few dozen sections")]
pub enum Section {
    /// Lines at the beginning of the report and of the command's output.
    Conclusion(Vec<String>),
    /// A drawing with its title as the heading.
    Drawing(Drawing),
    /// A heading and the parts below it.
    Titled(String, Vec<Part>),
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A paragraph in small print.
    Hint(String),
    /// A bulleted list.
    List(Vec<String>),
    /// A table.
    Table(DataTable),
    /// Drawings side by side.
    Drawings(Vec<Drawing>),
}

/// A chart with its texts.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// File that holds only this chart, if there is one.
    pub file: Option<&'static str>,
    /// The heading.
    pub title: String,
    /// Text between the heading and the chart.
    pub text: String,
    /// The chart itself.
    pub chart: Chart,
    /// Whether a legend names the families by their colours.
    pub has_legend: bool,
    /// Its numbers, beside published numbers.
    pub table: Option<DataTable>,
}

impl Drawing {
    /// Creates a drawing of a chart with a file of its own and a legend.
    pub fn new(
        file: &'static str,
        title: impl Into<String>,
        text: impl Into<String>,
        chart: Chart,
    ) -> Self {
        let (title, text) = (title.into(), text.into());
        Self { file: Some(file), title, text, chart, has_legend: true, table: None }
    }
}

/// The kinds of charts.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Lines over a size.
    Curve(Curve),
    /// Bars in groups.
    Bars(BarChart),
    /// Ratios, measured and published, on one logarithmic axis.
    Ratios(RatioChart),
}

/// Family of a method, shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Daiko.
    Ours,
    /// Libraries.
    Peer,
    /// Mechanisms of the kernel.
    Kernel,
    /// No threads; drawn as a limit.
    Alone,
    /// Limits of the hardware.
    Limit,
    /// Findings of a paper; drawn as a limit.
    Published,
}

/// Values over a size; both axes are logarithmic by default.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Description for screen readers.
    pub label: String,
    /// The name of the horizontal axis.
    pub x: String,
    /// The name of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is linear.
    pub linear_x: bool,
    /// Whether the vertical axis is linear.
    pub linear_y: bool,
    /// Whether horizontal values were measured as well. If not, they are few and common to all
    /// lines, and become the ticks of the axis. If so, the ends of each line bear their meaning.
    pub measured_x: bool,
    /// The lines.
    pub lines: Vec<CurveLine>,
}

impl Curve {
    /// Creates a curve of the lines that have marks. Its axes have these names, `x` first, and both
    /// are logarithmic.
    pub fn new(label: impl Into<String>, [x, y]: [&str; 2], mut lines: Vec<CurveLine>) -> Self {
        lines.retain(|line| !line.marks.is_empty());
        Self { label: label.into(), x: x.into(), y: y.into(), lines, ..Self::default() }
    }

    /// Creates a drawing with a file of its own and a legend, if there are any lines.
    pub fn drawn(
        self,
        file: &'static str,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Option<Drawing> {
        let has_lines = !self.lines.is_empty();
        has_lines.then(|| Drawing::new(file, title, text, Chart::Curve(self)))
    }
}

/// One line of a [`Curve`].
#[derive(Clone, Debug)]
pub struct CurveLine {
    /// Name, shown beside the line's end.
    pub name: String,
    /// Family, shown by the colour.
    pub family: Family,
    /// Marks in the order in which the line connects them.
    pub marks: Vec<Mark>,
}

/// A mark on a line.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Horizontal position.
    pub x: f64,
    /// Its value.
    pub y: Spread,
    /// Meaning of the mark: `n = 1000`.
    pub means: String,
}

impl CurveLine {
    /// Builds a line from the points with a mark, from left to right.
    pub fn new(
        name: impl Into<String>,
        family: Family,
        points: &Points<'_>,
        mark: impl Fn(&Point) -> Option<Mark>,
    ) -> Self {
        let mut marks: Vec<Mark> = points.iter().filter_map(mark).collect();
        marks.sort_by(|one, other| one.x.total_cmp(&other.x));
        Self { name: name.into(), family, marks }
    }

    /// Builds a line for each method with a mark, grouped by family.
    pub fn of_methods(
        points: &Points<'_>,
        family: impl Fn(&str) -> Family,
        mark: impl Fn(&Point) -> Option<Mark>,
    ) -> Vec<Self> {
        let line = |method| Self::new(method, family(method), &points.method(method), &mark);
        let mut lines: Vec<Self> = points.methods().into_iter().map(line).collect();
        lines.retain(|line| !line.marks.is_empty());
        lines.sort_by_key(|line| line.family);
        lines
    }

    /// Builds a line at a constant value between two `ends`.
    pub fn level(name: &str, family: Family, value: Spread, means: &str, ends: [f64; 2]) -> Self {
        let mark = |x| Mark { x, y: value, means: means.into() };
        Self { name: name.into(), family, marks: ends.map(mark).into() }
    }
}

/// Values of several methods in several situations, on one axis.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Description for screen readers.
    pub label: String,
    /// The name of the axis.
    pub axis: String,
    /// The value from which bars reach, on a logarithmic axis, marked by a line. Without it, they
    /// reach from 0 on a linear axis.
    pub reference: Option<f64>,
    /// The situations.
    pub groups: Vec<BarGroup>,
}

/// The bars of one situation.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// The situation.
    pub name: String,
    /// A bar for each method.
    pub bars: Vec<Bar>,
}

/// A value, drawn as a length.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The method.
    pub name: String,
    /// Family, shown by the colour.
    pub family: Family,
    /// Its value.
    pub value: Spread,
}

/// Ratios of several methods on one logarithmic axis.
#[derive(Clone, Debug)]
pub struct RatioChart {
    /// Description for screen readers.
    pub label: String,
    /// The name of the axis.
    pub axis: String,
    /// A row for each method.
    pub rows: Vec<RatioRow>,
}

/// A method's ratio, published and measured.
#[derive(Clone, Debug)]
pub struct RatioRow {
    /// The method.
    pub name: String,
    /// Family, shown by the colour.
    pub family: Family,
    /// Ratio published by a paper.
    pub published: Option<f64>,
    /// Ratio measured here.
    pub measured: Option<Spread>,
}

/// A table. Its first column names the rows.
#[derive(Clone, Debug)]
pub struct DataTable {
    /// Name for screen readers.
    pub label: String,
    /// Whether the name is shown as a caption.
    pub has_caption: bool,
    /// The columns.
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column's head and the format of its cells.
#[derive(Clone, Debug)]
pub enum Column {
    /// Text, left-aligned.
    Text(String),
    /// Text of several lines, left-aligned.
    Lines(String),
    /// A number, right-aligned.
    Number(String),
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its value.
    pub value: String,
    /// Text below it in small print.
    pub below: Option<String>,
}

impl DataTable {
    /// Creates a table without rows, with the columns `text` and then `numbers`.
    pub fn new<'a>(
        label: impl Into<String>,
        text: impl IntoIterator<Item = &'a str>,
        numbers: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        let text = text.into_iter().map(|head| Column::Text(head.into()));
        let columns = text.chain(numbers.into_iter().map(|head| Column::Number(head.into())));
        let (label, columns) = (label.into(), columns.collect());
        Self { label, has_caption: false, columns, rows: Vec::new() }
    }

    /// Adds a caption.
    #[must_use]
    pub fn captioned(self) -> Self {
        Self { has_caption: true, ..self }
    }

    /// Replaces the rows.
    #[must_use]
    pub fn with_rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        Self { rows: rows.into_iter().collect(), ..self }
    }
}

impl Cell {
    /// A cell with the value as text, or a dash if there is none.
    pub fn some(value: Option<impl Into<String>>) -> Self {
        value.map_or_else(|| "\u{2013}".into(), Into::into).into()
    }

    /// Adds small print below the value, if there is any.
    #[must_use]
    pub fn above(self, below: Option<String>) -> Self {
        Self { below, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(value: T) -> Self {
        Self { value: value.into(), below: None }
    }
}
