//! Waiting for the first end among many processes.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{PidFd, ProcessError};
use crate::thread::errno;

/// A set of processes: one thread waits for their ends while other threads add to the set.
///
/// # Examples
///
/// ```
/// use daiko_sys::process::{Ends, PidFd, Waited};
///
/// let mut child = std::process::Command::new("true").spawn().unwrap();
/// let ends = Ends::new()?;
/// ends.add(PidFd::open(child.id())?, 7)?;
/// assert_eq!(ends.wait(), Waited::Ended(vec![7]));
/// ends.close();
/// assert_eq!(ends.wait(), Waited::Closed);
/// # child.wait().unwrap();
/// # Ok::<(), daiko_sys::process::ProcessError>(())
/// ```
#[derive(Debug)]
pub struct Ends {
    epoll: OwnedFd,
    /// An eventfd that is readable once [`Ends::close`] was called.
    closed: OwnedFd,
    /// Processes with an unreported end. Taking a process out closes its descriptor.
    processes: Mutex<HashMap<u64, PidFd>>,
}

/// Result of [`Ends::wait`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// The processes with these tokens have ended and left the set.
    Ended(Vec<u64>),
    /// The set was closed.
    Closed,
}

/// The token of the eventfd.
const CLOSED: u64 = u64::MAX;

impl Ends {
    /// Creates an empty set.
    ///
    /// # Errors
    ///
    /// [`ProcessError::Files`] if no more files may be open.
    pub fn new() -> Result<Self, ProcessError> {
        // SAFETY: both calls take plain integers.
        let (epoll, closed) = unsafe {
            let epoll = owned(libc::epoll_create1(libc::EPOLL_CLOEXEC), "epoll_create1")?;
            (epoll, owned(libc::eventfd(0, libc::EFD_CLOEXEC), "eventfd")?)
        };
        let set = Self { epoll, closed, processes: Mutex::default() };
        set.watch(&set.closed, CLOSED, libc::EPOLLIN as u32)?;
        Ok(set)
    }

    /// Adds a process, under a token that is unique in the set. A process that has ended already is
    /// reported as well.
    ///
    /// # Errors
    ///
    /// [`ProcessError::Refused`] with `ENOSPC` beyond `fs.epoll.max_user_watches`.
    ///
    /// # Panics
    ///
    /// If the token is in use, or `u64::MAX`.
    pub fn add(&self, process: PidFd, token: u64) -> Result<(), ProcessError> {
        let mut processes = self.processes();
        assert!(token != CLOSED && !processes.contains_key(&token), "token {token} is in use");
        self.watch(&process, token, (libc::EPOLLIN | libc::EPOLLONESHOT) as u32)?;
        processes.insert(token, process);
        Ok(())
    }

    /// Takes a process out; `None` if [`Ends::wait`] has reported it or it was never added.
    pub fn remove(&self, token: u64) -> Option<PidFd> {
        let process = self.processes().remove(&token)?;
        // SAFETY: both descriptors are open, and removing takes no event.
        unsafe {
            let (epoll, process) = (self.epoll.as_raw_fd(), process.as_fd().as_raw_fd());
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, process, std::ptr::null_mut());
        }
        Some(process)
    }

    /// Blocks until processes of the set have ended or the set is closed. Reports each process
    /// once.
    pub fn wait(&self) -> Waited {
        loop {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
            let room = events.len() as libc::c_int;
            // SAFETY: the events are a live local with this much room.
            let count =
                unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, -1) };
            // An interrupted call yields no events.
            let tokens = events[..count.max(0) as usize].iter().map(|event| event.u64);
            let ended: Vec<u64> = tokens.clone().filter(|&token| self.take_ended(token)).collect();
            if !ended.is_empty() {
                return Waited::Ended(ended);
            }
            if tokens.clone().any(|token| token == CLOSED) {
                return Waited::Closed;
            }
        }
    }

    /// Makes [`Ends::wait`] return, now and later, once it has reported all processes that have
    /// ended.
    pub fn close(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the value is a live local of eight bytes. The write fails only if the counter is
        // full, and thus readable.
        unsafe { libc::write(self.closed.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Checks the process again: an event may belong to a removed process with a reused token.
    fn take_ended(&self, token: u64) -> bool {
        let mut processes = self.processes();
        let ended = processes.get(&token).is_some_and(PidFd::has_ended);
        // This closes its descriptor, which also removes it from the epoll set.
        ended && processes.remove(&token).is_some()
    }

    fn watch(&self, file: &impl AsFd, token: u64, events: u32) -> Result<(), ProcessError> {
        let mut event = libc::epoll_event { events, u64: token };
        let file = file.as_fd().as_raw_fd();
        // SAFETY: both descriptors are open, and the event is a live local.
        match unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, file, &mut event)
        } {
            0 => Ok(()),
            _ => Err(ProcessError::Refused { errno: errno() }),
        }
    }

    fn processes(&self) -> MutexGuard<'_, HashMap<u64, PidFd>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Safety
///
/// A system call has just returned `descriptor` as a new descriptor or an error.
unsafe fn owned(descriptor: i32, call: &'static str) -> Result<OwnedFd, ProcessError> {
    match descriptor {
        // SAFETY: the caller's promise.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(ProcessError::diagnose(errno(), call, "2.6.27")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{forked, reap};
    use std::thread;

    fn sleeper() -> libc::pid_t {
        forked(|| {
            loop {
                thread::park();
            }
        })
    }

    fn kill(pid: libc::pid_t) {
        // SAFETY: takes plain integers; the process is a child of the test that is not reaped yet.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    }

    fn held(pid: libc::pid_t) -> PidFd {
        PidFd::open(pid as u32).unwrap()
    }

    #[test]
    fn each_end_is_told_once_to_a_thread_that_waits_already() {
        let ends = Ends::new().unwrap();
        let children: Vec<_> = (0..100).map(|_| sleeper()).collect();
        let mut told = thread::scope(|s| {
            let waiter = s.spawn(|| {
                let mut told = Vec::new();
                while let Waited::Ended(tokens) = ends.wait() {
                    told.extend(tokens);
                }
                told
            });
            for (token, &child) in children.iter().enumerate() {
                ends.add(held(child), token as u64).unwrap();
            }
            for &child in &children[1..] {
                kill(child);
                reap(child);
            }
            ends.close();
            waiter.join().unwrap()
        });
        told.sort_unstable();
        assert_eq!(told, (1..100).collect::<Vec<u64>>(), "also those that ended before the close");
        assert!(ends.remove(0).is_some() && ends.remove(1).is_none());
        kill(children[0]);
        reap(children[0]);
    }

    #[test]
    fn a_removed_token_gets_no_report() {
        let ends = Ends::new().unwrap();
        let [first, second] = [(); 2].map(|()| sleeper());
        ends.add(held(first), 1).unwrap();
        let removed = ends.remove(1).unwrap();
        kill(first);
        reap(first);
        assert!(removed.has_ended());
        ends.add(held(second), 1).unwrap();
        assert!(!ends.take_ended(1), "a late event of the first is not the second's");
        ends.close();
        assert_eq!(ends.wait(), Waited::Closed);
        kill(second);
        reap(second);
        assert_eq!(ends.wait(), Waited::Ended(vec![1]), "its successor under this token is");
        assert_eq!(ends.wait(), Waited::Closed, "a set stays closed");
    }

    #[test]
    #[should_panic(expected = "token 3 is in use")]
    fn a_token_names_one_process() {
        let ends = Ends::new().unwrap();
        for _ in 0..2 {
            ends.add(PidFd::open(std::process::id()).unwrap(), 3).unwrap();
        }
    }
}
