//! Processes that exist before they become their programs.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::children::{exit, wait};
use crate::signal::restore_default;

const GO: u8 = 0;
const END: u8 = 1;

/// A process that waits to become a program. Dropping it ends the process without a program.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    /// Taken by `release`, so that `drop` finds nothing to do.
    say: Option<PipeWriter>,
    /// Carries the kernel's error; closed without a byte if the program runs.
    hear: PipeReader,
}

impl Held {
    /// Forks a process that is to become the program in the file `program`, with these arguments,
    /// of which the first is its name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a zero byte in a word; the errors of `pipe` and `fork`.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::process::{Held, wait};
    ///
    /// let held = Held::start("/bin/true".as_ref(), &["true".into()])?;
    /// let pid = held.release()?;
    /// assert!(wait(Some(pid)).unwrap().1.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(program: &Path, arguments: &[std::ffi::OsString]) -> io::Result<Self> {
        let program = CString::new(program.as_os_str().as_bytes())?;
        let arguments: Result<Vec<CString>, _> =
            arguments.iter().map(|word| CString::new(word.as_bytes())).collect();
        let arguments = arguments?;
        let mut words: Vec<_> = arguments.iter().map(|word| word.as_ptr()).collect();
        words.push(ptr::null());
        let (gate, say) = io::pipe()?;
        let (hear, tell) = io::pipe()?;
        // SAFETY: the child allocates nothing, takes no lock, and becomes another program or leaves
        // by `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop((say, hear));
                become_program(&program, &words, gate, tell)
            }
            pid => Ok(Self { pid: pid as u32, say: Some(say), hear }),
        }
    }

    /// The process id, which the program keeps.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the process become the program. Returns its id, to be waited for.
    ///
    /// # Errors
    ///
    /// The error of `execve`: then the process has ended and was waited for.
    pub fn release(mut self) -> io::Result<u32> {
        if let Some(mut say) = self.say.take() {
            // Fails if the process was killed, which its waiter will see.
            let _ = say.write_all(&[GO]);
        }
        let mut errno = [0; 4];
        match self.hear.read_exact(&mut errno) {
            // `execve` closes the descriptor.
            Err(_) => Ok(self.pid),
            Ok(()) => {
                wait(Some(self.pid));
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut say) = self.say.take() {
            // Closing the pipe is not enough: processes held later have inherited its end.
            let _ = say.write_all(&[END]);
            wait(Some(self.pid));
        }
    }
}

/// Returns true if the permissions allow this process to run the file as a program.
pub fn may_run(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a string.
    let is_allowed = unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0
    };
    is_allowed && file.is_file()
}

/// Runs in the child until the program starts. Allocates no memory, which is forbidden after a fork
/// from a process with several threads.
fn become_program(
    program: &CString,
    words: &[*const libc::c_char],
    mut gate: PipeReader,
    mut tell: PipeWriter,
) -> ! {
    let mut order = [END];
    if gate.read_exact(&mut order).is_err() || order != [GO] {
        exit(0);
    }
    // Rust ignores SIGPIPE, and a program inherits ignored signals.
    restore_default(libc::SIGPIPE);
    // SAFETY: the words are strings and end with a null.
    unsafe { libc::execv(program.as_ptr(), words.as_ptr()) };
    let _ = tell.write_all(&crate::thread::errno().to_ne_bytes());
    exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::PidFd;
    use crate::testing::in_fork;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;

    fn shell(script: &str) -> io::Result<Held> {
        Held::start("/bin/sh".as_ref(), &["sh".into(), "-c".into(), script.into()])
    }

    #[test]
    fn a_held_process_becomes_the_program_when_it_is_released() {
        let held = shell("exit 7").unwrap();
        let pid = held.pid();
        assert_eq!(held.release().unwrap(), pid);
        assert_eq!(wait(Some(pid)).unwrap().1.code(), Some(7));
    }

    #[test]
    fn a_dropped_child_ends_before_its_program_starts() {
        let (held, later) = (shell("kill -9 $$").unwrap(), shell("exit 3").unwrap());
        let end = PidFd::open(held.pid()).unwrap();
        assert!(!end.has_ended());
        drop(held);
        assert!(end.has_ended());
        let pid = later.release().unwrap();
        assert_eq!(wait(Some(pid)).unwrap().1.code(), Some(3), "not the other's affair");
    }

    /// SIGPIPE is ignored in this process, as in any Rust program.
    #[test]
    fn signals_that_rust_ignores_a_program_does_not() {
        let pid = shell("kill -PIPE $$; exit 3").unwrap().release().unwrap();
        assert_eq!(wait(Some(pid)).unwrap().1.signal(), Some(libc::SIGPIPE));
    }

    /// Owning the file gives no permission by itself: only the mode bits of the owner count.
    #[test]
    fn a_file_that_other_users_may_run_is_refused() {
        in_fork(|| {
            const UNPRIVILEGED: libc::c_long = 65534;
            // SAFETY: takes plain integers. Fails and changes nothing without root.
            unsafe { libc::syscall(libc::SYS_setresuid, UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) };
            let file = tempfile::NamedTempFile::new().unwrap();
            let has_mode = |mode| {
                fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
                may_run(file.path())
            };
            assert!(has_mode(0o700) && !has_mode(0o011) && !has_mode(0o600));
        });
        assert!(!may_run("/".as_ref()) && !may_run("/nowhere".as_ref()));
        assert!(may_run("/bin/sh".as_ref()));
    }

    #[test]
    fn the_kernels_refusal_is_told() {
        let held = Held::start("/".as_ref(), &["/".into()]).unwrap();
        let pid = held.pid();
        assert_eq!(held.release().unwrap_err().raw_os_error(), Some(libc::EACCES));
        assert!(wait(Some(pid)).is_none(), "it was waited for");
        let error = Held::start("/bin/true".as_ref(), &["a\0b".into()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
