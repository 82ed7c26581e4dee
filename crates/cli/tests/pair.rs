//! `daiko pair` from a user's view. The CPUs of this machine are described as siblings where
//! needed.

#[path = "../../../tests/executable.rs"]
mod executable;
#[path = "../../../tests/seccomp.rs"]
mod seccomp;
#[path = "../../../tests/signals.rs"]
mod signals;

use std::{
    fs, io,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{FileExt, PermissionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use daiko_sys::{
    cpu::{self, CpuSet},
    topology::described::Described,
};
use serde_json::{Value, json};
use signals::with_default_signals;
use tempfile::{NamedTempFile, TempDir};

/// A folder for the journal, and the description of a machine with one core that consists of this
/// machine's first CPUs.
struct Ground {
    runtime: TempDir,
    machine: TempDir,
}

/// `None`, with a message, on a machine with one CPU.
fn ground(name: &str) -> Option<Ground> {
    let cpus = cpu::allowed().unwrap();
    if cpus.len() < 2 {
        println!("skipped: {name}: it needs two CPUs");
        return None;
    }
    let ids: Vec<String> = cpus.iter().take(2).map(|cpu| cpu.to_string()).collect();
    let described = Described::parse(&format!("1x1x2 ids={}", ids.join(","))).unwrap();
    let (runtime, machine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    described.write_to(machine.path()).unwrap();
    Some(Ground { runtime, machine })
}

impl Ground {
    fn pair(&self, arguments: &[&str]) -> Command {
        pair(arguments, self.runtime.path())
    }

    /// `daiko pair` with siblings.
    fn paired(&self, arguments: &[&str]) -> Command {
        let root = self.machine.path().to_str().unwrap();
        self.pair(&[&["--root", root], arguments].concat())
    }

    fn journals(&self) -> usize {
        fs::read_dir(self.runtime.path().join("daiko-pair")).map_or(0, Iterator::count)
    }

    /// Returns true if a session has placed the first thread of this process. Its core may be all
    /// CPUs of this machine, so that its affinity does not tell.
    fn is_placed(&self, pid: u32) -> bool {
        let journals = fs::read_dir(self.runtime.path().join("daiko-pair"));
        let files = journals
            .into_iter()
            .flatten()
            .filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
        files.into_iter().any(|journal| journal.contains(&format!("\n{pid} {pid} ")))
    }
}

fn pair(arguments: &[&str], runtime: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daiko"));
    command.arg("pair").args(arguments).env("XDG_RUNTIME_DIR", runtime);
    with_default_signals(&mut command);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn output(mut command: Command) -> Output {
    command.output().expect("the command starts")
}

/// A process that spins until it is dropped. On SIGUSR1 it starts another process and prints its
/// id.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let more = "sh -c 'while :; do :; done' & echo \\$!";
        let script = format!("trap \"{more}\" USR1; while :; do :; done");
        let mut command = Command::new("sh");
        let command = with_default_signals(command.args(["-c", &script]));
        Self(command.stdout(Stdio::piped()).spawn().expect("a shell"))
    }

    fn start_orphan(&mut self) -> Orphan {
        kill(self.id(), libc::SIGUSR1);
        let mut line = String::new();
        let told = self.0.stdout.as_mut().expect("it is piped");
        BufReader::new(told).read_line(&mut line).expect("the id");
        Orphan(line.trim().parse().expect("an id"))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn mask(&self) -> CpuSet {
        cpu::allowed_of(self.id()).expect("it runs")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The process may have been killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A spinning process that is not a child of this one, killed on drop.
struct Orphan(u32);

impl Drop for Orphan {
    fn drop(&mut self) {
        kill(self.0, libc::SIGKILL);
    }
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: takes plain integers; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Returns true if all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
    // A thread may end meanwhile.
    stats.flatten().all(|stat| stat.rsplit(')').next().unwrap().starts_with(" T"))
}

/// Waits until `is` returns true. The time limit of the test applies.
fn until(mut is: impl FnMut() -> bool) {
    while !is() {
        thread::yield_now();
    }
}

/// A session that has placed two busy processes; under `nosmt` on one CPU.
fn session(ground: &Ground, policy: &str) -> (Child, [Busy; 2]) {
    let busy = [Busy::start(), Busy::start()];
    let ids = busy.each_ref().map(Busy::id);
    let classes = [format!("{}=stall", ids[0]), format!("{}=compute", ids[1])];
    let pids = format!("{},{}", ids[0], ids[1]);
    let arguments =
        ["--policy", policy, "--class", &classes[0], "--class", &classes[1], "--pid", &pids];
    let child = ground.paired(&arguments).stderr(Stdio::piped()).spawn().expect("it starts");
    until(|| busy.iter().all(|busy| ground.is_placed(busy.id())));
    until(|| policy != "nosmt" || busy.iter().all(|busy| busy.mask().len() == 1));
    (child, busy)
}

#[track_caller]
fn assert_refused(command: Command, wanted: &[&str]) {
    let output = output(command);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for word in wanted {
        assert!(complaint.contains(word), "no '{word}' in: {complaint}");
    }
}

#[test]
fn impossible_requests_are_refused_in_one_line() {
    let Some(ground) = ground("impossible_requests_are_refused_in_one_line") else { return };
    for (arguments, wanted) in [
        (&[][..], &["-- COMMAND ::: COMMAND", "--pid"][..]),
        (&["--pid", "1", "--", "true"], &["not both"]),
        (&["--pid", "0"], &["--pid"]),
        (&["--pid", "2147483647"], &["no process 2147483647"]),
        (&["--", "true", ":::"], &["a command is empty"]),
        (&["--policy", "best", "--", "true"], &["'best'", "cross", "nosmt"]),
        (&["--class", "x=idle", "--", "true"], &["NAME=stall"]),
        (&["--cpus", "0-", "--", "true"], &["'0-' is no list"]),
        (&["--cpus", "", "--", "true"], &["'' is no list"]),
        (&["--cpus", "0,4095", "--", "true"], &["4095 cannot be used here", "allowed are"]),
        (&["--progress", "7", "--", "true"], &["1234=FILE"]),
        (&["--progress", "2=/dev/null", "--", "true"], &["2 is none of"]),
        (&["--progress", "1=/nowhere", "--", "true"], &["cannot read /nowhere"]),
        (&["--progress", "1=/dev/null", "--", "true"], &["8 bytes"]),
        (&["--interval", "0", "--", "true"], &["--interval"]),
        (&["--restore", "--pid", "1"], &["--restore"]),
        (&["--advise"], &["-- COMMAND ::: COMMAND", "--pid"]),
        (&["--advise", "--pid", "1", "--", "true"], &["not both"]),
        (&["--advise", "--pid", "2147483647"], &["no process 2147483647"]),
        (&["--advise", "--seconds", "0", "--", "true"], &["--seconds"]),
        (&["--advise", "--seconds", "--pid", "1"], &["--seconds"]),
        (&["--advise", "--policy", "cross", "--", "true"], &["--policy"]),
        (&["--advise", "--restore"], &["--restore"]),
        (&["--seconds", "1", "--", "true"], &["--advise"]),
        (&["--json", "--", "true"], &["--advise"]),
    ] {
        assert_refused(ground.pair(arguments), wanted);
    }
    let (thread, process) = (daiko_sys::thread::id().to_string(), std::process::id());
    let wanted = format!("{thread} is a thread of process {process}: give that");
    assert_refused(ground.pair(&["--pid", &thread]), &[&wanted]);
    assert_eq!(ground.journals(), 0);
}

#[test]
fn a_missing_command_prevents_the_start_of_all_commands() {
    let Some(ground) = ground("a_missing_command_prevents_the_start_of_all_commands") else {
        return;
    };
    let file = ground.runtime.path().join("started");
    let touch = ["--", "touch", file.to_str().unwrap(), ":::", "no-such-command"];
    assert_refused(
        ground.pair(&touch),
        &["command not found: no-such-command", "nothing was started"],
    );
    assert!(!file.exists());
}

#[test]
fn without_siblings_pairing_is_refused_and_auto_goes_on() {
    let Some(ground) = ground("without_siblings_pairing_is_refused_and_auto_goes_on") else {
        return;
    };
    let first = cpu::allowed().unwrap().iter().next().unwrap().to_string();
    for policy in ["cross", "parallel"] {
        let one = ["--policy", policy, "--cpus", &first, "--", "true"];
        assert_refused(ground.paired(&one), &["no two are siblings", "--policy auto"]);
    }
    let output = output(ground.paired(&["--cpus", &first, "--", "sh", "-c", "exit 3"]));
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("nothing is paired"), "{}", text(&output.stderr));
}

#[test]
fn the_exit_code_is_that_of_the_first_that_fails() {
    let Some(ground) = ground("the_exit_code_is_that_of_the_first_that_fails") else { return };
    for (commands, code) in [
        (&["--", "true", ":::", "true"][..], 0),
        (&["--", "true", ":::", "sh", "-c", "exit 7", ":::", "sh", "-c", "exit 8"], 7),
        (&["--", "sh", "-c", "kill -TERM $$"], 128 + libc::SIGTERM),
    ] {
        assert_eq!(output(ground.pair(commands)).status.code(), Some(code), "{commands:?}");
    }
    let script = ground.runtime.path().join("script");
    executable::script("no interpreter", &script);
    let output = output(ground.pair(&["--", script.to_str().unwrap(), ":::", "true"]));
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output.stderr).contains("cannot run"), "{}", text(&output.stderr));
    assert_eq!(ground.journals(), 0);
}

#[test]
fn commands_write_where_they_would_without() {
    let Some(ground) = ground("commands_write_where_they_would_without") else { return };
    let output = output(ground.pair(&["--", "echo", "one", ":::", "true"]));
    assert_eq!(text(&output.stdout), "one\n");
}

#[test]
fn an_interrupt_puts_placed_threads_back() {
    let Some(ground) = ground("an_interrupt_puts_placed_threads_back") else { return };
    let before = cpu::allowed().unwrap();
    for (policy, signal) in
        [("cross", libc::SIGINT), ("auto", libc::SIGTERM), ("parallel", libc::SIGHUP)]
    {
        let (child, busy) = session(&ground, policy);
        assert_eq!(ground.journals(), 1);
        kill(child.id(), signal);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(busy.iter().all(|busy| busy.mask() == before));
        assert_eq!(ground.journals(), 0);
        let told = text(&output.stderr);
        assert!(told.contains("stall") && told.contains("declared"), "{told}");
    }
}

/// The first interrupt tells the commands to end, which take their time.
#[test]
fn a_second_interrupt_ends_the_session_at_once() {
    let name = "a_second_interrupt_ends_the_session_at_once";
    let Some(ground) = ground(name) else { return };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let script = "trap 'echo told' TERM; echo $$; while :; do :; done";
        let mut command = ground.pair(&["--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = || lines.next().unwrap().unwrap();
        let shell = line().parse().unwrap();
        kill(child.id(), signal);
        assert_eq!(line(), "told");
        // An interrupt that comes too soon is part of the first.
        let ended = (0..1200).find_map(|_| {
            kill(child.id(), signal);
            thread::sleep(Duration::from_millis(50));
            child.try_wait().unwrap()
        });
        kill(shell, libc::SIGKILL);
        let ended = ended.expect("it goes on after 1,200 interrupts");
        assert_eq!(ended.signal(), Some(signal));
        let restored = output(ground.pair(&["--restore"]));
        assert!(restored.status.success(), "{}", text(&restored.stderr));
    }
}

#[test]
fn under_nohup_a_session_goes_on() {
    let Some(ground) = ground("under_nohup_a_session_goes_on") else { return };
    let daiko = env!("CARGO_BIN_EXE_daiko");
    let script = format!("trap '' HUP; exec {daiko} pair -- sh -c 'echo ready; read end; exit 7'");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).env("XDG_RUNTIME_DIR", ground.runtime.path());
    let command = with_default_signals(command);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_ne!(ignored & 1 << (libc::SIGHUP - 1), 0, "{ignored:x}");
    kill(child.id(), libc::SIGHUP);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_session_that_is_killed_is_put_back_by_restore() {
    let Some(ground) = ground("a_session_that_is_killed_is_put_back_by_restore") else { return };
    let before = cpu::allowed().unwrap();
    let (mut child, busy) = session(&ground, "nosmt");
    let running = output(ground.pair(&["--restore"]));
    assert!(text(&running.stdout).contains("1 sessions go on"), "{}", text(&running.stdout));
    assert_eq!(busy[0].mask().len(), 1, "it is left alone");
    child.kill().unwrap();
    child.wait().unwrap();
    // Another process has changed the second one.
    cpu::bind(busy[1].id(), &before).unwrap();
    let restored = output(ground.pair(&["--restore"]));
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(
        text(&restored.stdout).contains("1 sessions were killed: 1 threads"),
        "{}",
        text(&restored.stdout)
    );
    assert!(busy.iter().all(|busy| busy.mask() == before));
    assert_eq!(ground.journals(), 0);
}

/// The new process has inherited its affinity, and no observation finds it before the end.
#[test]
fn threads_started_meanwhile_are_put_back_too() {
    let Some(ground) = ground("threads_started_meanwhile_are_put_back_too") else { return };
    let before = cpu::allowed().unwrap();
    for is_killed in [false, true] {
        let (mut child, [mut first, _second]) = session(&ground, "nosmt");
        // Stops the session, so that it makes no observation.
        kill(child.id(), libc::SIGSTOP);
        let orphan = first.start_orphan();
        assert_eq!(cpu::allowed_of(orphan.0).unwrap(), first.mask());
        kill(child.id(), if is_killed { libc::SIGKILL } else { libc::SIGINT });
        kill(child.id(), libc::SIGCONT);
        child.wait().unwrap();
        if is_killed {
            let restored = output(ground.pair(&["--restore"]));
            assert!(text(&restored.stdout).contains("3 threads"), "{}", text(&restored.stdout));
        }
        assert_eq!(
            (cpu::allowed_of(orphan.0).unwrap(), first.mask()),
            (before.clone(), before.clone())
        );
        assert_eq!(ground.journals(), 0);
    }
}

/// The disk has room for the first lines of the journal only.
#[test]
fn a_disk_that_is_full_in_the_middle_leaves_nothing_bound() {
    let Some(ground) = ground("a_disk_that_is_full_in_the_middle_leaves_nothing_bound") else {
        return;
    };
    let before = cpu::allowed().unwrap();
    let busy: [Busy; 24] = std::array::from_fn(|_| Busy::start());
    let classes: String = busy.iter().map(|busy| format!(" --class {}=stall", busy.id())).collect();
    let ids: Vec<String> = busy.iter().map(|busy| busy.id().to_string()).collect();
    let (daiko, root) = (env!("CARGO_BIN_EXE_daiko"), ground.machine.path().display());
    let pair =
        format!("exec {daiko} pair --root {root} --policy cross{classes} --pid {}", ids.join(","));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f 1; {pair}")]);
    with_default_signals(command.env("XDG_RUNTIME_DIR", ground.runtime.path()));
    let output = output(command);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot record a change") && told.contains("make room"), "{told}");
    assert!(busy.iter().all(|busy| busy.mask() == before));
    assert_eq!(ground.journals(), 0);
}

#[test]
fn a_process_that_ends_meanwhile_does_not_end_the_session() {
    let Some(ground) = ground("a_process_that_ends_meanwhile_does_not_end_the_session") else {
        return;
    };
    let (mut child, [first, second]) = session(&ground, "nosmt");
    drop(first);
    // The other process stays placed and watched.
    until(|| ground.journals() == 1 && second.mask().len() == 1);
    assert!(child.try_wait().unwrap().is_none());
    drop(second);
    assert!(child.wait_with_output().unwrap().status.success(), "no process is left");
}

#[test]
fn an_interrupt_ends_commands_and_their_placement() {
    let Some(ground) = ground("an_interrupt_ends_commands_and_their_placement") else {
        return;
    };
    let file = ground.runtime.path().join("pid");
    let script = format!("echo $$ > {}; while :; do :; done", file.display());
    let arguments = ["--policy", "nosmt", "--class", "sh=compute", "--", "sh", "-c", &script];
    let child = ground.paired(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let pid = || fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    until(|| pid().is_some_and(|pid| cpu::allowed_of(pid).is_ok_and(|mask| mask.len() == 1)));
    kill(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM));
    assert!(cpu::allowed_of(pid().unwrap()).is_err(), "it has ended");
    assert_eq!(ground.journals(), 0);
}

#[test]
fn a_journal_that_cannot_be_written_keeps_all_as_it_is() {
    let Some(ground) = ground("a_journal_that_cannot_be_written_keeps_all_as_it_is") else {
        return;
    };
    let file = ground.runtime.path().join("started");
    let touch = ["--", "touch", file.to_str().unwrap()];
    let refused = &["nothing was changed", "XDG_RUNTIME_DIR"];
    assert_refused(pair(&touch, Path::new("/proc/nowhere")), refused);
    let open = ground.runtime.path().join("daiko-pair");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(ground.pair(&touch), &["other users can write", "XDG_RUNTIME_DIR"]);
    assert!(!file.exists());
}

#[test]
fn a_kernel_that_refuses_samples_is_told_and_the_session_goes_on() {
    let Some(ground) = ground("a_kernel_that_refuses_samples_is_told_and_the_session_goes_on")
    else {
        return;
    };
    let busy = Busy::start();
    let mut command = ground.paired(&[
        "--policy",
        "cross",
        "--class",
        "x=stall",
        "--pid",
        &busy.id().to_string(),
    ]);
    // SAFETY: the filter is made of locals; the calls are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            seccomp::forbid(libc::SYS_perf_event_open, libc::EACCES);
            Ok(())
        });
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.any(|line| line.contains("no sampling") && line.contains("perf_event_paranoid")));
    drop(busy);
    assert!(child.wait().unwrap().success());
}

/// The last line of the output, as JSON.
#[track_caller]
fn told(output: &Output) -> Value {
    let told = text(&output.stdout);
    let line = told.lines().last().unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {told}"))
}

#[test]
fn advice_about_a_command_follows_its_output_and_has_its_exit_code() {
    let runtime = tempfile::tempdir().unwrap();
    let declared = ["--advise", "--json", "--seconds", "1", "--class", "sh=compute"];
    let script = "echo first; n=0; while [ $n -lt 1000000 ]; do n=$((n+1)); done; exit 3";
    let job = ["--", "sh", "-c", script];
    let output = output(pair(&[&declared[..], &job].concat(), runtime.path()));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().next(), Some("first"));
    let advice = told(&output);
    assert_eq!((&advice["class"], &advice["partner"]), (&json!("compute"), &json!("stall")));
    assert_eq!(advice["sources"], json!(["declared"]));
    assert_eq!(advice["shares"], json!({ "stall": 0.0, "compute": 1.0, "unknown": 0.0 }));
    assert_eq!((&advice["threads"], &advice["threads_per_core"]), (&json!(1), &json!(1)));
    assert_eq!(advice["gain"], Value::Null);
    assert_eq!(advice["reasons"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_job_that_sleeps_gets_no_advice_but_the_reason() {
    let runtime = tempfile::tempdir().unwrap();
    let job = ["--advise", "--seconds", "1", "--", "sleep", "0.5"];
    let output = output(pair(&job, runtime.path()));
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(told.lines().count(), 1, "one paragraph: {told}");
    for wanted in ["Partner: unknown (most of its time has no class: ", "--threads-per-core"] {
        assert!(told.contains(wanted), "no '{wanted}' in: {told}");
    }
}

/// A job of two busy processes on the one core; this process counts their progress.
struct Job {
    busy: [Busy; 2],
    progress: NamedTempFile,
}

impl Job {
    fn start() -> Self {
        let progress = NamedTempFile::new().unwrap();
        progress.as_file().write_all_at(&[0; 8], 0).unwrap();
        Self { busy: [Busy::start(), Busy::start()], progress }
    }

    fn advice(&self, ground: &Ground) -> Child {
        let ids = self.busy.each_ref().map(|busy| busy.id().to_string());
        let progress = format!("{}={}", ids[0], self.progress.path().display());
        let pids = ids.join(",");
        // Samples of shells are slow to read without optimisation.
        let class = ["--class", "sh=compute"];
        let options = ["--advise", "--json", "--seconds", "1", "--progress", &progress];
        let mut command = ground.paired(&[&options[..], &class, &["--pid", &pids]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    /// Makes progress, without which a slice of the trial does not end.
    fn go_on(&self) {
        let count = self.progress.as_file();
        let mut bytes = [0; 8];
        count.read_exact_at(&mut bytes, 0).unwrap();
        count.write_all_at(&(u64::from_ne_bytes(bytes) + 1).to_ne_bytes(), 0).unwrap();
    }

    /// Stops the advice in a slice of the trial, in which the job is restricted to one CPU.
    fn stop_in_trial(&self, child: &mut Child) {
        let is_restricted = || self.busy.iter().all(|busy| busy.mask().len() == 1);
        loop {
            until(|| {
                self.go_on();
                if child.try_wait().unwrap().is_some() {
                    let told = io::read_to_string(child.stdout.take().unwrap()).unwrap();
                    panic!("no trial was seen: {told}");
                }
                is_restricted()
            });
            kill(child.id(), libc::SIGSTOP);
            until(|| is_stopped(child.id()));
            // The slice may have ended before the stop.
            if is_restricted() {
                return;
            }
            kill(child.id(), libc::SIGCONT);
        }
    }
}

#[test]
fn a_trial_with_siblings_has_a_range_and_restores_the_job() {
    let Some(ground) = ground("a_trial_with_siblings_has_a_range_and_restores_the_job") else {
        return;
    };
    let (before, job) = (cpu::allowed().unwrap(), Job::start());
    let mut child = job.advice(&ground);
    while child.try_wait().unwrap().is_none() {
        job.go_on();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let advice = told(&output);
    assert_eq!((&advice["threads"], &advice["cores"]), (&json!(2), &json!(1)));
    let gain = |name| advice["gain"][name].as_f64().unwrap_or_else(|| panic!("{advice}"));
    let [least, ratio, most] = ["least", "ratio", "most"].map(gain);
    assert!(0.0 < least && least <= ratio && ratio <= most, "{advice}");
    let per_core = match (least > 1.0, most < 1.0) {
        (true, _) => json!(2),
        (_, true) => json!(1),
        _ => Value::Null,
    };
    assert_eq!(advice["threads_per_core"], per_core, "{advice}");
    assert!(job.busy.iter().all(|busy| busy.mask() == before));
    assert_eq!(ground.journals(), 0);
}

#[test]
fn a_trial_that_is_interrupted_or_killed_confines_no_job() {
    let Some(ground) = ground("a_trial_that_is_interrupted_or_killed_confines_no_job") else {
        return;
    };
    let (before, job) = (cpu::allowed().unwrap(), Job::start());
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let mut child = job.advice(&ground);
        job.stop_in_trial(&mut child);
        kill(child.id(), signal);
        kill(child.id(), libc::SIGCONT);
        let output = child.wait_with_output().unwrap();
        if signal == libc::SIGKILL {
            assert!(self::output(ground.pair(&["--restore"])).status.success());
        } else {
            let advice = told(&output);
            assert_eq!(advice["gain"], Value::Null, "{advice}");
            let why = advice["reasons"][1].as_str().unwrap_or_default().to_owned();
            assert!(why.contains("ended before the trial"), "{why}");
        }
        assert!(job.busy.iter().all(|busy| busy.mask() == before));
        assert_eq!(ground.journals(), 0);
    }
}
