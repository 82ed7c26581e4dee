//! Due times of requests, and their connections.

use std::iter;
use std::time::Duration;

use super::random::SplitMix64;

/// Gives every server and every run the same requests at the same times.
const SEED: u64 = 0x5e_7e;

/// A request and its due time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// Nanoseconds from the start.
    pub(crate) due_ns: u64,
    /// The connection that sends it.
    pub(crate) connection: usize,
}

/// Draws `rate` arrivals per second on average, spread over `connections`, within `window`; at
/// least one.
///
/// They form a Poisson process: gaps between arrivals are exponentially distributed, so the next
/// arrival is unpredictable, as with many independent clients.
pub(crate) fn arrivals(
    window: Duration,
    rate: f64,
    connections: usize,
) -> impl Iterator<Item = Arrival> {
    let end = window.as_nanos() as u64;
    let (mut random, mean_gap_ns, mut at_ns) = (SplitMix64(SEED), 1e9 / rate, 0.0);
    let next = move || {
        at_ns -= random.unit().ln() * mean_gap_ns;
        let connection = random.below(connections as u64) as usize;
        Arrival { due_ns: at_ns as u64, connection }
    };
    let all = iter::repeat_with(next).enumerate();
    all.take_while(move |(index, next)| *index == 0 || next.due_ns < end).map(|next| next.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 50_000.0;
    const COUNT: usize = 100_000;

    /// A window with more arrivals than the test takes.
    const LONG: Duration = Duration::from_secs(3600);

    fn gaps() -> Vec<f64> {
        let all = arrivals(LONG, RATE, 10).take(COUNT);
        let times: Vec<u64> = all.map(|next| next.due_ns).collect();
        times.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64).collect()
    }

    #[test]
    fn every_run_has_the_same_arrivals() {
        let all = || arrivals(LONG, RATE, 50).take(1000);
        assert!(all().eq(all()));
        assert_eq!(all().next(), Some(Arrival { due_ns: 4279, connection: 19 }));
    }

    #[test]
    fn every_due_arrival_exists_and_at_least_one() {
        let within = |window| arrivals(window, RATE, 10);
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
        // In an exponential distribution, a part of 1/e exceeds the mean, and a part of e^-3
        // exceeds three times the mean.
        for times in [1.0, 3.0] {
            let longer = gaps.iter().filter(|&&gap| gap > times * mean).count() as f64;
            let part = longer / gaps.len() as f64;
            assert!((part / f64::exp(-times) - 1.0).abs() < 0.05, "{times}: {part}");
        }
    }

    #[test]
    fn every_connection_has_its_share() {
        let mut shares = [0; 10];
        arrivals(LONG, RATE, 10).take(COUNT).for_each(|next| shares[next.connection] += 1);
        assert!(shares.iter().all(|share| (9_500..10_500).contains(share)), "{shares:?}");
    }
}
