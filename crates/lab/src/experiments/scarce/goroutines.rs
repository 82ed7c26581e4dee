//! `go`: the process under test becomes the program of Go.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::point::ScarceSpec;
use crate::kit::ring::part::ENDLESS;
use crate::kit::ring::program::{FIRST, GO, arguments, input};
use crate::kit::{Failure, OrFailure, RingOutcome};

/// Compiles the program, unless that was done before, and writes its input.
pub(super) fn prepare(
    spec: &ScarceSpec,
    successors: &[u32],
    length: Duration,
) -> Result<impl FnOnce(&File) -> Result<RingOutcome, Failure> + use<>, Failure> {
    let mut command = Command::new(GO.program()?);
    command.args(arguments(spec.threads, ENDLESS, spec.workers, length, FIRST));
    command.stdin(written(&input(successors))?);
    Ok(move |reply: &File| {
        let reply = reply.try_clone().or_limit("no descriptor for an answer")?;
        Err(command.stdout(reply).exec()).or_broken("the program of Go did not start")
    })
}

/// A file that reads as `text`.
fn written(text: &str) -> Result<File, Failure> {
    let file = tempfile::tempfile().and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    });
    file.or_limit("no file in TMPDIR")
}
