use std::sync::atomic::Ordering;

use std::sync::atomic::AtomicU32;

use daiko_sys::futex::{self, Scope};

use super::super::client::answer;
use super::super::tests::spec;
use super::*;
use crate::kit::Zeroed;

/// A method that plays a role for a test. Its processes publish their process ids.
struct Staged<const PLAY: u8> {
    pids: ForkShared<Pid>,
}

/// The server dies at its first question.
const SERVER_DIES: u8 = 0;
/// The first client dies at its first question. The other clients wait for an answer that never
/// comes.
const CLIENT_DIES: u8 = 1;
/// The server returns questions unchanged.
const ECHO: u8 = 2;
/// The server complains; clients wait.
const COMPLAINS: u8 = 3;

/// A process id, or 0 until the process has published it.
struct Pid(AtomicU32);

// SAFETY: an atomic number, for which zero is a valid value.
unsafe impl Zeroed for Pid {}

fn die() -> ! {
    // SAFETY: no memory is passed.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("no process survives this signal")
}

fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: the call takes no arguments.
        unsafe { libc::pause() };
    }
}

impl<const PLAY: u8> Staged<PLAY> {
    /// Publishes the id of the calling process.
    fn tell(&self, index: usize) {
        self.pids[index].0.store(std::process::id(), Ordering::SeqCst);
        futex::wake(&self.pids[index].0, u32::MAX, Scope::Shared);
    }

    /// Waits until process `index` has published its id.
    fn await_told(&self, index: usize) {
        while self.pids[index].0.load(Ordering::SeqCst) == 0 {
            let _ = futex::wait(&self.pids[index].0, 0, None, Scope::Shared);
        }
    }
}

impl<const PLAY: u8> Link for Staged<PLAY> {
    const NAME: &'static str = "staged";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        Ok(Self { pids: ForkShared::new(1 + spec.clients)? })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        self.tell(SERVER);
        match PLAY {
            SERVER_DIES => {
                self.await_told(1);
                die()
            }
            COMPLAINS => Err(io::Error::from_raw_os_error(libc::ENOEXEC)),
            _ => sleep_for_ever(),
        }
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        self.tell(1 + client);
        (0..self.pids.len()).for_each(|index| self.await_told(index));
        calls.make(|_| match PLAY {
            CLIENT_DIES if client == 0 => die(),
            ECHO => Ok(()),
            _ => sleep_for_ever(),
        })
    }
}

/// Runs the role, and asserts that it leaves no process behind.
fn failure_of<const PLAY: u8>() -> Failure {
    let spec = spec(8, 2);
    let link = Staged::<PLAY>::open(&spec).unwrap();
    let result = run_link::<_, 1>(&link, &spec);
    for pid in link.pids.iter().map(|pid| pid.0.load(Ordering::SeqCst)).filter(|pid| *pid != 0) {
        // SAFETY: the call only asks for a status.
        let status = unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), libc::WNOHANG) };
        assert_eq!(status, -1, "process {pid} is left behind");
    }
    result.map(drop).expect_err("no client can have completed")
}

#[test]
fn a_client_that_dies_ends_the_server() {
    let failure = failure_of::<CLIENT_DIES>().to_string();
    assert!(failure.starts_with("a client ended with signal: 9"), "{failure}");
}

#[test]
fn a_server_that_dies_ends_the_clients() {
    let failure = failure_of::<SERVER_DIES>().to_string();
    assert!(failure.starts_with("the server ended with signal: 9"), "{failure}");
}

#[test]
fn a_server_that_cannot_go_on_is_told_with_its_reason() {
    let failure = failure_of::<COMPLAINS>().to_string();
    assert!(failure.starts_with("the server ended: Exec format error"), "{failure}");
}

#[test]
fn an_echoed_question_is_a_wrong_answer() {
    assert_eq!(failure_of::<ECHO>(), Failure::WrongDatum { expected: 1, found: 0 });
}

#[test]
fn a_message_is_checked_to_its_last_word() {
    spoil_last_word::<1>();
    spoil_last_word::<8>();
    spoil_last_word::<MOST_WORDS>();
}

fn spoil_last_word<const WORDS: usize>() {
    let tallies = ForkShared::<ClientTally>::new(1).unwrap();
    let gates = ForkShared::<Gate>::new(GATES).unwrap();
    let window = std::time::Duration::ZERO;
    let calls = Calls::<'_, WORDS> { tallies: &tallies, client: 0, gates: &gates, window };
    let spoiled = |message: &mut [u64; WORDS]| {
        answer(message);
        message[WORDS - 1] -= 1;
        Ok(())
    };
    calls.make(spoiled).unwrap_err();
    let last = WORDS as u64;
    let wrong = Failure::WrongDatum { expected: last, found: last - 1 };
    assert_eq!(tallies[0].wrong.failure(), Some(wrong));
}
