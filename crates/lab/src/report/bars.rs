//! Bars in groups: counts from 0, or ratios from a reference on a logarithmic axis.

use super::axis::Axis;
use super::disturbed::disturbance;
use super::svg::{Screen, Svg};
use crate::kit::{Bar, BarChart, Spread, format};

const BAR: f64 = 14.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 26.0;
const TOP: f64 = 4.0;
/// Upper bound of the average width of a letter.
const LETTER: f64 = 7.0;

impl BarChart {
    pub(super) fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    /// Width of the longest name.
    fn names_width(&self) -> f64 {
        let letters = self.bars().map(|bar| bar.name.chars().count()).max();
        104f64.max(letters.unwrap_or_default() as f64 * LETTER + 14.0)
    }

    /// The axis, and the pixel where all bars start.
    fn axis(&self, left: f64, right: f64) -> (Axis, f64) {
        let ends = self.bars().flat_map(|bar| [bar.value.min, bar.value.max]);
        match self.reference {
            Some(reference) => {
                let axis = Axis::log(ends.chain([reference]), left, right);
                let start = axis.at(reference);
                (axis, start)
            }
            None => (Axis::linear(ends, left, right), left),
        }
    }

    pub(super) fn draw(&self, screen: Screen) -> String {
        let width = match screen {
            Screen::Wide => 1032.0,
            Screen::Narrow => 358.0,
        };
        let (left, right) = (self.names_width(), width - 76.0);
        let bottom = TOP + HEAD * self.groups.len() as f64 + ROW * self.bars().count() as f64;
        let (axis, start) = self.axis(left, right);
        let mut svg = Svg::new(screen, width, bottom + 44.0, &self.label);
        for (value, label) in axis.ticks(48.0) {
            svg.line("grid", (axis.at(value), TOP), (axis.at(value), bottom));
            svg.text("tick", (axis.at(value), bottom + 16.0), "middle", &label);
        }
        if self.reference.is_some() {
            svg.line("one", (start, TOP), (start, bottom));
        }
        svg.text("axis", ((left + right) / 2.0, bottom + 36.0), "middle", &self.axis);
        let mut top = TOP;
        for group in &self.groups {
            svg.text("point", (left, top + 17.0), "start", &group.name);
            top += HEAD;
            for bar in &group.bars {
                bar.draw(&mut svg, &group.name, &axis, [left, start], top);
                top += ROW;
            }
        }
        svg.finish()
    }
}

impl Bar {
    /// The bar begins at the pixel `start`, and its name ends at `left`.
    fn draw(&self, svg: &mut Svg, group: &str, axis: &Axis, [left, start]: [f64; 2], top: f64) {
        let (class, Spread { median, min, max, is_disturbed }) = (self.family.class(), self.value);
        let (middle, end) = (top + BAR / 2.0, axis.at(median));
        let [median_text, min_text, max_text] = [median, min, max].map(format::number);
        let (mark, told) = disturbance(is_disturbed);
        let title =
            format!("{}, {group}: {median_text} ({min_text} to {max_text}){told}", self.name);
        svg.text(&format!("name {class}"), (left - 8.0, middle + 4.0), "end", &self.name);
        svg.bar(class, (start.min(end), top), ((end - start).abs(), BAR), &title);
        svg.line("bound", (axis.at(min), middle), (axis.at(max), middle));
        let beside = axis.at(max).max(end).max(start) + 6.0;
        svg.text("point", (beside, middle + 4.0), "start", &format!("{median_text}{mark}"));
    }
}
