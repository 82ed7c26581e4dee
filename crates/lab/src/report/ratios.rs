//! Ratios of several methods on one logarithmic axis.

use super::axis::Axis;
use super::disturbed::disturbance;
use super::svg::{Screen, Svg};
use crate::kit::{RatioChart, RatioRow, format};

impl RatioChart {
    pub(super) fn draw(&self, screen: Screen) -> String {
        const ROW: f64 = 46.0;
        const TOP: f64 = 8.0;
        let width = match screen {
            Screen::Wide => 480.0,
            Screen::Narrow => 340.0,
        };
        let (left, right) = (12.0, width - 16.0);
        let bottom = TOP + ROW * self.rows.len() as f64;
        let height = bottom + 44.0;
        let measured = self.rows.iter().filter_map(|row| row.measured);
        let values = measured.flat_map(|span| [span.min, span.max]);
        let published = self.rows.iter().filter_map(|row| row.published);
        let axis = Axis::log(values.chain(published).chain([1.0]), left, right);
        let mut svg = Svg::new(screen, width, height, &self.label);
        for (value, label) in axis.ticks(48.0) {
            svg.line("grid", (axis.at(value), TOP), (axis.at(value), bottom));
            svg.text("tick", (axis.at(value), bottom + 16.0), "middle", &label);
        }
        svg.line("one", (axis.at(1.0), TOP), (axis.at(1.0), bottom));
        svg.text("axis", (width / 2.0, bottom + 36.0), "middle", &self.axis);
        for (index, row) in self.rows.iter().enumerate() {
            draw_ratios(&mut svg, row, &axis, TOP + ROW * index as f64, left);
        }
        svg.finish()
    }
}

fn draw_ratios(svg: &mut Svg, row: &RatioRow, axis: &Axis, top: f64, left: f64) {
    let class = row.family.class();
    let y = top + 31.0;
    svg.text(&format!("name {class}"), (left, top + 15.0), "start", &row.name);
    if let (Some(published), Some(measured)) = (row.published, row.measured) {
        let ends = [(axis.at(published), y), (axis.at(measured.median), y)];
        svg.path(&format!("leader {class}"), &ends);
    }
    if let Some(span) = row.measured {
        svg.line(&format!("range {class}"), (axis.at(span.min), y), (axis.at(span.max), y));
        let [median, min, max] = [span.median, span.min, span.max].map(format::ratio);
        let told = disturbance(span.is_disturbed).1;
        let title = format!("{}: measured {median} ({min} to {max}){told}", row.name);
        let place = (axis.at(span.median), y);
        let disturbed = if span.is_disturbed { " disturbed" } else { "" };
        svg.mark(&format!("{class}{disturbed}"), 0, place, &title);
    }
    if let Some(published) = row.published {
        let title = format!("{}: published {}", row.name, format::ratio(published));
        svg.mark(&format!("{class} published"), 3, (axis.at(published), y), &title);
    }
}
