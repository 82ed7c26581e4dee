//! Signals to children, and their ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

use super::PidFd;
use crate::thread::errno;

/// Ends a process that neither handles nor blocks it.
pub const TERMINATE: i32 = libc::SIGTERM;
/// Ends any process.
pub const KILL: i32 = libc::SIGKILL;
/// Arrives when a child has ended or, if it is traced, stopped.
pub const CHILD_CHANGED: i32 = libc::SIGCHLD;

impl PidFd {
    /// Sends `signal` to the process.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the process has been waited for, `EPERM` if the caller lacks permission.
    pub fn send(&self, signal: i32) -> io::Result<()> {
        let descriptor = self.as_fd().as_raw_fd();
        let (info, flags) = (ptr::null::<libc::siginfo_t>(), 0);
        // SAFETY: the call takes plain integers and a null pointer.
        let sent =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, info, flags) };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Waits for the end of a child, or of any child if `child` is `None`. Returns its id, which may be
/// reused from then on, and its status; `None` if there is no such child.
pub fn wait(child: Option<u32>) -> Option<(u32, ExitStatus)> {
    wait_with(child, 0)
}

/// [`wait`] without blocking: `None` also if the child has not ended.
pub fn wait_now(child: Option<u32>) -> Option<(u32, ExitStatus)> {
    wait_with(child, libc::WNOHANG)
}

fn wait_with(child: Option<u32>, options: libc::c_int) -> Option<(u32, ExitStatus)> {
    let child = child.map_or(-1, |child| child as libc::pid_t);
    wait_status(child, options).map(|(ended, status)| (ended, ExitStatus::from_raw(status)))
}

/// Calls `waitpid`, again after an interruption. Returns the child's id and its status; `None`,
/// with `errno`, if there is no such child, or if there is no news and `options` forbid blocking.
pub(super) fn wait_status(child: libc::pid_t, options: libc::c_int) -> Option<(u32, libc::c_int)> {
    loop {
        let mut status = 0;
        // SAFETY: the status is a live local.
        match unsafe { libc::waitpid(child, &mut status, options) } {
            told @ 1.. => return Some((told as u32, status)),
            -1 if errno() == libc::EINTR => {}
            _ => return None,
        }
    }
}

/// Sends `signal` to a child that was not waited for, so that its id is not reused.
pub fn signal_child(child: u32, signal: i32) {
    // SAFETY: takes plain integers. Fails if the child has changed its user.
    unsafe { libc::kill(child as libc::pid_t, signal) };
}

/// Sends `signal` to the parent of this process, if the parent is in the same PID namespace.
pub fn signal_parent(signal: i32) {
    // SAFETY: both calls take plain integers at most. Fails if the parent is gone.
    unsafe { libc::kill(libc::getppid(), signal) };
}

/// Ends this process at once, without destructors and exit handlers.
pub fn exit(code: i32) -> ! {
    // SAFETY: `_exit` takes a plain integer.
    unsafe { libc::_exit(code) }
}

/// Signals that stay blocked, until dropped, for the calling thread to take them one by one.
pub struct Signals {
    set: libc::sigset_t,
    /// The previous action of each signal.
    before: Vec<(i32, libc::sigaction)>,
}

impl Signals {
    /// Blocks these signals. Meanwhile they have no handlers, and none is ignored.
    pub fn block(signals: &[i32]) -> Self {
        // SAFETY: zero is a valid set and a valid action, the default; all results go to live
        // locals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            let before = signals.iter().map(|&signal| {
                libc::sigaddset(&mut set, signal);
                let (default, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigaction(signal, &default, &mut before);
                (signal, before)
            });
            let before = before.collect();
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            Self { set, before }
        }
    }

    /// Waits for the next of these signals.
    pub fn next(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both are live.
        while unsafe { libc::sigwait(&self.set, &mut signal) } != 0 {}
        signal
    }

    /// Unblocks the signals for the calling thread and restores their actions, as dropping does. A
    /// child process may need that.
    pub fn unblock(&self) {
        // SAFETY: the set is live, and the actions were in force before.
        unsafe {
            for (signal, action) in &self.before {
                libc::sigaction(*signal, action, ptr::null_mut());
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.set, ptr::null_mut());
        }
    }
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let signals = self.before.iter().map(|(signal, _)| signal);
        f.debug_set().entries(signals).finish()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.unblock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{forked, in_fork};
    use crate::thread;

    #[test]
    fn a_child_is_waited_for_once() {
        in_fork(|| {
            let child = forked(|| exit(7)) as u32;
            let (ended, status) = wait(Some(child)).unwrap();
            assert_eq!((ended, status.code()), (child, Some(7)));
            assert!(wait(Some(child)).is_none() && wait(None).is_none());
        });
    }

    #[test]
    fn a_signal_reaches_the_process_that_is_held() {
        in_fork(|| {
            let child = forked(|| {
                loop {
                    std::thread::park();
                }
            }) as u32;
            assert!(wait_now(Some(child)).is_none(), "it runs");
            let held = PidFd::open(child).unwrap();
            held.send(KILL).unwrap();
            assert_eq!(wait(None).unwrap().1.signal(), Some(KILL));
            assert_eq!(held.send(KILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        });
    }

    #[test]
    fn signals_wait_until_they_are_asked_for() {
        in_fork(|| {
            let signals = Signals::block(&[TERMINATE, CHILD_CHANGED]);
            // SAFETY: takes plain integers.
            unsafe { libc::kill(thread::id() as i32, TERMINATE) };
            assert_eq!(signals.next(), TERMINATE);
            let child = forked(|| exit(0));
            assert_eq!(signals.next(), CHILD_CHANGED);
            assert_eq!(wait(None).unwrap().0, child as u32);
        });
    }

    #[test]
    fn handlers_are_back_once_signals_come_again() {
        use crate::atomic::{AtomicI32, Ordering};

        static SEEN: AtomicI32 = AtomicI32::new(0);
        extern "C" fn handler(signal: libc::c_int) {
            SEEN.store(signal, Ordering::Relaxed);
        }
        in_fork(|| {
            let handler = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the handler stores one word.
            unsafe { libc::signal(TERMINATE, handler) };
            let signals = Signals::block(&[TERMINATE]);
            // SAFETY: takes a plain integer.
            unsafe { libc::raise(TERMINATE) };
            assert_eq!(SEEN.load(Ordering::Relaxed), 0);
            drop(signals);
            assert_eq!(SEEN.load(Ordering::Relaxed), TERMINATE);
        });
    }
}
