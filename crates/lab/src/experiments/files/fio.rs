//! `fio`, a program in C that does the same reads and writes by io_uring.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::load::{Load, PAGE};
use crate::kit::driver::say;
use crate::kit::{Failure, OrFailure, Skip};

const PROGRAM: &str = "fio";
/// The number of threads that write and synchronise, at most.
const MOST_THREADS: usize = 256;

/// The part of fio's report that is used.
#[derive(Deserialize)]
struct FioReport {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    read: FioTotals,
    write: FioTotals,
}

#[derive(Deserialize)]
struct FioTotals {
    total_ios: u64,
    /// Milliseconds.
    runtime: u64,
}

/// Fails with the reason to skip it.
pub(super) fn supports(is_read: bool, depth: usize) -> Result<(), Skip> {
    let version = say(Path::new(PROGRAM), &["--version"], "");
    version.ok_or_else(|| Skip::without("not installed", PROGRAM))?;
    match is_read || depth <= MOST_THREADS {
        true => Ok(()),
        false => Err(Skip::new(format!("threads of fio are measured up to {MOST_THREADS}"))),
    }
}

/// Does the operations: reads with `depth` requests of one thread in flight; writes, each followed
/// by `fdatasync`, on as many threads, as each waits for its own. It does not tell the bytes that
/// it has read.
pub(super) fn run(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let is_read = load.operation.is_read();
    let (threads, requests) = if is_read { (1, load.depth) } else { (load.depth, 1) };
    let each = load.rounds().div_ceil(threads as u64) * PAGE as u64;
    let own = if is_read { "--rw=randread" } else { "--rw=randwrite" };
    let output = Command::new(PROGRAM)
        .args(["--name=pages", "--output-format=json", "--group_reporting", "--thread"])
        .args(["--ioengine=io_uring", "--invalidate=0", "--fadvise_hint=random", own])
        .args(["--allow_file_create=0", &format!("--bs={PAGE}"), &format!("--io_size={each}")])
        .args([format!("--size={}", load.bytes()), format!("--fdatasync={}", u8::from(!is_read))])
        .args([format!("--iodepth={requests}"), format!("--numjobs={threads}")])
        .arg(format!("--filename={}", load.path.display()))
        .stdin(Stdio::null())
        .output()
        .or_limit("fio cannot be started")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().next().unwrap_or("without a reason");
        return Err(Failure::Broken(format!("fio fails: {line}")));
    }
    elapsed(&output.stdout, is_read, load.rounds()).map(|elapsed| (None, elapsed))
}

/// Reads the time of `rounds` operations out of a report.
fn elapsed(report: &[u8], is_read: bool, rounds: u64) -> Result<Duration, Failure> {
    // A warning may stand before the report.
    let start = report.iter().position(|byte| *byte == b'{').unwrap_or_default();
    let report: FioReport = serde_json::from_slice(&report[start..])
        .map_err(|error| Failure::Broken(format!("fio's report cannot be read: {error}")))?;
    let totals = report.jobs.first().map(|job| if is_read { &job.read } else { &job.write });
    match totals {
        Some(totals) if totals.total_ios >= rounds && totals.runtime > 0 => {
            let all = Duration::from_millis(totals.runtime);
            Ok(all.mul_f64(rounds as f64 / totals.total_ios as f64))
        }
        _ => Err(Failure::Broken("fio has done fewer operations than it was told".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_report_is_that_of_as_many_operations() {
        let report = |ios: u64| {
            let totals = format!(r#"{{"total_ios":{ios},"runtime":300,"iops":1.5}}"#);
            let none = r#"{"total_ios":0,"runtime":0}"#;
            format!(r#"warning{{"jobs":[{{"jobname":"pages","read":{none},"write":{totals}}}]}}"#)
        };
        let time = elapsed(report(150).as_bytes(), false, 100).ok();
        assert_eq!(time, Some(Duration::from_millis(200)));
        assert!(elapsed(report(99).as_bytes(), false, 100).is_err());
        assert!(elapsed(report(150).as_bytes(), true, 100).is_err());
        assert!(elapsed(b"fio: no such option", false, 100).is_err());
    }
}
