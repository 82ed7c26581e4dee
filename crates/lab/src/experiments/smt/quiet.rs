//! Detection of other work on the cores while a sample is taken.

use std::time::{Duration, Instant};

use super::issue;
use crate::kit::Failure;

/// Ratio to the best probe above which a probe is disturbed.
pub(crate) const THRESHOLD: f64 = 1.05;
/// Largest number of repeats of a disturbed sample.
const MOST: u64 = 4;
/// Additions of a probe: about 0.2 ms.
const ROUNDS: u64 = 1 << 18;

/// An outcome, and the quality of its sample.
#[derive(Debug, PartialEq)]
pub(super) struct Quiet<T> {
    pub(super) outcome: T,
    /// Number of disturbed samples before it.
    pub(super) repeats: u64,
    /// Whether it is disturbed itself, like all samples before it.
    pub(super) disturbed: bool,
    /// The best probe.
    pub(super) best: Duration,
}

/// Takes a sample by `attempt`, which returns whether it noticed a disturbance itself. Repeats it
/// while it is disturbed, until `deadline`, if there is one.
///
/// Probes `cpus` before and after, as a probe takes longer on a shared core. A disturbance that
/// lasts from the first probe on is visible only in comparison with the best probe of other
/// samples.
pub(super) fn undisturbed<T>(
    cpus: &[usize],
    deadline: Option<Instant>,
    attempt: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<Quiet<T>, Failure> {
    repeated(|| issue::slowest(cpus, ROUNDS), deadline, attempt)
}

fn repeated<T>(
    mut look: impl FnMut() -> Result<Duration, Failure>,
    deadline: Option<Instant>,
    mut attempt: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<Quiet<T>, Failure> {
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut best = Duration::MAX;
    for repeats in 0.. {
        let before = look()?;
        let (outcome, noticed) = attempt()?;
        let after = look()?;
        best = best.min(before).min(after);
        let disturbed = noticed || before.max(after) > best.mul_f64(THRESHOLD);
        if !disturbed || repeats == MOST || is_over() {
            return Ok(Quiet { outcome, repeats, disturbed, best });
        }
    }
    unreachable!("the loop ends at its bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs with probes of these microseconds, and attempts that notice a disturbance or not.
    /// Returns the index of the taken attempt, the number of repeats, whether it is disturbed, and
    /// the best probe.
    fn taken(looks: &[u64], notice: &[bool], deadline: Option<Instant>) -> (usize, u64, bool, u64) {
        let mut looks = looks.iter().map(|&time| Duration::from_micros(time));
        let mut attempts = notice.iter().enumerate();
        let result = repeated(
            || Ok(looks.next().expect("a look")),
            deadline,
            || Ok(attempts.next().map(|(index, &noticed)| (index, noticed)).expect("an attempt")),
        );
        let Quiet { outcome, repeats, disturbed, best } = result.expect("an outcome");
        (outcome, repeats, disturbed, best.as_micros() as u64)
    }

    #[test]
    fn an_undisturbed_sample_is_taken_at_once() {
        assert_eq!(taken(&[100, 104], &[false], None), (0, 0, false, 100));
    }

    #[test]
    fn a_sample_disturbed_before_after_or_within_is_taken_again() {
        let looks = [100, 106, 120, 100, 100, 100, 101, 99];
        assert_eq!(taken(&looks, &[false, false, true, false], None), (3, 3, false, 99));
    }

    #[test]
    fn it_ends_at_its_bound_and_says_so() {
        assert_eq!(taken(&[100, 200].repeat(5), &[false; 5], None), (4, MOST, true, 100));
    }

    #[test]
    fn it_ends_at_its_deadline_and_says_so() {
        assert_eq!(taken(&[200, 100], &[false], Some(Instant::now())), (0, 0, true, 100));
    }

    #[test]
    fn a_failure_is_not_taken_again() {
        let failure = || Failure::Broken("gone".into());
        let mut attempts = 0;
        let result = repeated(
            || Ok(Duration::from_secs(1)),
            None,
            || {
                attempts += 1;
                Err::<((), bool), _>(failure())
            },
        );
        assert_eq!((result, attempts), (Err(failure()), 1));
    }
}
