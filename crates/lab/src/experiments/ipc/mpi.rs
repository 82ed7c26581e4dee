//! `mpi`: ranks of Open MPI on this machine, in a program of their own, which passes messages
//! through shared memory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command, Stdio};

use daiko_sys::process::die_with_parent;

use super::method::{IpcSpec, Mechanism};
use super::outcome::IpcOutcome;
use crate::kit::driver::Driver;
use crate::kit::failure::last_line;
use crate::kit::{Failure, OrFailure, Sample, host, mpi};

static DRIVER: Driver = Driver::new(
    &[
        ("ipc-mpi.c", include_str!("../../../drivers/ipc-mpi.c")),
        ("rank.h", include_str!("../../../drivers/rank.h")),
    ],
    mpi::find,
);

/// Number that the server adds to each word of a question.
const ADDED: u64 = 1;

pub(super) const METHOD: Mechanism =
    Mechanism { name: "mpi", supports: || DRIVER.supports(), run: |spec| run(spec, ADDED) };

/// Runs the ranks. A right answer is each word plus 1; the server adds `added`.
fn run(spec: &IpcSpec, added: u64) -> Result<IpcOutcome, Failure> {
    let program = DRIVER.program()?;
    let folder = host::temporary_folder()?;
    let output = command(&program, spec, folder.path(), added).output().or_broken("mpirun")?;
    if let Some(failure) = wrong_answer(folder.path()) {
        return Err(failure);
    }
    if !output.status.success() {
        let line = last_line(&output.stderr);
        return Err(Failure::Broken(format!("mpirun ended with {}: {line}", output.status)));
    }
    outcome(spec.clients, folder.path())
}

/// Builds the command: messages go through shared memory, and waiting ranks yield the CPU if there
/// are fewer CPUs than ranks. Open MPI does so by itself where it knows this.
fn command(program: &Path, spec: &IpcSpec, folder: &Path, added: u64) -> Command {
    let shared = spec.clients > 1 || spec.shares_cpu();
    let mut command = mpi::launcher();
    command.args(["-n", &(spec.clients + 1).to_string()]);
    command.args(["--mca", "mpi_yield_when_idle", if shared { "1" } else { "0" }]);
    let window = spec.window.as_nanos().to_string();
    command.arg(program).args([(spec.bytes / 8).to_string(), window]);
    command.args([spec.server_cpu, spec.client_cpu].map(|cpu| cpu.to_string()));
    command.arg(folder).arg(added.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let parent = process::id();
    // SAFETY: the closure only makes system calls; it uses no allocator and no locks.
    unsafe { command.pre_exec(move || die_with_parent(parent)) };
    command
}

fn outcome(clients: usize, folder: &Path) -> Result<IpcOutcome, Failure> {
    let mut outcome = IpcOutcome::default();
    for rank in 1..=clients {
        let bytes = fs::read(folder.join(rank.to_string())).unwrap_or_default();
        if !add(&mut outcome, &bytes) {
            return Err(Failure::Broken(format!("rank {rank} did not write its measurement")));
        }
    }
    Ok(outcome)
}

/// Returns the expected and the received word, if a rank reports a wrong answer.
fn wrong_answer(folder: &Path) -> Option<Failure> {
    match *numbers(&fs::read(folder.join("wrong")).ok()?)? {
        [expected, found] => Some(Failure::WrongDatum { expected, found }),
        _ => None,
    }
}

/// Reads whole words in the byte order of this machine.
fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = bytes.as_chunks();
    rest.is_empty().then(|| words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Adds the measurements written by a client. Returns whether they are well-formed.
fn add(outcome: &mut IpcOutcome, bytes: &[u8]) -> bool {
    let numbers = numbers(bytes).unwrap_or_default();
    let Some((&[calls, elapsed, batch_calls, batches], times)) = numbers.split_first_chunk() else {
        return false;
    };
    let Some((batches, singles)) = times.split_at_checked(batches as usize) else {
        return false;
    };
    outcome.add_batches(calls, elapsed, batch_calls, batches.iter().copied());
    singles.iter().for_each(|latency| outcome.latencies.record(*latency));
    true
}

/// Builds the sample of clients that wrote these bytes, if they are well-formed.
#[doc(hidden)]
pub fn sample_of(clients: &[&[u8]]) -> Option<Sample> {
    let mut outcome = IpcOutcome::default();
    let all = clients.iter().all(|bytes| add(&mut outcome, bytes));
    all.then(|| outcome.into_sample().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_found() {
        if let Err(skip) = DRIVER.supports() {
            println!("skipped: a_wrong_answer_is_found: mpi: {skip}");
            return;
        }
        let spec = super::super::tests::spec(8, 2);
        let wrong = Failure::WrongDatum { expected: 1, found: 7 };
        assert_eq!(run(&spec, 7).map(drop), Err(wrong));
    }

    #[test]
    fn output_of_a_rank_is_read_whole_or_not_at_all() {
        let numbers = [6u64, 900, 2, 3, 100, 300, 200, 150, 50];
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        for length in (0..7 * 8).chain([8 * 8 + 1]) {
            assert_eq!(sample_of(&[&bytes[..length]]), None, "{length} bytes");
        }
        let sample = sample_of(&[&bytes, &bytes]).expect("a sample");
        assert_eq!(sample.rounds, 12);
        let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values[..2], [100.0, 50.0], "batches of 50, 150 and 100 ns a call");
    }
}
