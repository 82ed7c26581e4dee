//! A process that is measured: the same program once more, as a child that tells the number of its
//! hops.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Set in the child.
const IS_TARGET: &str = "DAIKO_MEASURED";

/// The number of hops, which the child counts.
pub(crate) static HOPS: AtomicU64 = AtomicU64::new(0);

/// Returns true in the child.
pub(crate) fn is_target() -> bool {
    env::var_os(IS_TARGET).is_some()
}

/// Answers each byte with the number of hops, until the end of the input; then ends the process.
/// The child calls it in a fiber.
pub(crate) fn answer() -> ! {
    daiko::blocking(|| {
        println!("ready");
        let mut input = std::io::stdin();
        while input.read_exact(&mut [0]).is_ok() {
            println!("{}", HOPS.load(Ordering::Relaxed));
        }
    });
    std::process::exit(0)
}

/// The child.
pub(crate) struct Target {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Target {
    /// Starts it with these arguments, and waits until it answers.
    pub(crate) fn start(arguments: &[String]) -> Self {
        let mut child = Command::new(env::current_exe().expect("the path of this program"))
            .args(arguments)
            .env(IS_TARGET, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let output = child.stdout.take().expect("it is piped");
        let mut target = Target { child, answers: BufReader::new(output) };
        assert_eq!(target.line(), "ready");
        target
    }

    /// Returns its process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of its hops so far.
    pub(crate) fn hops(&mut self) -> u64 {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(b"?").expect("the child listens");
        self.line().parse().expect("a number")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the child answers");
        line.trim().to_owned()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
