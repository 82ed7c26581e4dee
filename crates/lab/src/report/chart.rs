//! The two kinds of charts of a report. Each is drawn twice, for a wide and
//! for a narrow screen, so that text is readable on both.

use super::{
    axis::Axis,
    svg::{Anchor, Svg},
};
use crate::kit::format;

/// A value with its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// Which colour a line or mark has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Ours,
    Peer,
    Kernel,
    /// No threads at all; drawn as a limit.
    Alone,
    Limit,
    /// What a paper found; drawn as a limit.
    Published,
}

impl Family {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::Kernel => "kernel",
            Self::Alone | Self::Limit | Self::Published => "limit",
        }
    }

    /// What a legend calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "Daiko",
            Self::Peer => "libraries",
            Self::Kernel => "kernel mechanisms",
            Self::Alone => "no threads",
            Self::Limit => "limit",
            Self::Published => "published",
        }
    }
}

/// One line of a [`LineChart`].
pub(super) struct Line {
    pub(super) name: String,
    pub(super) family: Family,
    /// In the order in which the line connects them.
    pub(super) points: Vec<LinePoint>,
}

/// A mark on a [`Line`].
pub(super) struct LinePoint {
    pub(super) x: f64,
    pub(super) y: Span,
    /// What the mark stands for: `n = 1000`.
    pub(super) means: String,
}

/// Values over a size, both axes logarithmic unless told otherwise.
pub(super) struct LineChart {
    pub(super) label: String,
    pub(super) x: String,
    pub(super) y: String,
    /// Whether the horizontal values are few and the same for all lines: then
    /// they are the ticks. A linear axis has no others.
    pub(super) ticks_at_values: bool,
    pub(super) linear_x: bool,
    pub(super) linear_y: bool,
    /// Whether the drawing says what the ends of each line stand for.
    pub(super) name_ends: bool,
    pub(super) lines: Vec<Line>,
}

/// Sizes of a drawing in pixels.
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const LABEL_HEIGHT: f64 = 14.0;

impl LineChart {
    /// The families that have a line, in the order of legends.
    pub(super) fn families(&self) -> Vec<Family> {
        let mut families: Vec<Family> = self.lines.iter().map(|line| line.family).collect();
        families.sort_unstable();
        families.dedup();
        families
    }

    /// Both drawings.
    pub(super) fn draw(&self) -> String {
        let wide = Frame {
            class: "wide",
            width: 1032.0,
            height: 540.0,
            left: 62.0,
            right: 160.0,
            top: 12.0,
            bottom: 46.0,
        };
        let narrow = Frame {
            class: "narrow",
            width: 358.0,
            height: 470.0,
            left: 46.0,
            right: 152.0,
            top: 10.0,
            bottom: 44.0,
        };
        self.draw_in(&wide) + &self.draw_in(&narrow)
    }

    fn draw_in(&self, frame: &Frame) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (left, right) = (frame.left, frame.width - frame.right);
        let (top, bottom) = (frame.top, frame.height - frame.bottom);
        let xs = points().map(|point| point.x);
        let x =
            if self.linear_x { Axis::even(xs, left, right) } else { Axis::log(xs, left, right) };
        let ys = points().flat_map(|point| [point.y.min, point.y.max]);
        let y =
            if self.linear_y { Axis::linear(ys, bottom, top) } else { Axis::log(ys, bottom, top) };
        let mut svg = Svg::new(frame.class, frame.width, frame.height, &self.label);
        for (value, label) in y.ticks(38.0) {
            svg.line("grid", (left, y.at(value)), (right, y.at(value)));
            svg.text("tick", (left - 7.0, y.at(value) + 4.0), Anchor::End, &label);
        }
        for (value, label) in self.x_ticks(&x) {
            svg.line("grid", (x.at(value), top), (x.at(value), bottom));
            svg.text("tick", (x.at(value), bottom + 17.0), Anchor::Middle, &label);
        }
        svg.text("axis", ((left + right) / 2.0, bottom + 37.0), Anchor::Middle, &self.x);
        svg.upright("axis", (13.0, (top + bottom) / 2.0), &self.y);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut svg, line, index, &x, &y);
        }
        if self.name_ends {
            self.draw_ends(&mut svg, &x, &y, bottom);
        }
        self.draw_labels(&mut svg, &x, &y, right, (top, bottom));
        svg.finish()
    }

    fn x_ticks(&self, x: &Axis) -> Vec<(f64, String)> {
        const APART: f64 = 36.0;
        if !self.ticks_at_values {
            return x.ticks(APART);
        }
        let mut values: Vec<f64> =
            self.lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
        values.sort_by(f64::total_cmp);
        // Where two are too close, the larger one has the label.
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for value in values.into_iter().rev() {
            if ticks.last().is_none_or(|(last, _)| x.at(*last) - x.at(value) >= APART) {
                ticks.push((value, format::count(value as u64)));
            }
        }
        ticks
    }

    /// What the two ends of each line stand for, beside them, where no mark or other text is.
    fn draw_ends(&self, svg: &mut Svg, x: &Axis, y: &Axis, bottom: f64) {
        const HALF_WIDTH: f64 = 20.0;
        const HEIGHT: f64 = 12.0;
        let place = |point: &LinePoint| (x.at(point.x), y.at(point.y.median));
        let marks: Vec<_> = self.lines.iter().flat_map(|line| &line.points).map(place).collect();
        let mut texts: Vec<(f64, f64)> = Vec::new();
        for line in &self.lines {
            for point in [line.points.first(), line.points.last()].into_iter().flatten() {
                let (across, down) = place(point);
                let around = [(0.0, -13.0), (0.0, 13.0), (-28.0, 0.0), (28.0, 0.0)];
                let mut around =
                    around.map(|(right, low)| (across + right, down + low)).into_iter();
                let free = around.find(|middle| {
                    let apart = |other: &(f64, f64), width| {
                        (middle.0 - other.0).abs() >= width || (middle.1 - other.1).abs() >= HEIGHT
                    };
                    middle.1 + HEIGHT / 2.0 <= bottom
                        && marks.iter().all(|mark| apart(mark, HALF_WIDTH + 4.0))
                        && texts.iter().all(|text| apart(text, 2.0 * HALF_WIDTH))
                });
                // Where all around is full, the mark's title tells.
                if let Some(middle) = free {
                    svg.text("point", (middle.0, middle.1 + 4.0), Anchor::Middle, &point.means);
                    texts.push(middle);
                }
            }
        }
    }

    /// Names at the right edge, each beside the end of its line and none over
    /// another.
    fn draw_labels(&self, svg: &mut Svg, x: &Axis, y: &Axis, right: f64, within: (f64, f64)) {
        let mut ends: Vec<(usize, f64, f64)> = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            if let Some(end) = line.points.last() {
                ends.push((index, x.at(end.x), y.at(end.y.median)));
            }
        }
        ends.sort_by(|one, other| one.2.total_cmp(&other.2));
        let wanted: Vec<f64> = ends.iter().map(|end| end.2).collect();
        let places = spread(&wanted, LABEL_HEIGHT, within);
        for ((index, end_x, end_y), place) in ends.into_iter().zip(places) {
            let line = &self.lines[index];
            let class = line.family.class();
            svg.path(
                &format!("leader {class}"),
                &[(end_x + 6.0, end_y), (right + 4.0, place), (right + 10.0, place)],
            );
            svg.mark(class, index, (right + 17.0, place), &line.name);
            svg.text(
                &format!("name {class}"),
                (right + 26.0, place + 4.0),
                Anchor::Start,
                &line.name,
            );
        }
    }
}

fn draw_line(svg: &mut Svg, line: &Line, shape: usize, x: &Axis, y: &Axis) {
    let class = line.family.class();
    svg.group("series", &line.name);
    let place = |point: &LinePoint| (x.at(point.x), y.at(point.y.median));
    svg.path(&format!("line {class}"), &line.points.iter().map(place).collect::<Vec<_>>());
    for point in &line.points {
        let at = x.at(point.x);
        svg.line(&format!("range {class}"), (at, y.at(point.y.min)), (at, y.at(point.y.max)));
        let title = format!(
            "{}, {}: {} ({} to {})",
            line.name,
            point.means,
            format::number(point.y.median),
            format::number(point.y.min),
            format::number(point.y.max)
        );
        svg.mark(class, shape, place(point), &title);
    }
    svg.end_group();
}

/// Places for `wanted` (ascending) at least `apart` from each other, as near as
/// can be, and `within` two ends if all fit.
fn spread(wanted: &[f64], apart: f64, within: (f64, f64)) -> Vec<f64> {
    // Less the room of those before it, a place may equal its neighbour's but
    // not be less: neighbours in conflict share the mean of what they wanted.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (index, place) in wanted.iter().enumerate() {
        let mut block = (place - index as f64 * apart, 1);
        while let Some(before) = blocks.pop_if(|before| before.0 > block.0) {
            let count = before.1 + block.1;
            let sum = before.0 * before.1 as f64 + block.0 * block.1 as f64;
            block = (sum / count as f64, count);
        }
        blocks.push(block);
    }
    let room = wanted.len().saturating_sub(1) as f64 * apart;
    let last = (within.1 - room).max(within.0);
    let shared = blocks.into_iter().flat_map(|(place, count)| std::iter::repeat_n(place, count));
    let shared = shared.map(|place| place.clamp(within.0, last));
    shared.enumerate().map(|(index, place)| place + index as f64 * apart).collect()
}

/// Ratios of several methods on one logarithmic axis.
pub(super) struct RatioChart {
    pub(super) label: String,
    pub(super) axis: String,
    pub(super) rows: Vec<RatioRow>,
}

/// A method's ratio, published and measured.
pub(super) struct RatioRow {
    pub(super) name: String,
    pub(super) family: Family,
    pub(super) published: Option<f64>,
    pub(super) measured: Option<Span>,
}

impl RatioChart {
    /// Both drawings.
    pub(super) fn draw(&self) -> String {
        self.draw_in("wide", 480.0) + &self.draw_in("narrow", 340.0)
    }

    fn draw_in(&self, class: &'static str, width: f64) -> String {
        const ROW: f64 = 46.0;
        const TOP: f64 = 8.0;
        let (left, right) = (12.0, width - 16.0);
        let bottom = TOP + ROW * self.rows.len() as f64;
        let height = bottom + 44.0;
        let measured = self.rows.iter().filter_map(|row| row.measured);
        let values = measured.flat_map(|span| [span.min, span.max]);
        let published = self.rows.iter().filter_map(|row| row.published);
        let axis = Axis::log(values.chain(published).chain([1.0]), left, right);
        let mut svg = Svg::new(class, width, height, &self.label);
        for (value, label) in axis.ticks(48.0) {
            svg.line("grid", (axis.at(value), TOP), (axis.at(value), bottom));
            svg.text("tick", (axis.at(value), bottom + 16.0), Anchor::Middle, &label);
        }
        svg.line("one", (axis.at(1.0), TOP), (axis.at(1.0), bottom));
        svg.text("axis", (width / 2.0, bottom + 36.0), Anchor::Middle, &self.axis);
        for (index, row) in self.rows.iter().enumerate() {
            draw_ratios(&mut svg, row, &axis, TOP + ROW * index as f64, left);
        }
        svg.finish()
    }
}

fn draw_ratios(svg: &mut Svg, row: &RatioRow, axis: &Axis, top: f64, left: f64) {
    let class = row.family.class();
    let y = top + 31.0;
    svg.text(&format!("name {class}"), (left, top + 15.0), Anchor::Start, &row.name);
    if let (Some(published), Some(measured)) = (row.published, row.measured) {
        let ends = [(axis.at(published), y), (axis.at(measured.median), y)];
        svg.path(&format!("leader {class}"), &ends);
    }
    if let Some(span) = row.measured {
        svg.line(&format!("range {class}"), (axis.at(span.min), y), (axis.at(span.max), y));
        let title = format!("{}: measured {}", row.name, format::ratio(span.median));
        svg.mark(class, 0, (axis.at(span.median), y), &title);
    }
    if let Some(published) = row.published {
        let title = format!("{}: published {}", row.name, format::ratio(published));
        svg.mark(&format!("{class} published"), 3, (axis.at(published), y), &title);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_never_overlap(wanted in proptest::collection::vec(0.0f64..400.0, 0..20)) {
            let mut wanted = wanted;
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 14.0, (0.0, 400.0));
            for pair in places.windows(2) {
                prop_assert!(pair[1] - pair[0] >= 13.99);
            }
            prop_assert!(places.iter().all(|place| (0.0..=400.01).contains(place)));
        }
    }

    #[test]
    fn labels_in_conflict_stay_around_what_they_mark() {
        assert_eq!(spread(&[100.0, 100.0, 100.0], 10.0, (0.0, 400.0)), [90.0, 100.0, 110.0]);
        assert_eq!(spread(&[50.0, 100.0], 10.0, (0.0, 400.0)), [50.0, 100.0]);
    }
}
