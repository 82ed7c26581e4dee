//! The program, over TCP.
//!
//! `cargo test` builds it with its defaults. If only tests were asked for, `cargo build --examples`
//! builds it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::peer::encoded;
use super::support::child::{Killed, emulated, stderr, stdout};
use super::support::skip;

const LONG: Duration = Duration::from_secs(30);

/// A server of one test.
pub(super) struct Program {
    pub(super) child: Killed,
    address: String,
}

impl Program {
    fn start() -> Program {
        Program::of(program("127.0.0.1:0"))
    }

    /// Starts a server on any port, and waits until it serves.
    pub(super) fn of(mut command: Command) -> Program {
        let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serves ").expect(&line).to_owned();
        Program { child, address }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Runs a tool of Redis on this server. Returns its output, or `None`, with a message, if it is
    /// not installed.
    fn run(&self, tool: &str, words: &[&str], input: &str) -> Option<String> {
        let (host, port) = self.address.split_once(':').unwrap();
        let mut command = Command::new(tool);
        command.args(["-h", host, "-p", port]).args(words).stdin(Stdio::piped());
        let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
            skip(&format!("{tool} is not installed (Debian: apt install redis-tools)"));
            return None;
        };
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{tool}: {}", stderr(&output));
        Some(stdout(&output))
    }
}

/// Returns the command of the example, which lies beside the folder of this test.
pub(super) fn program(address: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(|deps| deps.parent()).unwrap().join("examples/kv");
    assert!(
        path.exists(),
        "{} is not built: cargo build --package daiko --examples",
        path.display()
    );
    let mut command = emulated::program(&path);
    command.arg(address);
    command
}

#[track_caller]
pub(super) fn assert_reply(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).unwrap();
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

#[track_caller]
fn assert_end(mut stream: TcpStream) {
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn clients_share_their_keys_until_they_quit() {
    let program = Program::start();
    let (mut one, mut other) = (program.connect(), program.connect());
    assert_reply(&mut one, b"set k v\r\n", b"+OK\r\n");
    assert_reply(&mut other, b"get k\r\nget nosuch\r\n", b"$1\r\nv\r\n$-1\r\n");
    assert_reply(&mut one, b"quit\r\n", b"+OK\r\n");
    assert_end(one);
    assert_reply(&mut other, b"*oops\r\n", b"-ERR Protocol error: invalid multibulk length\r\n");
    assert_end(other);
}

#[test]
fn a_client_that_has_sent_all_gets_all_replies() {
    let program = Program::start();
    let mut stream = program.connect();
    let value = vec![b'v'; 3 << 20];
    let requests = [encoded([b"SET", &b"k"[..], &value]), b"GET k\r\n".to_vec(), b"GET".to_vec()];
    stream.write_all(&requests.concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert!(replies == [b"+OK\r\n$3145728\r\n", &value[..], b"\r\n"].concat());
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_and_delays_no_other() {
    let program = Program::start();
    let mut slow = program.connect();
    slow.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let (word, mut sent) = (vec![b'w'; 9_990], 0);
    let request = encoded([&b"ECHO"[..], &word]);
    let error = loop {
        match slow.write(&request[sent % request.len()..]) {
            Ok(bytes) => sent += bytes,
            // A stop of the thread ends a write with a timeout as well, see signal(7).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_reply(&mut program.connect(), b"ping\r\n", b"+PONG\r\n");
    // The client gets all replies once it reads.
    slow.shutdown(Shutdown::Write).unwrap();
    let expected = [b"$9990\r\n", &word[..], b"\r\n"].concat();
    for _ in 0..sent / request.len() {
        let mut reply = vec![0; expected.len()];
        slow.read_exact(&mut reply).unwrap();
        assert!(reply == expected);
    }
    assert_end(slow);
}

#[test]
fn clients_that_go_away_at_any_point_leave_others_alone() {
    let program = Program::start();
    let mut stays = program.connect();
    let requests =
        [encoded([b"SET", &b"k"[..], &[b'v'; 50_000]]), b"GET k\r\n".repeat(50)].concat();
    for bytes in (0..requests.len()).step_by(1000) {
        // Unread replies make this close a reset.
        program.connect().write_all(&requests[..bytes]).unwrap();
    }
    assert_reply(&mut stays, b"ping\r\n", b"+PONG\r\n");
    assert_reply(&mut program.connect(), b"ping\r\n", b"+PONG\r\n");
}

#[test]
fn an_address_that_cannot_be_had_is_told_in_one_line() {
    let other = Program::start();
    for address in [&other.address, "192.0.2.1:6379", "nowhere", "", "127.0.0.1:99999", "a\nb:1"] {
        let output = program(address).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{address:?}: {text}");
        assert!(text.starts_with("kv: cannot listen on ") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused_in_one_line() {
    let cases: [&[&str]; 9] = [
        &["--nosuch"],
        &["127.0.0.1:0", "127.0.0.1:1"],
        &["--log"],
        &["--log", "x", "--fsync"],
        &["--log", "x", "--fsync", "often"],
        &["--log", "x", "--rewrite-from", "-1"],
        &["--fsync", "always"],
        &["--cut-damaged"],
        &["--log", "x", "a\nb", "c\nd"],
    ];
    for words in cases {
        let output = program("127.0.0.1:0").args(words).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains("use it so: kv ") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn the_clients_of_redis_are_served() {
    let program = Program::start();
    let typed = "set city Kyoto\nget city\nincr n\nmget city nosuch\ndel city n\nget\n";
    if let Some(printed) = program.run("redis-cli", &[], typed) {
        let expected =
            "OK\nKyoto\n1\nKyoto\n\n2\nERR wrong number of arguments for 'get' command\n\n";
        assert_eq!(printed, expected);
    }
    let words = ["-t", "ping,set,get,incr,mset", "-n", "2000", "-c", "20", "-q"];
    for pipeline in ["1", "16"] {
        let words = [&words[..], &["-P", pipeline]].concat();
        if let Some(printed) = program.run("redis-benchmark", &words, "") {
            assert_eq!(printed.matches("requests per second, p50=").count(), 6, "{printed}");
            assert!(!printed.contains("rror") && !printed.contains("WARN"), "{printed}");
        }
    }
}
