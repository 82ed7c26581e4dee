//! The time of events: ticks of the time stamp counter, which become nanoseconds.

use daiko_sys::clock;

/// The counter and the clock at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) ticks: u64,
    ns: u64,
}

impl Moment {
    /// Reads both: the tightest of a few pairs of readings, as the caller may lose its CPU in
    /// between.
    pub(super) fn now() -> Self {
        let pair = || {
            let (before, ns, after) = (clock::ticks(), clock::boottime_ns(), clock::ticks());
            (after.wrapping_sub(before), Moment { ticks: before.midpoint(after), ns })
        };
        let tightest = (0..5).map(|_| pair()).min_by_key(|(apart, _)| *apart);
        tightest.expect("there are five").1
    }
}

/// The moments at which both were read, in their order: times in between are interpolated.
#[derive(Debug)]
pub(super) struct Ticks(Vec<Moment>);

/// Number of bits of an event's time.
const BITS: u32 = 56;

impl Ticks {
    pub(super) fn new(first: Moment) -> Self {
        Ticks(vec![first])
    }

    /// Adds a moment, not before the last one.
    pub(super) fn add(&mut self, moment: Moment) {
        if self.0.last().is_none_or(|last| last.ticks < moment.ticks) {
            self.0.push(moment);
        }
    }

    /// Returns the whole time of an event, given without its upper bits: the time nearest to the
    /// last moment.
    pub(super) fn whole(&self, ticks: u64) -> u64 {
        let now = self.0.last().expect("there is a first one").ticks;
        // As a signed number of 56 bits.
        let apart = (ticks.wrapping_sub(now) << (64 - BITS)).cast_signed() >> (64 - BITS);
        now.wrapping_add_signed(apart)
    }

    /// Returns the time in nanoseconds. Times outside are those of the nearest moment, corrected by
    /// the rate there.
    pub(super) fn ns(&self, ticks: u64) -> u64 {
        let after = self.0.partition_point(|moment| moment.ticks <= ticks);
        let from = after.clamp(1, (self.0.len() - 1).max(1)) - 1;
        let one = self.0[from];
        let Some(other) = self.0.get(from + 1) else { return one.ns };
        let (span, passed) = (other.ticks - one.ticks, i128::from(ticks) - i128::from(one.ticks));
        let ns = passed * i128::from(other.ns.saturating_sub(one.ns)) / i128::from(span);
        (i128::from(one.ns) + ns).clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_moments_are_interpolated_and_others_continued() {
        let mut ticks = Ticks::new(Moment { ticks: 1000, ns: 500 });
        assert_eq!(ticks.ns(1234), 500, "without a rate");
        ticks.add(Moment { ticks: 2000, ns: 1000 });
        ticks.add(Moment { ticks: 4000, ns: 3000 });
        ticks.add(Moment { ticks: 4000, ns: 9000 });
        let seen = [0, 1000, 1500, 2000, 3000, 4000, 5000].map(|at| ticks.ns(at));
        assert_eq!(seen, [0, 500, 750, 1000, 2000, 3000, 4000]);
    }

    #[test]
    fn the_upper_bits_of_a_time_are_those_of_the_present() {
        let now = 5 << 56 | 1000;
        let ticks = Ticks::new(Moment { ticks: now, ns: 0 });
        let mask = (1 << 56) - 1;
        for time in [now, now - 999, now - 1001, now + 7] {
            assert_eq!(ticks.whole(time & mask), time);
        }
    }

    #[test]
    fn moments_follow_each_other() {
        let (one, other) = (Moment::now(), Moment::now());
        assert!(one.ticks <= other.ticks && one.ns <= other.ns);
    }
}
