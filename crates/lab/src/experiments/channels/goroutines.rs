//! Goroutines, in a program of its own: `drivers/channels.go`.

use std::process::Command;
use std::time::Duration;

use super::load::Load;
use crate::kit::driver::Driver;
use crate::kit::exchange::exchange;
use crate::kit::failure::last_line;
use crate::kit::ring::program::find_go;
use crate::kit::{Failure, OrFailure};

/// A goroutine for each end.
pub(super) static CHANNELS: Driver =
    Driver::new(&[("channels.go", include_str!("../../../drivers/channels.go"))], find_go);

/// Time that the program may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(load: &Load) -> Result<(u64, Duration), Failure> {
    let Load { shape, workers, each } = *load;
    let capacity = shape.capacity().unwrap_or_default() as u64;
    let mut command = Command::new(CHANNELS.program()?);
    let arguments = [capacity, shape.ends() as u64, workers as u64, each];
    command.args(arguments.map(|number| number.to_string()));
    let answer = exchange(command, &[], PATIENCE).or_broken("go")?;
    let reply = String::from_utf8_lossy(answer.reply.as_deref().unwrap_or_default()).into_owned();
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [elapsed, sum] => Ok((sum, Duration::from_nanos(elapsed))),
        _ => {
            let told = last_line(&answer.errors);
            Err(Failure::Broken(format!("go ended with {} and said {told:?}", answer.status)))
        }
    }
}
