//! A reference to a process that outlasts its pid.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::ProcessError;
use crate::thread::errno;

/// Refers to one process for ever, even after it has ended and its id was reused.
///
/// # Examples
///
/// ```
/// use daiko_sys::process::PidFd;
///
/// assert!(!PidFd::open(std::process::id())?.has_ended());
/// # Ok::<(), daiko_sys::process::ProcessError>(())
/// ```
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Refers to the process that has this id now. [`ProcessId::find`](super::ProcessId::find)
    /// makes sure that it is the intended process.
    ///
    /// # Errors
    ///
    /// [`ProcessError::NoSuchProcess`]; [`ProcessError::Unsupported`] before Linux 5.3.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let missing = ProcessError::NoSuchProcess { pid };
        let number = i32::try_from(pid).map_err(|_| missing)?;
        // SAFETY: this call takes plain integers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
        if descriptor >= 0 {
            // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
            return Ok(unsafe { Self::from_raw(descriptor as i32) });
        }
        match errno() {
            // ESRCH: the id is unused. EINVAL, ENOENT: it belongs to a thread that leads no
            // process.
            libc::ESRCH | libc::EINVAL | libc::ENOENT => Err(missing),
            errno => Err(ProcessError::diagnose(errno, "pidfd_open", "5.3")),
        }
    }

    /// # Safety
    ///
    /// The descriptor is a pidfd without another owner.
    pub(super) unsafe fn from_raw(descriptor: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Returns true if all threads of the process have ended. Its memory is gone then, and its file
    /// locks are free; its parent may not know yet.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the one entry is a live local.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{forked, reap};

    fn pause() {
        loop {
            std::thread::park();
        }
    }

    fn kill(pid: libc::pid_t, signal: libc::c_int) {
        // SAFETY: takes plain integers; the process is a child of the test that is not reaped yet.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Waits for this change of the child's state, and leaves it to be waited for again.
    fn wait_for(pid: libc::pid_t, change: libc::c_int) {
        // SAFETY: zero is a valid `siginfo_t`, and the result goes to a live local.
        unsafe {
            let mut info = std::mem::zeroed();
            let flags = change | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, pid as u32, &mut info, flags), 0);
        }
    }

    #[test]
    fn a_process_has_ended_when_killed_not_when_stopped() {
        let child = forked(pause);
        let held = PidFd::open(child as u32).unwrap();
        kill(child, libc::SIGSTOP);
        wait_for(child, libc::WSTOPPED);
        assert!(!held.has_ended(), "stopped");
        kill(child, libc::SIGKILL);
        wait_for(child, libc::WEXITED);
        assert!(held.has_ended(), "a zombie");
        assert!(PidFd::open(child as u32).unwrap().has_ended(), "a zombie has its id still");
        reap(child);
        assert!(held.has_ended(), "reaped");
        let pid = child as u32;
        assert_eq!(PidFd::open(pid).unwrap_err(), ProcessError::NoSuchProcess { pid });
    }

    #[test]
    fn a_pid_without_a_process_is_refused() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(crate::thread::id()).unwrap();
            let _ = ended.recv();
        });
        for pid in [0, u32::MAX, i32::MAX as u32, told.recv().unwrap()] {
            assert_eq!(PidFd::open(pid).unwrap_err(), ProcessError::NoSuchProcess { pid });
        }
        drop(end);
        thread.join().unwrap();
    }
}
