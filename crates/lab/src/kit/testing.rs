//! What tests of several experiments share.

use std::time::Duration;

use super::failure::Failure;

/// Longer than a machine that is busy with others may leave a test alone.
const LONGEST: Duration = Duration::from_secs(60);

/// What `sample` measures in `window`, or if that is too short for anything to happen, in twice the time, and so on.
pub(crate) fn long_enough<T>(
    mut window: Duration,
    sample: impl Fn(Duration) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match sample(window) {
            Err(Failure::TooShort(_)) if window < LONGEST => window *= 2,
            measured => return measured,
        }
    }
}
