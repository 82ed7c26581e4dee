//! One sample in a process of its own: allocator, thread pools and huge pages start fresh, and a
//! crash or a hang costs only one point.

use std::fmt::Display;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::{Builder, TempDir};

use super::Sampler;
use crate::experiments;
use crate::kit::conditions::MachineWatch;
use crate::kit::exchange::{Exchange, exchange_until};
use crate::kit::failure::last_line;
use crate::kit::{Case, Conditions, Effort, Failure, OrFailure, RunStop, Sample, processes};

/// Time for work outside the measurement: creating a million threads, or compiling the driver of a
/// peer on first use.
const SET_UP: Duration = Duration::from_secs(30);

/// Request to the child on its standard input.
#[derive(Serialize, Deserialize)]
struct Request {
    case: Case,
    effort: Effort,
}

/// Samples each case in a new process, by a command that ends in [`serve`].
pub struct ChildSampler {
    program: PathBuf,
    arguments: Vec<String>,
    /// Program for methods with processes as workers.
    processes: Option<PathBuf>,
    set_up: Duration,
    stop: Arc<RunStop>,
    machine: MachineWatch,
    /// Called with the id of each sample's process.
    start: Box<dyn FnMut(u32)>,
}

impl ChildSampler {
    /// Runs `program` with `arguments` for each sample.
    pub fn new(program: PathBuf, arguments: Vec<String>) -> Self {
        let (stop, machine) = (Arc::default(), MachineWatch::begin());
        let start = Box::new(|_| ());
        Self { program, arguments, processes: None, set_up: SET_UP, stop, machine, start }
    }

    /// Uses `program` for samples of methods with [processes] as workers.
    #[must_use]
    pub fn with_processes(self, program: PathBuf) -> Self {
        Self { processes: Some(program), ..self }
    }

    /// Sets the time for set-up: a sample is killed if it exceeds its limit by more.
    #[must_use]
    pub fn with_set_up(self, set_up: Duration) -> Self {
        Self { set_up, ..self }
    }

    /// Kills the present sample once `stop` is requested.
    #[must_use]
    pub fn with_stop(self, stop: Arc<RunStop>) -> Self {
        Self { stop, ..self }
    }

    /// Calls `start` with the id of each sample's process, once it has started.
    #[must_use]
    pub fn with_start(self, start: impl FnMut(u32) + 'static) -> Self {
        Self { start: Box::new(start), ..self }
    }

    fn command(&self, case: &Case) -> Command {
        if let Some(program) = self.processes.as_ref().filter(|_| case.method == processes::METHOD)
        {
            return Command::new(program);
        }
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

impl Sampler for ChildSampler {
    fn sample(&mut self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let request = serde_json::to_vec(&Request { case: case.clone(), effort });
        let request = request.or_broken("cannot ask")?;
        let patience = effort.limit + self.set_up;
        let folder = folder()?;
        let mut command = self.command(case);
        command.env("TMPDIR", folder.path());
        self.machine.begin_sample();
        let answer = exchange_until(command, &request, patience, Some(&self.stop), &mut self.start);
        if self.stop.is_requested() {
            return Err(broken("stopped"));
        }
        sample_of(answer.or_broken("cannot start a sample")?, patience)
    }

    fn conditions(&mut self) -> Conditions {
        self.machine.sample()
    }
}

/// Makes a folder for the files of a sample, which may be killed before it removes them. A server
/// that gives up its privileges may pass through.
fn folder() -> Result<TempDir, Failure> {
    let mode = Permissions::from_mode(0o711);
    Builder::new().permissions(mode).tempdir().or_limit("no folder in TMPDIR")
}

fn sample_of(answer: Exchange, patience: Duration) -> Result<Sample, Failure> {
    let Some(reply) = answer.reply else {
        return Err(broken(format_args!("hung: killed after {} s", patience.as_secs())));
    };
    if let Ok(result) = serde_json::from_slice(&reply) {
        return result;
    }
    let end = match answer.status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit code {}", answer.status.code().unwrap_or_default()),
    };
    let complaint = last_line(&answer.errors);
    let colon = if complaint.is_empty() { "" } else { ": " };
    Err(broken(format_args!("the sample died with {end}{colon}{complaint}")))
}

/// Takes one sample as requested on standard input, and writes it to standard output. Called in the
/// child.
///
/// # Errors
/// Fails if the input is not a request, or the output is closed.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let Request { case, effort } = serde_json::from_reader(input)?;
    let result = match experiments::find(&case.experiment) {
        Some(experiment) => experiment.sample(&case, effort),
        None => Err(broken(format_args!("no experiment is named {}", case.experiment))),
    };
    serde_json::to_writer(&mut output, &result)?;
    output.flush()
}

fn broken(line: impl Display) -> Failure {
    Failure::Broken(line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Params;

    fn shell(script: &str) -> ChildSampler {
        let arguments = vec!["-c".into(), script.into()];
        ChildSampler::new("/bin/sh".into(), arguments).with_set_up(Duration::from_millis(300))
    }

    fn sample(script: &str) -> Result<Sample, Failure> {
        sample_of("m", shell(script))
    }

    fn sample_of(method: &str, mut sampler: ChildSampler) -> Result<Sample, Failure> {
        let case = Case { experiment: "fake".into(), method: method.into(), params: Params::new() };
        sampler.sample(&case, Effort { rounds: 1, limit: Duration::from_millis(200) })
    }

    #[test]
    fn a_reply_is_a_sample() {
        let reply = r#"{"Ok":{"rounds":3,"elapsed":{"secs":1,"nanos":0},"readings":[]}}"#;
        let sample = sample(&format!("cat >/dev/null; echo '{reply}'")).expect("a sample");
        assert_eq!((sample.rounds, sample.elapsed), (3, Duration::from_secs(1)));
    }

    #[test]
    fn workers_that_are_processes_have_their_own_program() {
        let sampler = || shell("exit 3").with_processes("/bin/false".into());
        let code = |method| sample_of(method, sampler()).unwrap_err().to_string();
        assert_eq!(code("m"), "the sample died with exit code 3");
        assert_eq!(code(processes::METHOD), "the sample died with exit code 1");
    }

    #[test]
    fn a_crash_is_told_with_its_signal_and_last_words() {
        let failure =
            sample(r"echo one >&2; printf 'the \033reason\n' >&2; kill -SEGV $$").unwrap_err();
        assert_eq!(failure.to_string(), "the sample died with signal 11: the \u{fffd}reason");
    }

    #[test]
    fn a_hang_is_killed_with_all_its_children() {
        let failure = sample("sleep 1000 & sleep 1000").unwrap_err();
        assert!(failure.to_string().starts_with("hung"), "{failure}");
    }

    #[test]
    fn the_files_of_a_killed_sample_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script = format!("echo text >$TMPDIR/file; echo $TMPDIR >{}; sleep 9", told.display());
        assert!(sample(&script).is_err(), "it hangs");
        let used = std::fs::read_to_string(told).expect("the name of the folder");
        assert!(!std::path::Path::new(used.trim()).exists(), "{used}");
    }

    #[test]
    fn a_stop_ends_the_sample_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let stop = Arc::new(RunStop::default());
        let script = format!("mkfifo {0}; echo begun >{0}; exec sleep 1000", fifo.display());
        let sampler = shell(&script).with_set_up(Duration::from_secs(900));
        let sampler = sampler.with_stop(Arc::clone(&stop));
        let requester = std::thread::spawn(move || {
            // The sample blocks at the fifo until the requester reads, if the fifo is there.
            while std::fs::read(&fifo).is_err() {
                std::thread::yield_now();
            }
            stop.request();
        });
        assert_eq!(sample_of("m", sampler).unwrap_err().to_string(), "stopped");
        requester.join().unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let mut sampler = ChildSampler::new("/nonexistent".into(), vec![]);
        let case = Case { experiment: "fake".into(), method: "m".into(), params: Params::new() };
        let effort = Effort { rounds: 1, limit: Duration::ZERO };
        let failure = sampler.sample(&case, effort).unwrap_err();
        assert!(failure.to_string().starts_with("cannot start a sample"), "{failure}");
    }

    #[test]
    fn the_child_answers_for_an_unknown_experiment() {
        let case = Case { experiment: "no".into(), method: "m".into(), params: Params::new() };
        let effort = Effort { rounds: 1, limit: Duration::ZERO };
        let request = serde_json::to_vec(&Request { case, effort }).unwrap();
        let mut output = Vec::new();
        serve(request.as_slice(), &mut output).expect("served");
        let result: Result<Sample, Failure> = serde_json::from_slice(&output).expect("an answer");
        assert!(result.is_err());
    }
}
