//! The program with a log: acknowledged changes are there after any end, and changes that cannot be
//! logged are refused.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, process, thread};

use super::logs::LogFolder;
use super::peer::encoded;
use super::program::{Program, assert_reply, program};
use super::support::child::emulated::LinuxPart;
use super::support::child::stderr;
use super::support::disk::{limited, on_small_tmpfs, unlimited, without_fdatasync};
use super::support::until;

/// Returns the command of a server with this log.
fn logged(path: &Path, fsync: &str) -> Command {
    let mut command = program("127.0.0.1:0");
    command.arg("--log").arg(path).args(["--fsync", fsync]);
    command
}

const POLICIES: [&str; 3] = ["always", "everysec", "no"];

/// A client of bulk strings, numbers, lines and arrays of bulk strings.
struct Client(BufReader<TcpStream>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Line(String),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Client {
    fn of(program: &Program) -> Client {
        Client(BufReader::new(program.connect()))
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(request)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.into()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let number = || line[1..].parse::<i64>().unwrap();
        match line.as_bytes()[0] {
            b'*' => {
                (0..number()).map(|_| self.reply()).collect::<io::Result<_>>().map(Reply::Array)
            }
            b'$' if number() == -1 => Ok(Reply::Bulk(None)),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Bulk(Some(bytes)))
            }
            _ => Ok(Reply::Line(line)),
        }
    }

    fn ask(&mut self, line: &str) -> Reply {
        self.send(format!("{line}\r\n").as_bytes()).unwrap();
        self.reply().unwrap()
    }

    /// Returns a field of INFO.
    fn info(&mut self, name: &str) -> String {
        let Reply::Bulk(Some(text)) = self.ask("info persistence") else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        let field = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        field.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
    }
}

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's linear congruential generator, of which the upper bits are random.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// The keys of one client.
type Keys = BTreeMap<String, String>;

/// A request of a client that changes its keys.
#[derive(Clone, Debug)]
enum Step {
    Set(String, String),
    SetBoth([String; 2], String),
    Remove([String; 2]),
    Increment(String),
}

impl Step {
    fn random(client: usize, number: u64, random: &mut Random) -> Step {
        let mut key = || format!("{client}:{}", random.below(12));
        let (one, other) = (key(), key());
        match random.below(8) {
            0 => Step::Remove([one, other]),
            1 | 2 => Step::SetBoth([one, other], number.to_string()),
            3 | 4 => Step::Increment(format!("{client}:n")),
            // Some values are so long that a record takes several pages.
            5 => Step::Set(one, number.to_string().repeat(1000)),
            _ => Step::Set(one, number.to_string()),
        }
    }

    fn request(&self) -> Vec<u8> {
        let words: Vec<&str> = match self {
            Step::Set(key, value) => vec!["SET", key, value],
            Step::SetBoth([one, other], value) => vec!["MSET", one, value, other, value],
            Step::Remove([one, other]) => vec!["DEL", one, other],
            Step::Increment(key) => vec!["INCR", key],
        };
        encoded(words.into_iter().map(str::as_bytes))
    }

    /// Does to the keys as the server does, and returns its reply.
    fn apply(&self, keys: &mut Keys) -> String {
        match self {
            Step::Set(key, value) => _ = keys.insert(key.clone(), value.clone()),
            Step::SetBoth(both, value) => {
                both.iter().for_each(|key| _ = keys.insert(key.clone(), value.clone()));
            }
            Step::Remove(both) => {
                let removed = both.iter().filter(|key| keys.remove(*key).is_some()).count();
                return format!(":{removed}");
            }
            Step::Increment(key) => {
                let sum = keys.get(key).map_or(0, |value| value.parse::<i64>().unwrap()) + 1;
                keys.insert(key.clone(), sum.to_string());
                return format!(":{sum}");
            }
        }
        "+OK".into()
    }
}

/// The keys of a client as the server must have them, and the requests without a reply.
struct Oracle {
    client: usize,
    keys: Keys,
    asked: Vec<Step>,
    steps: u64,
}

impl Oracle {
    fn new(client: usize) -> Oracle {
        Oracle { client, keys: Keys::new(), asked: Vec::new(), steps: 0 }
    }

    /// Sends requests, some at a time, until the server is gone.
    fn load(&mut self, program: &Program, seed: u64, acknowledged: &AtomicU64) {
        let mut client = Client::of(program);
        let mut random = Random(seed ^ (self.client as u64) << 32);
        loop {
            for _ in 0..1 + random.below(8) {
                self.steps += 1;
                self.asked.push(Step::random(self.client, self.steps, &mut random));
            }
            let requests: Vec<_> = self.asked.iter().map(Step::request).collect();
            if client.send(&requests.concat()).is_err() {
                return;
            }
            for step in self.asked.clone() {
                let Ok(reply) = client.reply() else { return };
                assert_eq!(reply, Reply::Line(step.apply(&mut self.keys)));
                self.asked.remove(0);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Checks that the server has all acknowledged requests, and the first of the others, each as a
    /// whole or not at all.
    fn check(&mut self, client: &mut Client) {
        let names = (0..12).map(|key| format!("{}:{key}", self.client));
        let names: Vec<_> = names.chain([format!("{}:n", self.client)]).collect();
        let words = ["mget"].into_iter().chain(names.iter().map(String::as_str));
        client.send(&encoded(words.map(str::as_bytes))).unwrap();
        let Reply::Array(values) = client.reply().unwrap() else { panic!("no array") };
        let text = |value| match value {
            Reply::Bulk(value) => value.map(|bytes| String::from_utf8(bytes).unwrap()),
            other => panic!("{other:?}"),
        };
        let values = values.into_iter().map(text);
        let found = names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
        let found: Keys = found.collect();
        for step in self.asked.drain(..) {
            if found == self.keys {
                break;
            }
            step.apply(&mut self.keys);
        }
        assert_eq!(found, self.keys);
    }
}

const CLIENTS: usize = 4;
const ROUNDS: u64 = 9;

/// Loads servers of one log and kills them, again and again.
fn kill_often(fsync: &str) {
    let folder = LogFolder::new();
    let mut oracles: Vec<_> = (0..CLIENTS).map(Oracle::new).collect();
    let (mut random, mut acknowledged_at_all, mut interrupted) = (Random(7), 0, 0);
    let command = || {
        let mut command = logged(&folder.path, fsync);
        // So few that there is a rewrite within most lives.
        command.args(["--rewrite-from", "30000"]);
        command
    };
    for round in 0..ROUNDS {
        let program = Program::of(command());
        let mut client = Client::of(&program);
        oracles.iter_mut().for_each(|oracle| oracle.check(&mut client));
        let (acknowledged, enough) = (AtomicU64::new(0), random.below(600));
        thread::scope(|scope| {
            for oracle in &mut oracles {
                scope.spawn(|| oracle.load(&program, round, &acknowledged));
            }
            until("acknowledged requests", || acknowledged.load(Ordering::Relaxed) >= enough);
            if round % 3 == 2 {
                // Another end at the beginning of a rewrite, wherever that is by then.
                client.ask("bgrewriteaof");
            }
            program.child.send(libc::SIGKILL);
        });
        acknowledged_at_all += acknowledged.into_inner();
        interrupted += u32::from(folder.folder.path().join("log.new").exists());
    }
    let program = Program::of(command());
    let mut client = Client::of(&program);
    oracles.iter_mut().for_each(|oracle| oracle.check(&mut client));
    let keys: usize = oracles.iter().map(|oracle| oracle.keys.len()).sum();
    assert_eq!(client.ask("dbsize"), Reply::Line(format!(":{keys}")));
    assert!(acknowledged_at_all > 0);
    println!("{fsync}: {acknowledged_at_all} acknowledged, {interrupted} rewrites interrupted");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_if_each_write_is_synchronised() {
    kill_often("always");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_if_it_was_only_written() {
    kill_often("everysec");
    kill_often("no");
}

#[test]
fn a_log_is_rewritten_when_it_has_doubled_while_clients_write() {
    let folder = LogFolder::new();
    let mut command = logged(&folder.path, "everysec");
    command.args(["--rewrite-from", "10000"]);
    let program = Program::of(command);
    let mut oracle = Oracle::new(0);
    let mut client = Client::of(&program);
    thread::scope(|scope| {
        scope.spawn(|| oracle.load(&program, 1, &AtomicU64::new(0)));
        let rewrites = |client: &mut Client| client.info("aof_rewrites").parse::<u64>().unwrap();
        until("some rewrites", || rewrites(&mut client) >= 3);
        program.child.send(libc::SIGKILL);
    });
    drop(program);
    let program = Program::of(logged(&folder.path, "everysec"));
    oracle.check(&mut Client::of(&program));
}

#[test]
fn a_rewrite_that_was_interrupted_leaves_no_trace() {
    let folder = LogFolder::new();
    let new = folder.folder.path().join("log.new");
    fs::write(&new, "half of a log").unwrap();
    let program = Program::of(logged(&folder.path, "no"));
    assert!(!new.exists());
    let mut client = Client::of(&program);
    assert_eq!(client.ask("set k v"), Reply::Line("+OK".into()));
    let started = "+Background append only file rewriting started";
    assert_eq!(client.ask("bgrewriteaof"), Reply::Line(started.into()));
    until("a rewrite", || client.info("aof_rewrites") == "1");
    assert_eq!(client.info("aof_rewrite_in_progress"), "0");
    assert!(!new.exists());
}

#[test]
fn a_log_has_one_server_also_after_it_was_rewritten() {
    let folder = LogFolder::new();
    let program = Program::of(logged(&folder.path, "no"));
    let mut client = Client::of(&program);
    for rewrites in ["0", "1", "2"] {
        until("a rewrite", || client.info("aof_rewrites") == rewrites);
        let output = logged(&folder.path, "no").output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("kv: another server has the log "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        client.ask("bgrewriteaof");
    }
    drop(program);
    Program::of(logged(&folder.path, "no"));
}

#[test]
fn a_torn_log_is_cut_off_and_told_and_a_damaged_one_refused() {
    let folder = LogFolder::new();
    let program = Program::of(logged(&folder.path, "no"));
    let mut client = Client::of(&program);
    client.ask("set a 1");
    client.ask("set b 2");
    drop(program);
    let whole = fs::read(&folder.path).unwrap();
    fs::write(&folder.path, &whole[..whole.len() - 1]).unwrap();
    let mut command = logged(&folder.path, "no");
    let told = folder.folder.path().join("told");
    command.stderr(fs::File::create(&told).unwrap());
    let program = Program::of(command);
    assert_reply(&mut program.connect(), b"mget a b\r\n", b"*2\r\n$1\r\n1\r\n$-1\r\n");
    let text = fs::read_to_string(&told).unwrap();
    assert!(text.starts_with("kv: the log ") && text.contains(" is cut off at byte "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    drop(program);
    let mut damaged = whole.clone();
    damaged[30] ^= 1;
    fs::write(&folder.path, &damaged).unwrap();
    let output = logged(&folder.path, "no").output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("is damaged at byte 16, ") && text.lines().count() == 1, "{text}");
    let mut command = logged(&folder.path, "no");
    command.arg("--cut-damaged").stderr(process::Stdio::null());
    assert_reply(&mut Program::of(command).connect(), b"dbsize\r\n", b":0\r\n");
}

/// Asserts that a reply refuses a write, and names the reason.
#[track_caller]
fn assert_refused(reply: &Reply, reason: &str) {
    let Reply::Line(line) = reply else { panic!("{reply:?}") };
    assert!(line.starts_with("-MISCONF the log cannot be written: "), "{line}");
    assert!(line.contains(reason), "{line}");
}

/// Writes until there is no more room, and returns the number of writes that were acknowledged.
fn fill(client: &mut Client, reason: &str) -> usize {
    let value = "v".repeat(1000);
    for number in 0..10_000 {
        let reply = client.ask(&format!("set key:{number} {value}"));
        if reply != Reply::Line("+OK".into()) {
            assert_refused(&reply, reason);
            return number;
        }
    }
    panic!("there is room for ever");
}

/// Fills the room of a log, and checks that the server and the log are well.
fn check_without_room(command: impl Fn() -> Command, reason: &str) {
    let program = Program::of(command());
    let mut client = Client::of(&program);
    let written = fill(&mut client, reason);
    assert!(written > 100, "{written}");
    // Reads go on, and so do commands without keys; writes are refused, for other clients too.
    let value = Reply::Bulk(Some(b"v".repeat(1000)));
    assert_eq!(client.ask("get key:0"), value);
    assert_eq!(client.ask("ping"), Reply::Line("+PONG".into()));
    assert_eq!(client.info("aof_last_write_status"), "err");
    for write in ["set k v", "del key:0", "incr n", "mset a 1", "flushall"] {
        assert_refused(&Client::of(&program).ask(write), reason);
    }
    assert_eq!(client.ask("exists k n a key:0"), Reply::Line(":1".into()));
    drop(program);
    let program = Program::of(command());
    let mut client = Client::of(&program);
    for number in 0..written {
        assert_eq!(client.ask(&format!("get key:{number}")), value, "{number}");
    }
}

#[test]
fn without_room_writes_are_refused_and_reads_go_on() {
    for fsync in POLICIES {
        let folder = LogFolder::new();
        let command = || {
            let mut command = limited(logged(&folder.path, fsync), 200 << 10);
            command.stderr(process::Stdio::null());
            command
        };
        check_without_room(command, "File too large");
    }
}

#[test]
fn writes_are_accepted_again_when_there_is_room() {
    let folder = LogFolder::new();
    let mut command = limited(logged(&folder.path, "always"), 200 << 10);
    command.stderr(process::Stdio::null());
    let program = Program::of(command);
    let mut client = Client::of(&program);
    let written = fill(&mut client, "File too large");
    unlimited(program.child.0.id());
    until("room", || client.ask("set k v") == Reply::Line("+OK".into()));
    assert_eq!(client.info("aof_last_write_status"), "ok");
    drop(program);
    let program = Program::of(logged(&folder.path, "always"));
    client = Client::of(&program);
    // The write that was refused for lack of room was kept, and written then.
    assert_eq!(client.ask("dbsize"), Reply::Line(format!(":{}", written + 2)));
}

const FULL: &str = "durable::a_full_disk_refuses_writes_and_reads_go_on";

#[test]
fn a_full_disk_refuses_writes_and_reads_go_on() {
    on_small_tmpfs(FULL, |folder| {
        let path = folder.join("log");
        for fsync in POLICIES {
            let command = || {
                let mut command = logged(&path, fsync);
                command.stderr(process::Stdio::null());
                command
            };
            check_without_room(command, "No space left on device");
            fs::remove_file(&path).unwrap();
        }
    });
}

#[test]
fn a_write_that_was_not_synchronised_is_not_acknowledged_and_none_is_accepted_after_it() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    let folder = LogFolder::new();
    assert_reply(
        &mut Program::of(logged(&folder.path, "always")).connect(),
        b"set a 1\r\n",
        b"+OK\r\n",
    );
    let program = Program::of(without_fdatasync(logged(&folder.path, "always")));
    let mut client = Client::of(&program);
    client.send(b"get a\r\nset b 2\r\nget a\r\ndel a nosuch\r\n").unwrap();
    let value = Reply::Bulk(Some(b"1".to_vec()));
    assert_eq!(client.reply().unwrap(), value);
    assert_refused(&client.reply().unwrap(), "Input/output error");
    assert_eq!(client.reply().unwrap(), value);
    assert_refused(&client.reply().unwrap(), "restart the server");
    assert_refused(&client.ask("set c 3"), "Input/output error");
    assert_eq!(client.ask("exists c"), Reply::Line(":0".into()));
}

#[test]
fn after_a_failed_synchronisation_in_the_background_writes_are_refused() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    let folder = LogFolder::new();
    let program = Program::of(without_fdatasync(logged(&folder.path, "everysec")));
    let mut client = Client::of(&program);
    let mut reply = client.ask("set k 0");
    assert_eq!(reply, Reply::Line("+OK".into()));
    let mut written = 0;
    until("a refusal", || {
        reply = client.ask(&format!("set k {}", written + 1));
        written += u64::from(reply == Reply::Line("+OK".into()));
        reply != Reply::Line("+OK".into())
    });
    assert_refused(&reply, "Input/output error");
    drop(program);
    // Acknowledged changes were written before.
    let program = Program::of(logged(&folder.path, "no"));
    let reply = Client::of(&program).ask("get k");
    let expected = [written, written + 1].map(|k| Reply::Bulk(Some(k.to_string().into_bytes())));
    assert!(expected.contains(&reply), "{written} {reply:?}");
}
