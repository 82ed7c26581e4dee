//! Whole simulations.

use super::machine::SimMachine;
use super::model::Model;
use super::outcome::SimOutcome;
use super::trace::Wake;
use crate::kit::Failure;

/// Simulates `model` until this many packets have arrived, after a sixteenth as many that do not
/// count.
///
/// # Errors
/// Fails when the model is out of range.
pub fn simulate(model: &Model, packets: u64) -> Result<SimOutcome, Failure> {
    let mut machine = SimMachine::new(model)?;
    machine.run(packets / 16, |_| ());
    machine.forget();
    machine.run(packets, |_| ());
    Ok(machine.outcome)
}

/// Simulates `model` from the beginning, without a warm-up. `observe` sees each wake-up, in the
/// form that a `trace::Writer` takes.
///
/// # Errors
/// Fails when the model is out of range.
pub fn record(
    model: &Model,
    packets: u64,
    observe: impl FnMut(&Wake),
) -> Result<SimOutcome, Failure> {
    let mut machine = SimMachine::new(model)?;
    machine.run(packets, observe);
    Ok(machine.outcome)
}
