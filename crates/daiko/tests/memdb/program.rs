//! The program, over TCP.
//!
//! `cargo test` builds it with its defaults. If only tests were asked for, `cargo build --examples`
//! builds it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::request::{DbRequest, Refusal, Reply};
use super::session::frame;
use super::support::child::{Killed, emulated, stderr};

const LONG: Duration = Duration::from_secs(30);
/// The numbers of rows of a small database.
pub(super) const FEW: [&str; 6] = ["--warehouses", "2", "--customers", "30", "--items", "200"];

/// A server of one test.
pub(super) struct Program {
    pub(super) child: Killed,
    /// The places where it serves, in the order in which it has told them.
    pub(super) places: Vec<String>,
}

impl Program {
    /// Starts a server with few rows on any port, and waits until it serves.
    pub(super) fn start(words: &[&str]) -> Program {
        let mut command = program(&["serve", "--tcp", "127.0.0.1:0"]);
        command.args(FEW).args(words);
        Program::of(command, 1)
    }

    /// Starts a server, and waits until it serves at so many places.
    pub(super) fn of(mut command: Command, places: usize) -> Program {
        let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let place = |line: io::Result<String>| {
            let line = line.unwrap();
            line.strip_prefix("serves ").expect(&line).to_owned()
        };
        let found: Vec<_> = lines.take(places).map(place).collect();
        assert_eq!(found.len(), places, "it does not serve");
        Program { child, places: found }
    }

    pub(super) fn address(&self) -> &str {
        &self.places[self.places.len() - 1]
    }

    pub(super) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Connection(BufReader::new(stream))
    }
}

/// A client.
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn send(&mut self, requests: &[DbRequest]) -> io::Result<()> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| frame(&mut bytes, |bytes| request.encode(bytes)));
        self.0.get_mut().write_all(&bytes)
    }

    pub(super) fn reply(&mut self) -> io::Result<Reply> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.0.read_exact(&mut bytes)?;
        Ok(Reply::decode(&bytes).expect("a reply"))
    }

    #[track_caller]
    pub(super) fn ask(&mut self, request: DbRequest) -> Reply {
        self.send(&[request]).unwrap();
        self.reply().unwrap()
    }
}

/// Returns a command of the example, which lies beside the folder of this test.
pub(super) fn program(words: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(|deps| deps.parent()).unwrap().join("examples/memdb");
    assert!(
        path.exists(),
        "{} is not built: cargo build --package daiko --examples",
        path.display()
    );
    let mut command = emulated::program(&path);
    command.args(words);
    command
}

/// Checks that a command ended with one line that names the remedy.
#[track_caller]
pub(super) fn assert_fails(output: &Output, remedy: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("memdb: ") && text.lines().count() == 1, "{text}");
    assert!(text.contains(remedy), "{text:?} does not name {remedy:?}");
}

#[test]
fn arguments_that_mean_nothing_are_refused_in_one_line() {
    let cases: [(&[&str], &str); 21] = [
        (&[], "see memdb --help"),
        (&["dance"], "see memdb --help"),
        (&["a\nb"], "see memdb --help"),
        (&["serve"], "name --tcp ADDRESS or --segment NAME"),
        (&["serve", "--nosuch", "1"], "use it so: memdb serve "),
        (&["serve", "--tcp"], "--tcp needs a value; use it so: memdb serve "),
        (&["serve", "--tcp", "x:1", "--fsync", "no"], "need --log FILE"),
        (&["serve", "--tcp", "x:1", "--cut-damaged"], "need --log FILE"),
        (&["serve", "--tcp", "x:1", "--slots", "5"], "--slots needs --segment"),
        (&["serve", "--tcp", "x:1", "--log", "x", "--fsync", "often"], "use it so: memdb serve "),
        (&["serve", "--tcp", "x:1", "--warehouses", "0"], "give a number from 1 to 1024"),
        (&["serve", "--tcp", "x:1", "--items", "many"], "give a number from 1 to 1000000"),
        (&["serve", "--segment", "x", "--slots", "5000"], "give a number from 1 to 4096"),
        (&["bench"], "name one server; use it so: memdb bench "),
        (&["bench", "--tcp", "x", "--segment", "y"], "name one server"),
        (&["bench", "--tcp", "x", "--sessions", "-1"], "give a number from 1 to 100000"),
        (&["check"], "name one server; use it so: memdb check "),
        (&["check", "--tcp", "x", "--log", "y"], "name one place"),
        (&["stop"], "name one server"),
        (&["stop", "--tcp", "x"], "use it so: memdb stop "),
        (&["check", "--log", "/nosuch/log"], "name one that a server has made"),
    ];
    for (words, remedy) in cases {
        assert_fails(&program(words).output().unwrap(), remedy);
    }
    let help = program(&["--help"]).output().unwrap();
    assert!(help.status.success() && help.stdout.starts_with(b"An in-memory database"));
}

#[test]
fn an_address_that_cannot_be_had_is_told_in_one_line() {
    let other = Program::start(&[]);
    for address in [other.address(), "192.0.2.1:6379", "nowhere", "", "127.0.0.1:99999", "a\nb:1"] {
        let mut command = program(&["serve", "--tcp", address]);
        assert_fails(&command.args(FEW).output().unwrap(), "give --tcp another address");
    }
    for verb in ["bench", "check"] {
        let output = program(&[verb, "--tcp", "127.0.0.1:1"]).output().unwrap();
        assert_fails(&output, "start it by memdb serve");
    }
}

#[test]
fn a_client_that_sends_garbage_is_told_and_delays_no_other() {
    let server = Program::start(&[]);
    let mut other = server.connect();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0xff; 5000]] {
        let mut client = server.connect();
        // The server may close the connection before it has read all.
        let _ = client.0.get_mut().write_all(garbage);
        // The reply, unless the rest of the garbage made the close a reset.
        match client.reply() {
            Ok(reply) => assert_eq!(reply, Reply::Refused(Refusal::Malformed)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
        assert!(client.reply().is_err());
        assert_eq!(other.ask(DbRequest::Check), Reply::Consistent);
    }
    // Clients that go away in the middle of a request, and with replies that they have not read.
    for bytes in 0..20 {
        let mut client = server.connect();
        client.send(&[DbRequest::Check; 3]).unwrap();
        client
            .0
            .get_mut()
            .write_all(&[9, 0, 0, 0, 4, 1, 0, 0, 0, 1, 0, 0, 0][..bytes.min(13)])
            .unwrap();
    }
    assert_eq!(other.ask(DbRequest::Check), Reply::Consistent);
    // No client over TCP ends it.
    assert_eq!(other.ask(DbRequest::Stop), Reply::Refused(Refusal::Malformed));
    assert_eq!(server.connect().ask(DbRequest::Check), Reply::Consistent);
}

#[test]
fn a_bench_over_tcp_prints_all_kinds() {
    let server = Program::start(&[]);
    let words = ["bench", "--tcp", server.address(), "--sessions", "50", "--seconds", "1"];
    let output = program(&words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    assert!(text.starts_with("50 sessions: ") && text.contains(" per second, "), "{text}");
    for kind in ["new-order", "payment", "order-status", "delivery", "stock-level"] {
        assert!(text.lines().any(|line| line.starts_with(kind)), "{text}");
    }
    let check = program(&["check", "--tcp", server.address()]).output().unwrap();
    assert_eq!(check.stdout, b"consistent\n");
}
