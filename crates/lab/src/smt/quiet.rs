//! Whether anything else used the cores while a sample was taken.

use std::time::{Duration, Instant};

use super::issue;
use crate::Failure;

/// A look that takes so much longer than the best one is disturbed.
const THRESHOLD: f64 = 1.05;
/// So often a disturbed sample is taken again.
const MOST: u64 = 4;
/// About 0.2 ms.
const ROUNDS: u64 = 1 << 18;

/// An outcome, and what it took to get it.
#[derive(Debug, PartialEq)]
pub(super) struct Quiet<T> {
    pub(super) outcome: T,
    /// How many before it were disturbed.
    pub(super) repeats: u64,
    /// Whether it is disturbed itself, as all others before it.
    pub(super) disturbed: bool,
}

/// Takes a sample by `attempt`, which says whether it noticed a disturbance itself; takes it again while it is disturbed, until
/// `deadline`.
///
/// Looks at `cpus` before and after: what shares a core with others takes longer there. Disturbances that were there all the time,
/// from the first look on, are not seen.
pub(super) fn undisturbed<T>(
    cpus: &[usize],
    deadline: Instant,
    attempt: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<Quiet<T>, Failure> {
    repeated(|| issue::slowest(cpus, ROUNDS), deadline, attempt)
}

fn repeated<T>(
    mut look: impl FnMut() -> Result<Duration, Failure>,
    deadline: Instant,
    mut attempt: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<Quiet<T>, Failure> {
    let mut best = Duration::MAX;
    for repeats in 0.. {
        let before = look()?;
        let (outcome, noticed) = attempt()?;
        let after = look()?;
        best = best.min(before).min(after);
        let disturbed = noticed || before.max(after) > best.mul_f64(THRESHOLD);
        if !disturbed || repeats == MOST || Instant::now() >= deadline {
            return Ok(Quiet { outcome, repeats, disturbed });
        }
    }
    unreachable!("the loop ends at its bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With looks that take so many microseconds, and attempts that notice or not.
    fn taken(looks: &[u64], notice: &[bool], deadline: Instant) -> Quiet<usize> {
        let mut looks = looks.iter().map(|&time| Duration::from_micros(time));
        let mut attempts = notice.iter().enumerate();
        let result = repeated(
            || Ok(looks.next().expect("a look")),
            deadline,
            || Ok(attempts.next().map(|(index, &noticed)| (index, noticed)).expect("an attempt")),
        );
        result.expect("an outcome")
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(1000)
    }

    #[test]
    fn who_is_not_disturbed_is_taken_at_once() {
        let expected = Quiet { outcome: 0, repeats: 0, disturbed: false };
        assert_eq!(taken(&[100, 104], &[false], later()), expected);
    }

    #[test]
    fn who_is_disturbed_before_after_or_within_is_taken_again() {
        let expected = Quiet { outcome: 3, repeats: 3, disturbed: false };
        let looks = [100, 106, 120, 100, 100, 100, 101, 100];
        assert_eq!(taken(&looks, &[false, false, true, false], later()), expected);
    }

    #[test]
    fn it_ends_at_its_bound_and_says_so() {
        let looks = [100, 200].repeat(5);
        let expected = Quiet { outcome: 4, repeats: MOST, disturbed: true };
        assert_eq!(taken(&looks, &[false; 5], later()), expected);
    }

    #[test]
    fn it_ends_at_its_deadline_and_says_so() {
        let expected = Quiet { outcome: 0, repeats: 0, disturbed: true };
        assert_eq!(taken(&[100, 200], &[false], Instant::now()), expected);
    }

    #[test]
    fn a_failure_is_not_taken_again() {
        let failure = || Failure::Broken("gone".into());
        let mut attempts = 0;
        let result = repeated(
            || Ok(Duration::from_secs(1)),
            later(),
            || {
                attempts += 1;
                Err::<((), bool), _>(failure())
            },
        );
        assert_eq!((result, attempts), (Err(failure()), 1));
    }
}
