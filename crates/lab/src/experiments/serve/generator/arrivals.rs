//! When requests are due, and by whom.

use std::time::Duration;

use crate::kit::SplitMix64;

/// The same requests at the same times for every server and in every run.
const SEED: u64 = 0x5e_7e;

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// Nanoseconds from the start.
    pub(super) due_ns: u64,
    /// The connection that it comes by.
    pub(super) connection: usize,
}

/// A Poisson process: gaps between arrivals are exponentially distributed, so that it is not known when
/// the next one comes, as of many clients that know nothing of each other.
pub(super) struct Arrivals {
    random: SplitMix64,
    mean_gap_ns: f64,
    at_ns: f64,
    connections: usize,
}

impl Arrivals {
    /// `rate` arrivals per second on average, spread over so many connections.
    fn new(rate: f64, connections: usize) -> Self {
        Self { random: SplitMix64(SEED), mean_gap_ns: 1e9 / rate, at_ns: 0.0, connections }
    }

    /// Those within `window`; one at least.
    pub(super) fn within(
        window: Duration,
        rate: f64,
        connections: usize,
    ) -> impl Iterator<Item = Arrival> {
        let end = window.as_nanos() as u64;
        let arrivals = Self::new(rate, connections).enumerate();
        arrivals
            .take_while(move |(index, next)| *index == 0 || next.due_ns < end)
            .map(|next| next.1)
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    /// There is always a next one.
    fn next(&mut self) -> Option<Arrival> {
        self.at_ns -= self.random.unit().ln() * self.mean_gap_ns;
        let connection = self.random.below(self.connections as u64) as usize;
        Some(Arrival { due_ns: self.at_ns as u64, connection })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 50_000.0;
    const COUNT: usize = 100_000;

    fn gaps() -> Vec<f64> {
        let times: Vec<u64> = Arrivals::new(RATE, 10).take(COUNT).map(|next| next.due_ns).collect();
        times.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64).collect()
    }

    #[test]
    fn every_run_has_the_same_arrivals() {
        assert!(Arrivals::new(RATE, 50).take(1000).eq(Arrivals::new(RATE, 50).take(1000)));
        let first = Arrivals::new(RATE, 50).next();
        assert_eq!(first, Some(Arrival { due_ns: 4279, connection: 19 }));
    }

    #[test]
    fn there_are_as_many_as_are_due_and_one_at_least() {
        let within = |window| Arrivals::within(window, RATE, 10);
        let second = within(Duration::from_secs(1));
        assert!(second.last().unwrap().due_ns < 1_000_000_000);
        assert_eq!(within(Duration::from_nanos(4279)).count(), 1);
        assert_eq!(within(Duration::from_nanos(4280)).count(), 1);
        assert_eq!(within(Duration::ZERO).count(), 1);
        assert!((49_000..51_000).contains(&within(Duration::from_secs(1)).count()));
    }

    #[test]
    fn gaps_are_as_long_and_as_uneven_as_of_a_poisson_process() {
        let gaps = gaps();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean * RATE / 1e9 - 1.0).abs() < 0.01, "{mean}");
        // Of an exponential distribution, a part of 1/e is longer than the mean, of e^-3 than three times that.
        for times in [1.0, 3.0] {
            let longer = gaps.iter().filter(|&&gap| gap > times * mean).count() as f64;
            let part = longer / gaps.len() as f64;
            assert!((part / f64::exp(-times) - 1.0).abs() < 0.05, "{times}: {part}");
        }
    }

    #[test]
    fn every_connection_has_its_share() {
        let mut shares = [0; 10];
        Arrivals::new(RATE, 10).take(COUNT).for_each(|next| shares[next.connection] += 1);
        assert!(shares.iter().all(|share| (9_500..10_500).contains(share)), "{shares:?}");
    }
}
