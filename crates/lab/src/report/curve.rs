//! Lines over a size.

use super::axis::Axis;
use super::disturbed::disturbance;
use super::svg::{KERNEL_COLOURS, Screen, Svg};
use crate::kit::{Curve, CurveLine, Family, Mark, format};

/// Dimensions of a drawing in pixels.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const LABEL_HEIGHT: f64 = 14.0;
/// Upper bound of the average width of a bold letter.
const BOLD_LETTER: f64 = 8.5;
/// Distance of the names from the curves.
const NAMES: f64 = 26.0;

const WIDE: Frame =
    Frame { width: 1032.0, height: 540.0, left: 62.0, right: 160.0, top: 12.0, bottom: 46.0 };

const NARROW: Frame =
    Frame { width: 358.0, height: 470.0, left: 46.0, right: 152.0, top: 10.0, bottom: 44.0 };

impl Curve {
    /// Returns the room for the names at the right edge.
    fn names_width(&self) -> f64 {
        let letters = self.lines.iter().map(|line| line.name.chars().count()).max();
        NAMES + letters.unwrap_or_default() as f64 * BOLD_LETTER
    }

    pub(super) fn draw(&self, screen: Screen) -> String {
        let frame = match screen {
            Screen::Wide => WIDE,
            Screen::Narrow => NARROW,
        };
        let points = || self.lines.iter().flat_map(|line| &line.marks);
        let names = self.names_width().clamp(frame.right, frame.width / 2.0);
        let (left, right) = (frame.left, frame.width - names);
        let (top, bottom) = (frame.top, frame.height - frame.bottom);
        let xs = points().map(|point| point.x);
        let x =
            if self.linear_x { Axis::even(xs, left, right) } else { Axis::log(xs, left, right) };
        let ys = points().flat_map(|point| [point.y.min, point.y.max]);
        let y =
            if self.linear_y { Axis::linear(ys, bottom, top) } else { Axis::log(ys, bottom, top) };
        let mut svg = Svg::new(screen, frame.width, frame.height, &self.label);
        for (value, label) in y.ticks(38.0) {
            svg.line("grid", (left, y.at(value)), (right, y.at(value)));
            svg.text("tick", (left - 7.0, y.at(value) + 4.0), "end", &label);
        }
        for (value, label) in self.x_ticks(&x) {
            svg.line("grid", (x.at(value), top), (x.at(value), bottom));
            svg.text("tick", (x.at(value), bottom + 17.0), "middle", &label);
        }
        svg.text("axis", ((left + right) / 2.0, bottom + 37.0), "middle", &self.x);
        svg.upright("axis", (13.0, (top + bottom) / 2.0), &self.y);
        let classes = self.classes();
        for (index, (line, class)) in self.lines.iter().zip(&classes).enumerate() {
            draw_line(&mut svg, line, class, index, &x, &y);
        }
        if self.measured_x {
            self.draw_ends(&mut svg, &x, &y, bottom);
        }
        self.draw_labels(&mut svg, (&x, &y), &classes, right, (top, bottom));
        svg.finish()
    }

    /// The class of each line. Mechanisms of the kernel are many, so each has a colour of its own.
    fn classes(&self) -> Vec<String> {
        let mut kernel = 0..;
        let class = |line: &CurveLine| match line.family {
            Family::Kernel => {
                let index = kernel.next().unwrap_or(0) % KERNEL_COLOURS;
                format!("kernel kernel-{index}")
            }
            family => family.class().to_owned(),
        };
        self.lines.iter().map(class).collect()
    }

    fn x_ticks(&self, x: &Axis) -> Vec<(f64, String)> {
        const APART: f64 = 36.0;
        if self.measured_x {
            return x.ticks(APART);
        }
        let mut values: Vec<f64> =
            self.lines.iter().flat_map(|line| &line.marks).map(|point| point.x).collect();
        values.sort_by(f64::total_cmp);
        // If two are too close, the larger one gets the label.
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for value in values.into_iter().rev() {
            if ticks.last().is_none_or(|(last, _)| x.at(*last) - x.at(value) >= APART) {
                ticks.push((value, format::count(value as u64)));
            }
        }
        ticks
    }

    /// Draws the meaning of both ends of each line beside them, at places without marks and other
    /// text.
    fn draw_ends(&self, svg: &mut Svg, x: &Axis, y: &Axis, bottom: f64) {
        const HALF_WIDTH: f64 = 20.0;
        const HEIGHT: f64 = 12.0;
        let place = |point: &Mark| (x.at(point.x), y.at(point.y.median));
        let marks: Vec<_> = self.lines.iter().flat_map(|line| &line.marks).map(place).collect();
        let mut texts: Vec<(f64, f64)> = Vec::new();
        for line in &self.lines {
            for point in [line.marks.first(), line.marks.last()].into_iter().flatten() {
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
                // If no place around is free, only the mark's title shows the meaning.
                if let Some(middle) = free {
                    svg.text("point", (middle.0, middle.1 + 4.0), "middle", &point.means);
                    texts.push(middle);
                }
            }
        }
    }

    /// Draws names at the right edge, each beside the end of its line, without overlaps.
    fn draw_labels(
        &self,
        svg: &mut Svg,
        (x, y): (&Axis, &Axis),
        classes: &[String],
        right: f64,
        within: (f64, f64),
    ) {
        let mut ends: Vec<(usize, f64, f64)> = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            if let Some(end) = line.marks.last() {
                ends.push((index, x.at(end.x), y.at(end.y.median)));
            }
        }
        ends.sort_by(|one, other| one.2.total_cmp(&other.2));
        let wanted: Vec<f64> = ends.iter().map(|end| end.2).collect();
        let places = spread(&wanted, LABEL_HEIGHT, within);
        for ((index, end_x, end_y), place) in ends.into_iter().zip(places) {
            let line = &self.lines[index];
            let class = classes[index].as_str();
            svg.path(
                &format!("leader {class}"),
                &[(end_x + 6.0, end_y), (right + 4.0, place), (right + 10.0, place)],
            );
            svg.mark(class, index, (right + 17.0, place), &line.name);
            svg.text(&format!("name {class}"), (right + NAMES, place + 4.0), "start", &line.name);
        }
    }
}

fn draw_line(svg: &mut Svg, line: &CurveLine, class: &str, shape: usize, x: &Axis, y: &Axis) {
    svg.group("series", &line.name);
    let place = |point: &Mark| (x.at(point.x), y.at(point.y.median));
    svg.path(&format!("line {class}"), &line.marks.iter().map(place).collect::<Vec<_>>());
    for point in &line.marks {
        let at = x.at(point.x);
        svg.line(&format!("range {class}"), (at, y.at(point.y.min)), (at, y.at(point.y.max)));
        let title = format!(
            "{}, {}: {} ({} to {}){}",
            line.name,
            point.means,
            format::number(point.y.median),
            format::number(point.y.min),
            format::number(point.y.max),
            disturbance(point.y.is_disturbed).1
        );
        let disturbed = if point.y.is_disturbed { " disturbed" } else { "" };
        svg.mark(&format!("{class}{disturbed}"), shape, place(point), &title);
    }
    svg.end_group();
}

/// Finds places for `wanted` (ascending) with a distance of at least `apart`, as near as possible,
/// and `within` two bounds if all fit.
fn spread(wanted: &[f64], apart: f64, within: (f64, f64)) -> Vec<f64> {
    // After subtraction of the room for its predecessors, each place must be at least its
    // predecessor's. Conflicting neighbours share the mean of their wanted places.
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
    fn labels_in_conflict_stay_around_their_marks() {
        assert_eq!(spread(&[100.0, 100.0, 100.0], 10.0, (0.0, 400.0)), [90.0, 100.0, 110.0]);
        assert_eq!(spread(&[50.0, 100.0], 10.0, (0.0, 400.0)), [50.0, 100.0]);
    }
}
