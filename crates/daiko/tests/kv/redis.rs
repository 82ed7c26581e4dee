//! The same requests to Redis.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, process};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::peer::replies;
use super::pipelines::pipeline;
use super::support::child::Killed;
use super::support::{skip, until};

const LONG_WORD: &str = "a word of fifty bytes, as if it were there for fun";

/// Each case has a connection of its own, in a store without keys.
const CASES: &[&str] = &[
    "get\r\n",
    "get a b\r\n",
    "GET a\r\n",
    "set a\r\n",
    "set a b\r\nGeT a\r\nget b\r\n",
    "set a b nx\r\nset a c NX\r\nset a d xx\r\nset b e XX\r\nmget a b\r\n",
    "set a b nx xx\r\n",
    "set a b xx xx\r\n",
    "set a b nosuch\r\n",
    "set a b ex\r\n",
    "set a b ex 0\r\n",
    "set a b ex -1\r\n",
    "set a b ex ten\r\n",
    "set a b px 1.5\r\n",
    "set a b ex 10 px 10\r\n",
    "set a b ex 10 ex 20\r\nget a\r\n",
    "set a b ex ten nosuch\r\n",
    "set a b nx ex 10\r\nget a\r\n",
    "set a b px 100000 nx\r\nget a\r\n",
    "set a b ex 9223372036854775807\r\n",
    "set a b px 9223372036854775807\r\n",
    "del\r\n",
    "mset a 1 b 2\r\ndel a a b c\r\nexists a\r\n",
    "exists\r\n",
    "mset a 1\r\nexists a a b\r\n",
    "incr\r\n",
    "incr a\r\nincr a\r\nget a\r\n",
    "set a 9223372036854775807\r\nincr a\r\nget a\r\n",
    "set a -9223372036854775808\r\nincr a\r\nget a\r\n",
    "set a -1\r\nincr a\r\nget a\r\n",
    "set a ''\r\nincr a\r\n",
    "set a ' 1'\r\nincr a\r\n",
    "set a 01\r\nincr a\r\n",
    "set a -0\r\nincr a\r\n",
    "set a +1\r\nincr a\r\n",
    "set a 9223372036854775808\r\nincr a\r\n",
    "mget\r\n",
    "mset\r\n",
    "mset a\r\n",
    "mset a 1 b\r\n",
    "mset a 1 a 2\r\nmget a\r\n",
    "ping\r\n",
    "ping 'hello there'\r\n",
    "ping a b\r\n",
    "echo\r\n",
    "echo ''\r\n",
    "echo a b\r\n",
    "select 0\r\n",
    "select\r\n",
    "select zero\r\n",
    "select -1\r\n",
    "select 16\r\n",
    "dbsize\r\nmset a 1 b 2\r\ndbsize\r\n",
    "dbsize a\r\n",
    "set a 1\r\nflushall\r\nget a\r\n",
    "flushall sync\r\nflushall ASYNC\r\n",
    "flushall nosuch\r\nflushall sync async\r\n",
    "ping\r\nquit\r\nping\r\n",
    "quit now\r\n",
    "info nosuch\r\n",
    "config\r\n",
    "config get\r\n",
    "config get save\r\nconfig GET AppendOnly\r\nconfig get maxmemory\r\n",
    "config get nosuch\r\n",
    "config nosuch\r\n",
    "CONFIG nosuch a b\r\n",
    "command nosuch\r\n",
    "command count a\r\n",
    "command docs nosuch\r\n",
    "nosuch\r\n",
    "NoSuch a 'b c'\r\n",
    "nosuch \"a\\r\\nb\" \"c\\x00d\" \"\\xff\"\r\n",
    "\"no\\nsuch\"\r\n",
    "''\r\n",
    // Two forms, mixed, and empty requests.
    "\r\n\n  \r\nping\n*0\r\n*-1\r\n*-100\r\n*1\r\n$4\r\nping\r\nping\r\n",
    "*1\r\n$4\r\nPING",
    "*1\r\n$4\r\nPINGxx*1\r\n$4xxPINGyy",
    "*1\r\n$0\r\n\r\n",
    "*3\r\n$3\r\nset\r\n$1\r\na\r\n$8\r\n\r\n\r\n$1\r\n\r\n*2\r\n$3\r\nget\r\n$1\r\na\r\n",
    "PING\rPING\r\n",
    "PING PING\r\r\n",
    // Quotes.
    "echo \"a b\"\r\necho 'a b'\r\necho a\"b c\"\r\n",
    "echo \"\\n\\r\\t\\a\\b\\\\\\\"\\q\\x41\\xfF\\x4\\xg0\"\r\n",
    "echo '\\n\\'\\\\'\r\n",
    "echo a\x0bb\x0cc\r\n",
    "echo \"a\r\n",
    "echo 'a\r\n",
    "echo \"a\"b\r\n",
    "echo 'a'b\r\n",
    "echo \"a\\\"\r\n",
    "ping\r\necho \"\r\nping\r\n",
    // Malformed requests.
    "*\r\n",
    "*x\r\n",
    "*1x\r\n",
    "* 1\r\n",
    "*+1\r\n",
    "*01\r\n",
    "*-0\r\n",
    "*2147483648\r\n",
    "*99999999999999999999\r\n",
    "*1\r\n\r\n",
    "*1\r\n\n\r\n",
    "*1\r\nPING\r\n",
    "*1\r\n:4\r\nPING\r\n",
    "*1\r\n$\r\n",
    "*1\r\n$x\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n$04\r\nPING\r\n",
    "*1\r\n$536870913\r\n",
    "*1\r\n$99999999999999999999\r\n",
    "ping\r\n*2\r\n$4\r\necho\r\n*\r\nping\r\n",
    // Incomplete requests.
    "*",
    "*1\r",
    "*1\r\n$536870912\r\nabc",
    "*2147\r\n$1\r\na\r\n",
    "ping",
    "set a 1\r\nget a\r\nget",
];

/// A server of a test, which has a folder of its own.
struct Redis {
    _child: Killed,
    folder: PathBuf,
}

impl Redis {
    /// Starts a server. Returns `None`, with a message, if it is not installed.
    fn start(name: &str) -> Option<Redis> {
        let folder = env::temp_dir().join(format!("daiko-kv-{}-{name}", process::id()));
        fs::create_dir(&folder).unwrap();
        let mut command = Command::new("redis-server");
        command.current_dir(&folder).args(["--port", "0", "--unixsocket", "socket", "--save", ""]);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => {
                let redis = Redis { _child: Killed(child), folder };
                until("redis-server", || redis.connect().is_ok());
                Some(redis)
            }
            Err(error) => {
                fs::remove_dir(&folder).unwrap();
                skip(&format!(
                    "redis-server: {error}; install it to compare (Debian: apt install redis-server)"
                ));
                None
            }
        }
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.folder.join("socket"))
    }

    /// Returns the replies to `bytes` and their end, after it has dropped all keys.
    fn replies(&self, bytes: &[u8]) -> Vec<u8> {
        self.ask(b"flushall\r\n");
        self.ask(bytes)
    }

    fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().unwrap();
        // The server may close the connection before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut replies = Vec::new();
        match stream.read_to_end(&mut replies) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => replies,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn assert_same(redis: &Redis, bytes: &[u8]) {
    let (own, its) = (replies(bytes), redis.replies(bytes));
    assert!(
        own == its,
        "{}\nis answered so:  {}\nby Redis so:     {}",
        bytes.escape_ascii(),
        own.escape_ascii(),
        its.escape_ascii()
    );
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = Redis::start("cases") else { return };
    CASES.iter().for_each(|case| assert_same(&redis, case.as_bytes()));
    let long = |word: &str| word.repeat(20_000);
    for case in [
        format!("nosuch{LONG_WORD}{LONG_WORD}{LONG_WORD} {LONG_WORD}\r\n"),
        format!("nosuch '{LONG_WORD}' '{LONG_WORD}' '{LONG_WORD}' a b\r\n"),
        format!("nosuch {}\r\n", "a ".repeat(100)),
        format!("config {}\r\n", long("no")),
        format!("*{}", long("1111")),
        format!("*1\r\n${}", long("1111")),
        format!("ping\r\n{}", long("ping")),
        format!("set a '{}'\r\nget a\r\n", long("abc")),
        format!("mget {}\r\n", "a ".repeat(2000)),
    ] {
        assert_same(&redis, case.as_bytes());
    }
}

#[test]
fn replies_to_random_pipelines_are_those_of_redis() {
    let Some(redis) = Redis::start("random") else { return };
    // A failure is printed, and not kept in a file.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&pipeline(), |bytes| {
        let (own, its) = (replies(&bytes), redis.replies(&bytes));
        prop_assert_eq!(own.escape_ascii().to_string(), its.escape_ascii().to_string());
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}
