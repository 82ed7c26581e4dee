//! The example `shm-kv`, as processes, some of which are killed.
//!
//! `cargo test` builds it with its defaults. If only tests were asked for, `cargo build --examples`
//! builds it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::child::{Killed, emulated, stderr, stdout};
use crate::support::{skip, until};
use daiko::shm::{Client, Segment, Service};

const LONG: Duration = Duration::from_secs(30);
/// The numbers of `futex` and `futex_waitv`.
const FUTEX: [&str; 2] = ["202", "449"];

/// A store of one test. Its segment is removed at the end.
struct Store {
    name: String,
}

impl Store {
    fn new(name: &str) -> Store {
        Store { name: format!("daiko-kv-{}-{name}", std::process::id()) }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/dev/shm").join(&self.name)
    }

    fn command<W: AsRef<OsStr>>(&self, verb: &str, words: impl AsRef<[W]>) -> Command {
        let mut command = example();
        command.arg(verb).arg(&self.name).args(words.as_ref());
        command
    }

    /// Starts a server; returns once it serves.
    fn serve(&self, options: &[&str]) -> Running {
        let server = Running::spawn(self.command("server", options));
        until("a server", || server.has_said("serves "));
        server
    }

    fn run(&self, verb: &str, words: &[&str]) -> Output {
        self.command(verb, words).output().unwrap()
    }

    /// Returns the output of a command that succeeds.
    #[track_caller]
    fn ask(&self, verb: &str, words: &[&str]) -> String {
        let output = self.run(verb, words);
        assert_eq!(output.status.code(), Some(0), "{verb} {words:?}: {}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    }

    #[track_caller]
    fn fails(&self, verb: &str, words: &[&str], remedy: &str) {
        assert_fails(&self.run(verb, words), 1, remedy);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

/// Returns the command of the example, which lies beside the folder of this test.
fn example() -> Command {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(|deps| deps.parent()).unwrap().join("examples/shm-kv");
    assert!(
        path.exists(),
        "{} is not built: cargo build --package daiko --examples",
        path.display()
    );
    emulated::program(&path)
}

/// Checks that the command ended with one line that names the remedy.
#[track_caller]
fn assert_fails(output: &Output, code: i32, remedy: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.starts_with("shm-kv: ") && text.lines().count() == 1, "{text}");
    assert!(text.contains(remedy), "{text:?} does not name {remedy:?}");
}

/// A process that does not outlive its test, and the lines that it has printed so far.
struct Running {
    child: Killed,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn spawn(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (prints, said) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
        std::thread::spawn(move || {
            prints.lines().map_while(Result::ok).for_each(|line| said.lock().unwrap().push(line));
        });
        Running { child: Killed(child), lines }
    }

    fn has_said(&self, start: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.starts_with(start))
    }

    /// Waits until its first thread sleeps for a word in memory: a client does so for a reply.
    fn sleeps(&self) {
        let path = format!("/proc/{0}/task/{0}/syscall", self.child.0.id());
        if let Err(error) = fs::read_to_string(&path) {
            return skip(&format!(
                "{path}: {error}; whether the client calls already is not known"
            ));
        }
        until("sleep", || {
            let call = fs::read_to_string(&path).unwrap_or_default();
            FUTEX.contains(&call.split(' ').next().unwrap_or_default())
        });
    }

    fn kill(self) {
        self.child.kill();
    }

    /// Waits for the end of the process.
    fn output(mut self) -> Output {
        let mut errors = String::new();
        let mut from = self.child.0.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut from, &mut errors).unwrap();
        let status = self.child.0.wait().unwrap();
        Output { status, stdout: Vec::new(), stderr: errors.into_bytes() }
    }
}

#[test]
fn values_are_set_and_got_and_deleted() {
    let store = Store::new("values");
    let _server = store.serve(&[]);
    store.ask("set", &["city", "Kyoto"]);
    assert_eq!(store.ask("get", &["city"]), "Kyoto");
    store.ask(
        "set",
        &["city", "a longer one, which takes more than the line of the flag, so to speak"],
    );
    assert!(store.ask("get", &["city"]).starts_with("a longer one"));
    store.ask("set", &["empty", ""]);
    assert_eq!(store.ask("get", &["empty"]), "");
    store.ask("del", &["city"]);
    store.fails("get", &["city"], "set it first");
    store.fails("del", &["city"], "set it first");
}

#[test]
fn numbers_are_added_to_and_others_refused() {
    let store = Store::new("numbers");
    let _server = store.serve(&[]);
    assert_eq!(store.ask("incr", &["n"]), "1");
    assert_eq!(store.ask("incr", &["n", "41"]), "42");
    assert_eq!(store.ask("incr", &["n", "-50"]), "-8");
    store.ask("set", &["word", "many"]);
    store.fails("incr", &["word"], "set the key to one first");
    assert_eq!(store.ask("get", &["word"]), "many");
    store.ask("set", &["most", &i64::MAX.to_string()]);
    store.fails("incr", &["most"], "smaller number");
}

#[test]
fn keys_are_all_told_though_a_reply_holds_few() {
    let store = Store::new("keys");
    let _server = store.serve(&["--slot-bytes", "32"]);
    assert_eq!(store.ask("keys", &[]), "");
    // A key as long as a request has room for; a page has room for one.
    let mut keys: Vec<String> = (0..9).map(|i| format!("{i}{}", "k".repeat(26))).collect();
    keys.extend((0..30).map(|i| format!("short{i:02}")));
    // Two such keys would fill a reply, if the first byte of the reply were not taken.
    keys.extend((0..4).map(|i| format!("twelve long{i}")));
    keys.iter().for_each(|key| _ = store.ask("set", &[key, ""]));
    assert_eq!(store.ask("keys", &[]).lines().collect::<Vec<_>>(), keys);
}

#[test]
fn eight_processes_at_a_time_lose_no_addition() {
    let store = Store::new("eight");
    let _server = store.serve(&["--slots", "3"]);
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| (0..10).for_each(|_| _ = store.ask("incr", &["n"])));
        }
    });
    assert_eq!(store.ask("get", &["n"]), "80");
}

#[test]
fn a_client_killed_in_mid_call_leaves_its_slot_to_others() {
    let store = Store::new("client");
    let server = store.serve(&["--slots", "1"]);
    store.ask("set", &["n", "1"]);
    for _ in 0..3 {
        server.child.stop();
        let client = Running::spawn(store.command("get", ["n"]));
        client.sleeps();
        client.kill();
        server.child.go_on();
        assert_eq!(store.ask("get", &["n"]), "1");
    }
}

#[test]
fn clients_killed_anywhere_leave_their_slots_to_others() {
    let store = Store::new("clients");
    // A client keeps its slot, so the third slot is for the client that lists the keys.
    let _server = store.serve(&["--slots", "3"]);
    for _ in 0..5 {
        let options = ["--fibers", "2", "--seconds", "60"];
        let clients = [(); 2].map(|()| Running::spawn(store.command("bench", options)));
        until("both call", || store.ask("keys", &[]).lines().count() == 2);
        drop(clients);
        store.ask("keys", &[]).lines().for_each(|key| _ = store.ask("del", &[key]));
    }
}

#[test]
fn a_call_in_hand_of_a_killed_server_fails_at_once() {
    let store = Store::new("in-hand");
    let server = store.serve(&[]);
    server.child.stop();
    let client = Running::spawn(store.command("get", ["n"]));
    client.sleeps();
    server.kill();
    // The message names no deadline.
    assert_fails(&client.output(), 1, "call again");
    store.fails("get", &["n"], "start its server");
}

#[test]
fn a_client_goes_on_with_the_next_server() {
    let store = Store::new("next");
    let mut server = store.serve(&[]);
    let watch = Running::spawn(store.command("watch", ["n"]));
    for value in ["one", "two", "three"] {
        store.ask("set", &["n", value]);
        until("the value", || watch.has_said(value));
        server.kill();
        store.fails("get", &["n"], "start its server");
        // The segment still exists, and is taken over.
        assert!(store.path().exists());
        server = store.serve(&[]);
    }
    // Another segment of the same name.
    store.ask("stop", &[]);
    assert!(!store.path().exists());
    let _server = store.serve(&["--slot-bytes", "64"]);
    store.ask("set", &["n", "four"]);
    until("the value", || watch.has_said("four"));
}

#[test]
fn a_server_ends_when_it_is_told_to() {
    let store = Store::new("stop");
    let server = store.serve(&[]);
    store.ask("stop", &[]);
    assert!(server.output().status.success());
    store.fails("get", &["n"], "start the program that creates it first");
}

#[test]
fn a_store_has_one_server_and_slots_of_one_size() {
    let store = Store::new("one");
    let server = store.serve(&["--slot-bytes", "64"]);
    store.fails("server", &[], "end that server first");
    store.fails("server", &["--slot-bytes", "32"], "leave --slot-bytes out");
    store.fails("server", &["--slot-bytes", "100000"], "ask for no more");
    store.fails("set", &["key", &"v".repeat(60)], "--slot-bytes 68");
    store.fails("get", &[&"k".repeat(60)], "--slot-bytes 65");
    server.kill();
    store.fails("server", &["--slot-bytes", "32"], "leave --slot-bytes out");
    // More than the segment has: as no process is attached, it is made anew.
    let _server = store.serve(&["--slot-bytes", "100000"]);
    store.ask("set", &["key", &"v".repeat(60_000)]);
}

#[test]
fn a_segment_without_the_store_is_no_store() {
    let store = Store::new("other");
    let segment = Segment::create(&store.name, 1 << 20).unwrap();
    store.fails("get", &["n"], "start the program that creates it first");
    fs::write(store.path(), "no segment").unwrap();
    store.fails("get", &["n"], "choose another name");
    drop(segment);
}

#[test]
fn a_server_survives_requests_that_are_none() {
    let store = Store::new("hostile");
    let _server = store.serve(&["--slot-bytes", "64"]);
    let segment = Segment::open(&store.name).unwrap();
    let service = Service::open(&segment, &segment.objects()[0]).unwrap();
    let client = Client::of(service);
    let refused = |bytes: &[u8]| client.call_bytes(bytes, Some(LONG)).unwrap().to_vec();
    let malformed: &[&[u8]] = &[
        &[],
        &[0],
        &[0, 255, 255, 255, 255],
        &[0, 1, 0, 0, 0],
        &[0, 1, 0, 0, 0, b'k', b'v'],
        &[3, 1, 0, 0, 0, b'k', 1, 2, 3],
        &[5, 0, 0, 0, 0, 1],
        &[6, 1, 0, 0, 0, b'k'],
        &[255; 64],
    ];
    for bytes in malformed {
        assert_eq!(refused(bytes), [4], "{bytes:?}");
    }
    assert_eq!(store.ask("incr", &["n"]), "1");
}

#[test]
fn a_bench_tells_rates_and_percentiles() {
    let store = Store::new("bench");
    let _server = store.serve(&[]);
    let text = store.ask("bench", &["--fibers", "3"]);
    let lines: Vec<&str> = text.lines().collect();
    let told = |line: &str| line.contains(" round trips/s, p50 ") && line.contains(", p99 ");
    assert!(
        matches!(lines[..], [one, many] if one.starts_with("1 fiber: ")
        && many.starts_with("3 fibers: ") && told(one) && told(many)),
        "{text}"
    );
    assert_eq!(store.ask("keys", &[]), "", "it leaves nothing behind");
}

#[test]
fn a_command_line_that_cannot_be_carried_out_is_told_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "see shm-kv --help"),
        (&["dance"], "see shm-kv --help"),
        (&["get"], "shm-kv get NAME KEY"),
        (&["get", "x"], "shm-kv get NAME KEY"),
        (&["get", "x", "a", "b"], "shm-kv get NAME KEY"),
        (&["get", "x", ""], "at least one byte"),
        (&["set", "x", "a"], "shm-kv set NAME KEY VALUE"),
        (&["incr", "x", "a", "much"], "like 1 or -5"),
        (&["keys", "x", "a"], "shm-kv keys NAME"),
        (&["server", "x", "--slot"], "--slots and --slot-bytes"),
        (&["server", "x", "--slots"], "from 1 to 4096"),
        (&["server", "x", "--slots", "0"], "from 1 to 4096"),
        (&["server", "x", "--slot-bytes", "31"], "from 32 to"),
        (&["bench", "x", "--fibers", "one"], "from 2 to 1000"),
    ];
    for (words, remedy) in cases {
        assert_fails(&example().args(*words).output().unwrap(), 2, remedy);
    }
    for name in ["", "no\nsuch", "/nowhere/x", "/dev/shm"] {
        assert_fails(&example().args(["get", name, "k"]).output().unwrap(), 1, ":");
    }
    for name in ["", "/nowhere/x", "/dev/shm"] {
        assert_fails(&example().args(["server", name]).output().unwrap(), 1, ":");
    }
    let help = example().arg("--help").output().unwrap();
    assert!(help.status.success() && stdout(&help).contains("shm-kv server NAME"));
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let store = Store::new("reader");
    let _server = store.serve(&[]);
    store.ask("set", &["k", "v"]);
    let mut command = store.command("get", ["k"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // The process may have printed before or not.
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}
