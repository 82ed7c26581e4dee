//! Processes that are forked from this one and never outlive it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitStatus;
use std::time::Duration;

use daiko_sys::clock;
use daiko_sys::process::{self, PidFd, die_with_parent};

use super::complaint::Complaint;
use super::failure::{Failure, OrFailure};
use super::shared::ForkShared;

/// Forked processes, killed and reaped when this is dropped.
#[derive(Default)]
pub(crate) struct Processes(Vec<Process>);

struct Process {
    pid: libc::pid_t,
    /// Readable when the process has ended.
    end: PidFd,
    reaped: bool,
}

impl Processes {
    /// Forks a process that runs `body` and ends. Returns its id.
    ///
    /// # Errors
    /// Fails if there are too many processes or descriptors.
    pub(crate) fn fork(&mut self, body: impl FnOnce() -> bool) -> io::Result<u32> {
        let parent = std::process::id();
        // SAFETY: the experiments leak no guard.
        unsafe { daiko_sys::lock::inherit_from_the_dead() };
        // SAFETY: the child runs `body` and leaves by `_exit`. glibc keeps its allocator usable
        // after a fork of a process with several threads, and `body` needs no lock that another
        // thread may hold.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => run(|| die_with_parent(parent).is_ok() && body()),
            pid => self.adopt(pid),
        }
    }

    fn adopt(&mut self, pid: libc::pid_t) -> io::Result<u32> {
        match PidFd::open(pid as u32) {
            Ok(end) => self.0.push(Process { pid, end, reaped: false }),
            Err(error) => {
                kill_and_reap(pid);
                return Err(io::Error::other(error));
            }
        }
        Ok(pid as u32)
    }

    /// Waits until another process ends. Returns its index in the order of forks and its status, or
    /// `None` after the last one.
    ///
    /// # Errors
    /// Returns the errors of `poll` and `waitpid`.
    pub(crate) fn next_end(&mut self) -> io::Result<Option<(usize, ExitStatus)>> {
        let running: Vec<usize> = (0..self.0.len()).filter(|&i| !self.0[i].reaped).collect();
        let mut ends: Vec<libc::pollfd> =
            running.iter().map(|&index| readable(&self.0[index].end)).collect();
        if ends.is_empty() {
            return Ok(None);
        }
        poll(&mut ends, None)?;
        let ended = ends.iter().position(|end| end.revents != 0);
        let index = running[ended.expect("poll returns when one is ready")];
        let status = wait(self.0[index].pid)?;
        self.0[index].reaped = true;
        Ok(Some((index, status)))
    }

    /// Waits until the process that was forked first has ended, for `longest` at most. Returns true
    /// if it has.
    ///
    /// # Errors
    /// Returns the error of `poll`.
    pub(crate) fn first_ends_within(&self, longest: Duration) -> io::Result<bool> {
        ends_within(&self.0[0].end, longest)
    }

    /// Sends a signal to the process that was forked first, unless it was reaped.
    pub(crate) fn signal_first(&self, signal: libc::c_int) {
        if let Some(process) = self.0.first().filter(|process| !process.reaped) {
            // SAFETY: no memory is passed. The child has not been waited for, so its id has not
            // been reused.
            unsafe { libc::kill(process.pid, signal) };
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.iter().filter(|process| !process.reaped).for_each(|process| {
            kill_and_reap(process.pid);
        });
    }
}

/// A forked process that reports the reason for its end, killed when this is dropped.
pub(crate) struct Fork {
    pid: u32,
    complaint: ForkShared<Complaint>,
    process: Processes,
}

impl Fork {
    /// Forks a process that runs `body`. An error names it by the first argument.
    pub(crate) fn start<T>(
        role: &str,
        body: impl FnOnce() -> io::Result<T>,
    ) -> Result<Self, Failure> {
        let complaint = ForkShared::<Complaint>::new(1)?;
        let mut process = Processes::default();
        let pid = process.fork(|| complaint[0].note(body()));
        let pid = pid.or_limit(format_args!("cannot start {role}"))?;
        Ok(Self { pid, complaint, process })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// CPU time that the process has used, in user space and in the kernel.
    pub(crate) fn cpu_ns(&self) -> u64 {
        clock::cpu_ns_of_process(self.pid).unwrap_or_default()
    }

    /// The error with which the process ended, if any.
    pub(crate) fn complaint(&self) -> Option<io::Error> {
        self.complaint[0].get()
    }

    /// Returns the error that the process reported, which is the cause of `failure`, or `failure`
    /// if it reported none. The last argument names the process.
    pub(crate) fn explain(&self, failure: Failure, role: &str) -> Failure {
        let Some(error) = self.complaint() else { return failure };
        let line = format!("{role} ended: {error}");
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Failure::Limit(line),
            _ => Failure::Broken(line),
        }
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.process.next_end().map(drop)
    }
}

/// Body of the child.
fn run(body: impl FnOnce() -> bool) -> ! {
    /// Ends the process during an unwind, which would otherwise continue in a copy of the parent's
    /// frames.
    struct ExitOnUnwind;
    impl Drop for ExitOnUnwind {
        fn drop(&mut self) {
            process::exit(101);
        }
    }
    let _end = ExitOnUnwind;
    process::exit(if body() { 0 } else { 1 })
}

fn kill_and_reap(pid: libc::pid_t) {
    // SAFETY: no memory is passed. The child has not been waited for, so its id has not been
    // reused.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let _ = wait(pid);
}

fn wait(pid: libc::pid_t) -> io::Result<ExitStatus> {
    let ended = process::wait(Some(pid as u32));
    ended.map(|(_, status)| status).ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))
}

fn readable(end: &PidFd) -> libc::pollfd {
    libc::pollfd { fd: end.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until `process` has ended, for `longest` at most. Returns true if it has.
///
/// # Errors
/// Returns the error of `poll`.
pub(crate) fn ends_within(process: &PidFd, longest: Duration) -> io::Result<bool> {
    let mut end = [readable(process)];
    poll(&mut end, Some(longest))?;
    Ok(end[0].revents != 0)
}

/// Waits until an entry is ready; without `longest`, for ever.
fn poll(ends: &mut [libc::pollfd], longest: Option<Duration>) -> io::Result<()> {
    let longest = longest.map_or(-1, |time| time.as_millis().try_into().unwrap_or(i32::MAX));
    let count = ends.len() as libc::nfds_t;
    // SAFETY: the entries are valid for reads and writes, and their number is passed.
    again(|| unsafe { libc::poll(ends.as_mut_ptr(), count, longest) }).map(drop)
}

/// Repeats a system call until no signal handler interrupts it. Returns its result.
pub(crate) fn again(mut call: impl FnMut() -> i32) -> io::Result<i32> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::atomic::{AtomicI32, Ordering};

    use daiko_sys::futex;

    use super::super::shared::*;
    use super::*;

    /// A process id, published by the process itself.
    #[derive(Default)]
    struct Pid(AtomicI32);

    // SAFETY: an atomic number, for which zero is a valid value.
    unsafe impl Zeroed for Pid {}

    fn sleep_for_ever() -> ! {
        loop {
            // SAFETY: the call takes no arguments.
            unsafe { libc::pause() };
        }
    }

    #[test]
    fn ends_are_told_in_the_order_of_their_happening() {
        let mut processes = Processes::default();
        processes.fork(|| sleep_for_ever()).unwrap();
        processes.fork(|| false).unwrap();
        let (index, status) = processes.next_end().unwrap().expect("one has ended");
        assert_eq!((index, status.code()), (1, Some(1)));
        // SAFETY: no memory is passed; the child has not been waited for.
        unsafe { libc::kill(processes.0[0].pid, libc::SIGKILL) };
        let (index, status) = processes.next_end().unwrap().expect("the other has ended");
        assert_eq!((index, status.signal()), (0, Some(libc::SIGKILL)));
        assert!(processes.next_end().unwrap().is_none());
    }

    #[test]
    fn a_child_that_panics_runs_nothing_of_its_parents() {
        let mut processes = Processes::default();
        processes.fork(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        let (_, status) = processes.next_end().unwrap().expect("it has ended");
        assert_eq!(status.code(), Some(101));
    }

    #[test]
    fn a_signal_reaches_the_first_process() {
        let mut processes = Processes::default();
        processes.fork(|| sleep_for_ever()).unwrap();
        assert!(!processes.first_ends_within(Duration::ZERO).unwrap());
        processes.signal_first(libc::SIGKILL);
        assert!(processes.first_ends_within(Duration::MAX).unwrap());
        let (index, status) = processes.next_end().unwrap().expect("it has ended");
        assert_eq!((index, status.signal()), (0, Some(libc::SIGKILL)));
    }

    #[test]
    fn a_dropped_family_is_killed_and_reaped() {
        let mut processes = Processes::default();
        processes.fork(|| sleep_for_ever()).unwrap();
        let pid = processes.0[0].pid;
        drop(processes);
        // SAFETY: the call only asks for a status, of a process that is not a child of this one.
        let result = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        let error = io::Error::last_os_error();
        assert_eq!((result, error.raw_os_error()), (-1, Some(libc::ECHILD)));
    }

    #[test]
    fn children_end_with_a_parent_that_is_killed() {
        let grandchild = ForkShared::<Pid>::new(1).unwrap();
        let ready = ForkShared::<Word>::new(1).unwrap();
        let mut processes = Processes::default();
        processes.fork(|| parent_of(&grandchild[0], &ready[0])).unwrap();
        ready[0].wait_while(0);
        let pid = grandchild[0].0.load(Ordering::Relaxed);
        // The process exists as long as its parent does.
        let end = PidFd::open(pid as u32).unwrap();
        drop(processes);
        poll(&mut [readable(&end)], None).unwrap();
    }

    /// Forks a process that does not end by itself, and waits for it.
    fn parent_of(pid: &Pid, ready: &Word) -> bool {
        let mut processes = Processes::default();
        let forked = processes.fork(|| sleep_for_ever());
        // Relaxed: published by the word.
        pid.0.store(processes.0[0].pid, Ordering::Relaxed);
        ready.set(1);
        forked.is_ok() && processes.next_end().is_ok()
    }

    /// A word to wait for.
    #[derive(Default)]
    struct Word(std::sync::atomic::AtomicU32);

    // SAFETY: an atomic number, for which zero is a valid value.
    unsafe impl Zeroed for Word {}

    impl Word {
        fn set(&self, value: u32) {
            self.0.store(value, Ordering::SeqCst);
            futex::wake(&self.0, u32::MAX, futex::Scope::Shared);
        }

        fn wait_while(&self, value: u32) {
            while self.0.load(Ordering::SeqCst) == value {
                let _ = futex::wait(&self.0, value, None, futex::Scope::Shared);
            }
        }
    }
}
