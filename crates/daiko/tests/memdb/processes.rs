//! The program through a segment: other processes call, and servers are killed while they wait.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::place::LogFolder;
use super::program::{FEW, Program, assert_fails, program};
use super::request::{DbRequest, Reply};
use super::support::child::{Killed, stderr, stdout};
use super::support::{skip, until};

/// The name of a segment of one test, which is removed at the end.
struct Name(String);

impl Name {
    fn new(name: &str) -> Name {
        Name(format!("daiko-memdb-{}-{name}", std::process::id()))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/dev/shm").join(&self.0)
    }

    fn command(&self, verb: &str, words: &[&str]) -> Command {
        let mut command = program(&[verb, "--segment", &self.0]);
        command.args(words);
        command
    }

    /// Starts a server at the segment.
    fn serve(&self, words: &[&str]) -> Program {
        let mut command = self.command("serve", &FEW);
        command.args(words);
        Program::of(command, 1)
    }

    /// Returns the output of a command that succeeds.
    #[track_caller]
    fn ask(&self, verb: &str, words: &[&str]) -> String {
        let output = self.command(verb, words).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
        stdout(&output)
    }

    #[track_caller]
    fn fails(&self, verb: &str, words: &[&str], remedy: &str) {
        assert_fails(&self.command(verb, words).output().unwrap(), remedy);
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

#[test]
fn a_thousand_sessions_of_another_process_wait_and_are_answered() {
    let name = Name::new("thousand");
    let server = name.serve(&["--slots", "64"]);
    let text = name.ask("bench", &["--sessions", "1000", "--seconds", "1"]);
    assert!(text.starts_with("1000 sessions: ") && text.contains(", 0 interrupted"), "{text}");
    assert_eq!(name.ask("check", &[]), "consistent\n");
    name.ask("stop", &[]);
    assert!(!name.path().exists());
    let mut child = server.child;
    child.ends_well();
}

/// Raises the limit on descriptors of this process, which its children inherit. Returns false if it
/// is too low.
fn allows_descriptors(count: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a live local.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_cur.max(count.min(limit.rlim_max));
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur >= count
}

#[test]
fn a_thousand_connections_wait_and_are_answered() {
    if !allows_descriptors(2500) {
        return skip("ulimit -Hn is below 2500");
    }
    let server = Program::start(&[]);
    let mut connections: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(&[DbRequest::Delivery { warehouse: 1, carrier: 1 }]).unwrap();
    }
    for connection in &mut connections {
        assert!(matches!(connection.reply().unwrap(), Reply::Delivered { .. }));
    }
    // All wait again; the last one is answered at once.
    assert_eq!(connections[999].ask(DbRequest::Check), Reply::Consistent);
}

#[test]
fn clients_that_wait_for_a_killed_server_are_told_and_go_on_with_the_next() {
    let (name, folder) = (Name::new("killed"), LogFolder::new());
    let log = ["--log", folder.path.to_str().unwrap(), "--fsync", "no"];
    let mut server = name.serve(&log);
    let told = folder.folder.path().join("told");
    let mut bench = name.command("bench", &["--sessions", "100", "--seconds", "4"]);
    bench.stderr(fs::File::create(&told).unwrap()).stdout(Stdio::piped());
    let mut bench = Killed(bench.spawn().unwrap());
    let mut kills = 0;
    let has_told = |kills| {
        let text = fs::read_to_string(&told).unwrap();
        text.lines().count() >= kills
    };
    let log_grows = |from: u64| fs::metadata(&folder.path).unwrap().len() > from;
    while kills < 2 {
        let len = fs::metadata(&folder.path).unwrap().len();
        until("transactions", || log_grows(len));
        server.child.send(libc::SIGKILL);
        kills += 1;
        until("a message", || has_told(kills));
        drop(server);
        server = name.serve(&log);
    }
    let len = fs::metadata(&folder.path).unwrap().len();
    until("transactions of the last server", || log_grows(len));
    let output = bench.0.stdout.take().unwrap();
    bench.ends_well();
    let text = std::io::read_to_string(output).unwrap();
    assert!(text.starts_with("100 sessions: ") && !text.contains(" 0 interrupted"), "{text}");
    let told = fs::read_to_string(&told).unwrap();
    let names =
        |line: &str| line.contains("the server ended") || line.contains("no process serves");
    assert!(told.lines().all(|line| line.starts_with("memdb: ") && names(line)), "{told}");
    assert_eq!(name.ask("check", &[]), "consistent\n");
}

#[test]
fn a_segment_has_one_server_and_one_that_is_killed_leaves_it_to_the_next() {
    let name = Name::new("one");
    let server = name.serve(&[]);
    let text = name.ask("bench", &["--seconds", "1"]);
    assert!(text.starts_with("16 sessions: "), "{text}");
    name.fails("serve", &FEW, "is being served already; end that server first");
    assert_eq!(name.ask("check", &[]), "consistent\n");
    drop(server);
    name.fails("check", &[], "start its server");
    name.fails(
        "serve",
        &["--warehouses", "1", "--customers", "30", "--items", "200"],
        "remove it, or name another segment",
    );
    // The rows of the killed server are gone, as it had no log.
    let _server = name.serve(&[]);
    assert_eq!(name.ask("check", &[]), "consistent\n");
}

#[test]
fn a_stopped_server_is_followed_by_one_with_another_segment() {
    let (name, folder) = (Name::new("stopped"), LogFolder::new());
    let log = ["--log", folder.path.to_str().unwrap(), "--fsync", "no"];
    let server = name.serve(&log);
    let mut bench = name.command("bench", &["--sessions", "10", "--seconds", "3"]);
    let mut bench = Killed(bench.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let len = fs::metadata(&folder.path).unwrap().len();
    until("transactions", || fs::metadata(&folder.path).unwrap().len() > len);
    name.ask("stop", &[]);
    let mut child = server.child;
    child.ends_well();
    let _server = name.serve(&log);
    let len = fs::metadata(&folder.path).unwrap().len();
    until("transactions", || fs::metadata(&folder.path).unwrap().len() > len);
    bench.ends_well();
}

#[test]
fn a_foreign_segment_is_refused_in_one_line() {
    let name = Name::new("foreign");
    name.fails("check", &[], "start the program that creates it first");
    name.fails("bench", &[], "start the program that creates it first");
    fs::write(name.path(), vec![b'x'; 1 << 20]).unwrap();
    fs::set_permissions(name.path(), fs::Permissions::from_mode(0o644)).unwrap();
    name.fails("check", &[], "remove it");
    fs::set_permissions(name.path(), fs::Permissions::from_mode(0o600)).unwrap();
    for verb in ["serve", "check", "bench", "stop"] {
        name.fails(verb, &[], "choose another name");
    }
    assert_eq!(fs::read(name.path()).unwrap(), vec![b'x'; 1 << 20]);
    fs::remove_file(name.path()).unwrap();
    // A segment of another program.
    let _other = daiko::shm::Segment::create(&name.0, 1 << 20).unwrap();
    name.fails("check", &[], "start the program that creates it first");
}
