//! Whole simulations.

use super::machine::Machine;
use super::model::Model;
use super::outcome::Outcome;
use super::trace::Wake;
use crate::kit::Failure;

/// Simulates `model` until so many packets have come, after a sixteenth as many that do not count.
///
/// # Errors
/// When the model is out of range.
pub fn simulate(model: &Model, packets: u64) -> Result<Outcome, Failure> {
    let mut machine = Machine::new(model)?;
    machine.run(packets / 16, |_| ());
    machine.forget();
    machine.run(packets, |_| ());
    Ok(machine.outcome)
}

/// The same from the beginning, all of which counts; `observe` sees each wake-up, as a `trace::Writer` takes it.
///
/// # Errors
/// When the model is out of range.
pub fn record(model: &Model, packets: u64, observe: impl FnMut(&Wake)) -> Result<Outcome, Failure> {
    let mut machine = Machine::new(model)?;
    machine.run(packets, observe);
    Ok(machine.outcome)
}
