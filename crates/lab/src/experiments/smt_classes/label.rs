//! The class of a program by experiment.

use daiko_pair::Class;

use super::run::Running;
use crate::kit::Failure;

/// Bounds of the ratio of the times of a step, with its cause to stall and without it. Up to the
/// first the program computes, from the second on it stalls; between them it has no label.
const COMPUTES: f64 = 1.5;
const STALLS: f64 = 2.5;

/// Returns the class of a program with that ratio, or `None` between the classes.
pub(in crate::experiments) fn by_ratio(ratio: f64) -> Option<Class> {
    match ratio {
        _ if ratio >= STALLS => Some(Class::Stall),
        _ if ratio <= COMPUTES => Some(Class::Compute),
        _ => None,
    }
}

/// Measures that ratio: the times of a step of a running program, and of its form without a cause
/// to stall, which ends before this returns.
///
/// # Errors
/// Fails with the reason if one of them ends.
pub(in crate::experiments) fn ratio(
    program: &mut Running,
    mut beside: Running,
) -> Result<f64, Failure> {
    Ok(program.step_ns()? / beside.step_ns()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_much_longer_shows_a_stall() {
        assert_eq!(by_ratio(9.0), Some(Class::Stall));
        assert_eq!(by_ratio(1.1), Some(Class::Compute));
        assert_eq!(by_ratio(2.0), None);
    }
}
