//! The way in which threads are placed: by affinity masks, or by Daiko's scheduler for the kernel.

use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

use daiko_pair::feed::ClassFeed;

use super::{
    line::{Means, PairPolicy, PairRequest},
    table::ThreadTable,
};
use crate::problem::Problem;

/// The process that holds the scheduler: `daiko schedule pair`. It ends with the feed of classes,
/// also if this process is killed, and leaves nothing behind.
pub(super) struct Scheduler {
    process: Child,
    /// Passes its errors on.
    errors: JoinHandle<io::Result<u64>>,
}

/// Chooses the means, and says which and why. Starts the scheduler for these processes if it is
/// chosen.
pub(super) fn choose(
    request: &PairRequest,
    pids: &[u32],
    table: &mut ThreadTable,
) -> Result<Option<(Scheduler, ClassFeed)>, Problem> {
    let chosen = match reason_for_masks(request) {
        Some(why) => Err(why),
        None => Scheduler::start(pids),
    };
    match chosen {
        Ok((scheduler, feed, name)) => {
            table.line(&format!("pairs are made by {name}"));
            Ok(Some((scheduler, feed)))
        }
        Err(why) if request.by == Some(Means::Schedule) => {
            Err(Problem::usage(format!("--by schedule: {why}; nothing was started")))
        }
        Err(why) => {
            table.line(&format!("threads are placed by masks: {why}"));
            Ok(None)
        }
    }
}

/// The reason against the scheduler that lies in the request.
fn reason_for_masks(request: &PairRequest) -> Option<String> {
    let policy = match request.policy {
        PairPolicy::Cross | PairPolicy::Auto => None,
        PairPolicy::Parallel => Some("parallel"),
        PairPolicy::NoSmt => Some("nosmt"),
    };
    match request {
        PairRequest { by: Some(Means::Masks), .. } => Some("--by masks".into()),
        PairRequest { cpus: Some(_), .. } => {
            Some("the scheduler has no counterpart of --cpus".into())
        }
        PairRequest { root: Some(_), .. } => Some("--root describes another machine".into()),
        _ => policy.map(|name| format!("the scheduler has no counterpart of --policy {name}")),
    }
}

impl Scheduler {
    /// Starts the process and waits until it is ready. Its name for the scheduler comes along.
    fn start(pids: &[u32]) -> Result<(Self, ClassFeed, String), String> {
        let failed =
            |error: io::Error| format!("the scheduler's process cannot be started: {error}");
        let only: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut child = Command::new(env::current_exe().map_err(failed)?)
            .args(["schedule", "pair", "--only", &only.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An interrupt from the terminal goes to this process only.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut name = String::new();
        let out = child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut name).map_err(failed)?;
        let mut errors = child.stderr.take().expect("piped");
        if name.is_empty() {
            let mut said = String::new();
            errors.read_to_string(&mut said).map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(said.trim_end().trim_start_matches("daiko: ").to_owned());
        }
        let errors = thread::spawn(move || io::copy(&mut errors, &mut io::stderr()));
        let feed = ClassFeed::new(child.stdin.take().expect("piped"));
        Ok((Self { process: child, errors }, feed, name.trim_end().to_owned()))
    }

    /// Waits until the scheduler has let go of all threads. The feed has been dropped.
    pub(super) fn end(mut self) -> Result<(), Problem> {
        let ended = self.process.wait();
        // Standard error may be closed.
        let _ = self.errors.join();
        ended.map(drop).map_err(|error| {
            Problem::System(format!("cannot wait for the scheduler's process: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::line::Targets, *};

    fn request(policy: PairPolicy, by: Option<Means>) -> PairRequest {
        PairRequest {
            policy,
            by,
            targets: Targets::Processes(vec![1]),
            cpus: None,
            classes: BTreeMap::new(),
            progress: BTreeMap::new(),
            interval: 1,
            root: None,
        }
    }

    #[test]
    fn requests_without_a_counterpart_stay_with_masks() {
        assert_eq!(reason_for_masks(&request(PairPolicy::Cross, None)), None);
        assert_eq!(reason_for_masks(&request(PairPolicy::Auto, Some(Means::Schedule))), None);
        let some = |request: PairRequest| reason_for_masks(&request).expect("a reason");
        assert_eq!(some(request(PairPolicy::Auto, Some(Means::Masks))), "--by masks");
        assert!(some(request(PairPolicy::Parallel, None)).contains("parallel"));
        assert!(some(request(PairPolicy::NoSmt, None)).contains("nosmt"));
        let cpus = "0-1".parse().ok();
        assert!(some(PairRequest { cpus, ..request(PairPolicy::Auto, None) }).contains("--cpus"));
    }
}
