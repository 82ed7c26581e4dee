//! Scales from values to pixels, and the positions of their ticks.

use crate::kit::format;

/// Maps values to a range of pixels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    log: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// Creates a logarithmic axis over all positive `values`, with some room at both ends, from
    /// pixel `start` to `end`.
    pub(super) fn log(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let (low, high) = bounds(values.into_iter().filter(|value| *value > 0.0), 1.0, 10.0);
        let (low, high) = (low.log10(), high.log10());
        let room = ((high - low) * 0.04).max(0.12);
        Self { log: true, low: low - room, high: high + room, start, end }
    }

    /// Creates a linear axis from 0 over all `values`.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let (_, high) = bounds(values.into_iter(), 0.0, 1.0);
        Self { log: false, low: 0.0, high: high.max(f64::MIN_POSITIVE) * 1.05, start, end }
    }

    /// Creates a linear axis over all `values`, with some room at both ends and without ticks of
    /// its own.
    pub(super) fn even(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let (low, high) = bounds(values.into_iter(), 0.0, 1.0);
        // Relative to a large value as well, beside which a small constant would vanish.
        let room = ((high - low) * 0.04).max(high.abs() * 0.02).max(0.5);
        Self { log: false, low: low - room, high: high + room, start, end }
    }

    /// Pixel of `value`. Values outside the range are drawn at the edge.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    /// Values at ticks with their labels, at least `apart` pixels from each other.
    pub(super) fn ticks(&self, apart: f64) -> Vec<(f64, String)> {
        let room = (self.end - self.start).abs() / apart;
        if self.log { self.log_ticks(room) } else { self.linear_ticks(room) }
    }

    /// Ticks at powers of ten, and at values between them as far as they fit.
    fn log_ticks(&self, room: f64) -> Vec<(f64, String)> {
        let decades = self.high - self.low;
        let every = (decades / room).ceil().max(1.0) as i32;
        // The smallest steps are from 1 to 2 and from 1 to 3: 0.30 and 0.47 of a decade.
        let steps: &[f64] = match room / decades {
            3.34.. => &[1.0, 2.0, 5.0],
            2.13.. => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        for power in self.low.floor() as i32..=self.high.ceil() as i32 {
            for step in steps {
                let value = step * 10f64.powi(power);
                let inside = (self.low..=self.high).contains(&value.log10());
                if inside && power.rem_euclid(every) == 0 {
                    ticks.push((value, label(value)));
                }
            }
        }
        ticks
    }

    fn linear_ticks(&self, room: f64) -> Vec<(f64, String)> {
        let rough = self.high / room.max(1.0);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough);
        let step = step.unwrap_or(10.0) * power;
        let count = (self.high / step) as usize;
        (0..=count).map(|index| index as f64 * step).map(|value| (value, label(value))).collect()
    }
}

/// Formats a label in short form: `0.001`, `50`, `10k`, `1M`.
fn label(value: f64) -> String {
    if value >= 1.0 && value.fract() == 0.0 {
        return format::count(value as u64);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Minimum and maximum of all finite `values`, as a ratio may be infinite.
fn bounds(values: impl Iterator<Item = f64>, low: f64, high: f64) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let bounds = finite.fold(None, |bounds: Option<(f64, f64)>, value| {
        Some(bounds.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    bounds.unwrap_or((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_have_equal_length() {
        let axis = Axis::log([1.0, 1000.0], 0.0, 300.0);
        let decade = axis.at(10.0) - axis.at(1.0);
        assert!((axis.at(1000.0) - axis.at(100.0) - decade).abs() < 1e-9);
        assert!(axis.at(1.0) > 0.0 && axis.at(1000.0) < 300.0);
    }

    #[test]
    fn steps_have_equal_length() {
        let axis = Axis::even([6.0, 14.0], 0.0, 300.0);
        let step = axis.at(7.0) - axis.at(6.0);
        assert!((axis.at(14.0) - axis.at(13.0) - step).abs() < 1e-9);
        assert!(axis.at(6.0) > 0.0 && axis.at(14.0) < 300.0);
        for only in [0.0, u64::MAX as f64] {
            assert_eq!(Axis::even([only], 0.0, 300.0).at(only), 150.0);
        }
    }

    #[test]
    fn ticks_keep_their_distance() {
        for (low, high) in [(1.0, 3.0), (0.0004, 30.0), (10.0, 4e6), (7.0, 7.0)] {
            let axis = Axis::log([low, high], 0.0, 300.0);
            let ticks = axis.ticks(30.0);
            assert!(!ticks.is_empty() || high / low < 10.0, "{low}..{high}");
            for pair in ticks.windows(2) {
                assert!(axis.at(pair[1].0) - axis.at(pair[0].0) > 29.9, "{low}..{high}: {ticks:?}");
            }
        }
    }

    #[test]
    fn an_infinite_value_is_drawn_at_the_edge() {
        for axis in
            [Axis::log, Axis::linear, Axis::even].map(|of| of([1.0, f64::INFINITY], 0.0, 300.0))
        {
            assert_eq!(axis.at(f64::INFINITY), 300.0);
            assert!(axis.at(1.0) < 300.0);
            assert!(axis.ticks(30.0).len() <= 10, "{axis:?}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.001, 0.5, 1.0, 1e4, 1e6].map(label), ["0.001", "0.5", "1", "10k", "1M"]);
    }

    #[test]
    fn no_values_still_make_an_axis() {
        assert!(Axis::log([], 0.0, 10.0).at(1.0).is_finite());
        assert!(Axis::linear([], 0.0, 10.0).at(1.0).is_finite());
        assert!(Axis::even([], 0.0, 10.0).at(1.0).is_finite());
    }
}
