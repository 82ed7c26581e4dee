//! Another process, with all of its threads stopped.

use std::collections::BTreeMap;
use std::{fs, io, ptr};

use crate::thread::errno;

/// Most looks for threads that were started while others were stopped.
const LOOKS: u32 = 100;

/// A set of registers, by the type of the note that a core file has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterSet {
    /// The general registers (`NT_PRSTATUS`).
    General,
    /// Those of floating point (`NT_PRFPREG`).
    Floating,
    /// All that `XSAVE` saves (`NT_X86_XSTATE`).
    Extended,
}

impl RegisterSet {
    /// Returns the type of the note.
    pub fn note(self) -> u32 {
        match self {
            RegisterSet::General => 1,
            RegisterSet::Floating => 2,
            RegisterSet::Extended => 0x202,
        }
    }

    /// Most bytes of a set.
    fn most(self) -> usize {
        match self {
            RegisterSet::General => 27 * 8,
            RegisterSet::Floating => 512,
            RegisterSet::Extended => 16 << 10,
        }
    }
}

/// A process with all of its threads stopped, as a debugger does it. The threads go on when it is
/// dropped, or when the caller ends.
///
/// The calling thread alone may use it.
#[derive(Debug)]
pub struct StoppedProcess {
    /// The threads; true for one that has stopped.
    threads: BTreeMap<u32, bool>,
    _one_thread: std::marker::PhantomData<*const ()>,
}

impl StoppedProcess {
    /// Stops all threads of the process, which is not the caller's own.
    ///
    /// # Errors
    ///
    /// The error of `ptrace`(2): `EPERM` if the caller may not trace the process, or another one
    /// does; `ESRCH` if there is no such process.
    pub fn stop(process: u32) -> io::Result<Self> {
        let mut stopped =
            StoppedProcess { threads: BTreeMap::new(), _one_thread: std::marker::PhantomData };
        for _ in 0..LOOKS {
            let mut has_more = false;
            for entry in fs::read_dir(format!("/proc/{process}/task"))? {
                let id = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                if let Some(id) = id.filter(|id| !stopped.threads.contains_key(id)) {
                    has_more |= stopped.seize(id, process)?;
                }
            }
            stopped.await_stops();
            if !has_more {
                return Ok(stopped);
            }
        }
        Err(io::Error::other("it starts threads faster than they can be stopped"))
    }

    /// Asks a thread to stop. Returns false if it has ended meanwhile.
    fn seize(&mut self, thread: u32, process: u32) -> io::Result<bool> {
        for (request, data) in [(libc::PTRACE_SEIZE, 0), (libc::PTRACE_INTERRUPT, 0)] {
            if let Err(error) = trace(request, thread, 0, data) {
                let is_gone = error.raw_os_error() == Some(libc::ESRCH) && thread != process;
                return if is_gone { Ok(false) } else { Err(error) };
            }
            self.threads.insert(thread, false);
        }
        Ok(true)
    }

    /// Waits until each thread has stopped or ended.
    fn await_stops(&mut self) {
        self.threads.retain(|&thread, has_stopped| {
            let mut status = 0;
            while !*has_stopped {
                // SAFETY: a thread that the caller traces; writes the live local.
                let waited = unsafe { libc::waitpid(thread as i32, &raw mut status, libc::__WALL) };
                match waited {
                    -1 if errno() == libc::EINTR => {}
                    -1 => return false,
                    _ if !libc::WIFSTOPPED(status) => return false,
                    _ => *has_stopped = true,
                }
            }
            true
        });
    }

    /// Returns the ids of the threads.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// Returns a set of registers of a thread; `None`: it has ended, or there is no such set.
    pub fn registers(&self, thread: u32, set: RegisterSet) -> Option<Vec<u8>> {
        let mut bytes = vec![0_u8; set.most()];
        let mut range = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let note = set.note() as usize;
        trace(libc::PTRACE_GETREGSET, thread, note, (&raw mut range).expose_provenance()).ok()?;
        bytes.truncate(range.iov_len);
        Some(bytes)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        for thread in self.threads.keys() {
            // A thread that is killed meanwhile has gone.
            let _ = trace(libc::PTRACE_DETACH, *thread, 0, 0);
        }
    }
}

fn trace(request: libc::c_uint, thread: u32, address: usize, data: usize) -> io::Result<()> {
    let address = ptr::without_provenance_mut::<libc::c_void>(address);
    let data = ptr::with_exposed_provenance_mut::<libc::c_void>(data);
    // SAFETY: of the requests above only that for registers writes memory: to the range that `data`
    // describes, which is live.
    let done = unsafe { libc::ptrace(request, thread as libc::pid_t, address, data) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::LinuxPart;

    #[test]
    fn a_process_stops_and_goes_on() {
        if LinuxPart::Tracing.is_lacking() {
            return;
        }
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stopped = StoppedProcess::stop(child.id()).unwrap();
        assert_eq!(stopped.threads().collect::<Vec<_>>(), [child.id()]);
        let state = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        assert_eq!(state(), 't');
        let general = stopped.registers(child.id(), RegisterSet::General).unwrap();
        assert_eq!(general.len(), size_of::<libc::user_regs_struct>());
        assert!(stopped.registers(child.id(), RegisterSet::Floating).is_some());
        drop(stopped);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let error = StoppedProcess::stop(i32::MAX as u32).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
