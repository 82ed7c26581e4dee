//! Forked processes that may share their descriptors.
//!
//! `fork` of the C library cannot share the table of open files, so the kernel is called directly.
//! The duties of the library's wrapper for the calling thread are done here: it updates the
//! library's copy of the thread id (which `abort` and mutexes that record their owner use) and the
//! list of robust mutexes. The library's locks are free, because there is one thread only.
//! `pthread_atfork` handlers do not run.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

use super::children::wait_status;
use super::{PidFd, ProcessError};
use crate::arch;
use crate::thread::errno;

/// Returns true if this process has one thread. Also false if `/proc` cannot be read, and for a
/// moment after another thread was joined.
///
/// # Examples
///
/// ```
/// std::thread::scope(|s| {
///     let running = s.spawn(|| assert!(!daiko_sys::process::is_single_threaded()));
///     running.join().unwrap();
/// });
/// ```
pub fn is_single_threaded() -> bool {
    crate::thread::all().is_ok_and(|threads| threads.len() == 1)
}

/// The table of open files of two processes: one for both, or one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// A descriptor that one process opens or closes is open or closed in the other as well, until
    /// one of them calls `exec`.
    Shared,
    /// The child begins with a copy.
    Copied,
}

/// The process in which [`clone_process`] returned.
#[derive(Debug)]
#[must_use]
pub enum Forked {
    /// The caller, which may wait for the child.
    Parent(Child),
    /// The new process.
    Child,
}

/// A process that [`clone_process`] created. If it is dropped without a wait, the ended process
/// stays a zombie as long as its parent lives.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    held: PidFd,
}

impl Child {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The pidfd, which tells if the child has ended.
    pub fn held(&self) -> &PidFd {
        &self.held
    }

    /// Returns the pidfd. The child still has to be waited for by its id.
    pub fn into_held(self) -> PidFd {
        self.held
    }

    /// Waits for the end of the child and returns its status.
    ///
    /// # Errors
    ///
    /// `ECHILD` if it was waited for elsewhere, or SIGCHLD is ignored.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let told = wait_status(self.pid as libc::pid_t, 0).ok_or_else(io::Error::last_os_error)?;
        Ok(ExitStatus::from_raw(told.1))
    }
}

/// Forks this process, which has one thread.
///
/// # Errors
///
/// [`ProcessError::Threads`] if there are more threads, [`ProcessError::ThreadId`] with a C library
/// other than glibc or a kernel without `CONFIG_CHECKPOINT_RESTORE`, [`ProcessError::Processes`],
/// [`ProcessError::Files`]; [`ProcessError::Unsupported`] before Linux 5.2.
///
/// # Safety
///
/// - If files are [`Files::Shared`], no descriptor that is open at the call is closed by both
///   processes: a value that owns one is dropped in only one of them.
/// - No code relies on handlers of `pthread_atfork` being run.
/// - Buffered output is flushed before, or it is written twice.
pub unsafe fn clone_process(files: Files) -> Result<Forked, ProcessError> {
    if !is_single_threaded() {
        return Err(ProcessError::Threads);
    }
    let thread_id = thread_id_address()?;
    let robust = RobustList::of_this_thread();
    let sharing = match files {
        Files::Shared => libc::CLONE_FILES,
        Files::Copied => 0,
    };
    let mut held = -1;
    // SAFETY: the address is that of the C library's own copy of the id, which is to change in the
    // child; the caller answers for all other shared state.
    match unsafe { clone(sharing, &mut held, thread_id) } {
        0 => {
            robust.register();
            Ok(Forked::Child)
        }
        pid @ 1.. => {
            // SAFETY: the kernel has just opened the pidfd, and nothing else owns it.
            let held = unsafe { PidFd::from_raw(held) };
            Ok(Forked::Parent(Child { pid: pid as u32, held }))
        }
        _ => Err(match errno() {
            libc::EAGAIN => ProcessError::Processes,
            errno => ProcessError::diagnose(errno, "clone", "5.2"),
        }),
    }
}

/// # Safety
///
/// The conditions of [`clone_process`]; `thread_id` is the address of the C library's copy of this
/// thread's id.
unsafe fn clone(files: libc::c_int, held: *mut i32, thread_id: *mut i32) -> libc::c_long {
    let flags = files
        | libc::CLONE_PIDFD
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_CHILD_CLEARTID
        | libc::SIGCHLD;
    let stack = ptr::null_mut::<u8>();
    let [fourth, fifth] = arch::clone_arguments(thread_id.expose_provenance(), 0);
    // SAFETY: without a stack of its own the child continues here, on a copy of this one. Both
    // results go to live words.
    unsafe { libc::syscall(libc::SYS_clone, flags, stack, held, fourth, fifth) }
}

/// The address of the C library's copy of this thread's id: glibc has the kernel clear that word at
/// the thread's end.
fn thread_id_address() -> Result<*mut i32, ProcessError> {
    let mut address: *mut i32 = ptr::null_mut();
    // SAFETY: this option stores one address to a live local. A non-null address is a word that the
    // kernel is going to write to, so it can be read. Other libraries keep another value there.
    unsafe {
        let told = libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) == 0;
        let is_id = told && !address.is_null() && address.read() == libc::gettid();
        is_id.then_some(address).ok_or(ProcessError::ThreadId)
    }
}

/// The list of robust mutexes that the kernel walks when a thread dies. The kernel does not copy
/// the registration to a forked child.
struct RobustList {
    head: *mut u8,
    len: usize,
}

impl RobustList {
    fn of_this_thread() -> Self {
        let mut list = Self { head: ptr::null_mut(), len: 0 };
        // SAFETY: both results go to live locals, which stay null if the call is refused.
        unsafe {
            libc::syscall(libc::SYS_get_robust_list, 0, &raw mut list.head, &raw mut list.len)
        };
        list
    }

    fn register(&self) {
        // SAFETY: the child has a copy of the same list at the same place; the kernel releases only
        // locks that contain the dying thread's own id.
        unsafe { libc::syscall(libc::SYS_set_robust_list, self.head, self.len) };
    }
}

/// Makes the kernel kill this process as soon as the thread that forked it ends, or now if `parent`
/// has already ended.
///
/// `parent` is the process that forked this one, in the same PID namespace.
///
/// # Errors
///
/// The error of `prctl` if a filter refuses it.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: this option takes one plain integer.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Checked after the signal is armed: either the signal or this check catches a parent that ends
    // in between.
    if std::os::unix::process::parent_id() != parent {
        // SAFETY: takes plain integers and ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use crate::memory::{Mapping, page_size};
    use crate::testing::{LinuxPart, forked, in_fork, reap};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{FromRawFd, IntoRawFd};

    use crate::atomic::{AtomicI32, Ordering::SeqCst};

    /// A word that forked processes share.
    fn shared_word(page: &Mapping) -> &AtomicI32 {
        // SAFETY: the page is mapped, zeroed, aligned, and only accessed as this atomic.
        unsafe { AtomicI32::from_ptr(page.start().as_ptr().cast()) }
    }

    fn page() -> Mapping {
        Mapping::new(page_size(), Scope::Shared).unwrap()
    }

    /// Runs `body` in a cloned process, which ends with it.
    fn cloned(files: Files, body: impl FnOnce() -> i32) -> Child {
        // SAFETY: the child leaves by `_exit` and drops nothing of its parent's.
        match unsafe { clone_process(files) }.unwrap() {
            Forked::Parent(child) => child,
            // SAFETY: ends the child at once.
            Forked::Child => unsafe { libc::_exit(body()) },
        }
    }

    #[test]
    fn a_file_that_the_child_opens_is_open_in_the_parent_if_shared() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            for (files, is_seen) in [(Files::Shared, true), (Files::Copied, false)] {
                let page = page();
                let child = cloned(files, || {
                    let (read, mut write) = io::pipe().unwrap();
                    write.write_all(b"hop").unwrap();
                    shared_word(&page).store(read.into_raw_fd(), SeqCst);
                    std::mem::forget(write);
                    0
                });
                assert!(child.wait().unwrap().success());
                let number = shared_word(&page).load(SeqCst);
                // SAFETY: this command takes no further argument.
                let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
                assert_eq!(is_open, is_seen);
                if is_seen {
                    // SAFETY: the child left the descriptor to its parent.
                    let mut read = unsafe { File::from_raw_fd(number) };
                    let mut text = [0; 3];
                    read.read_exact(&mut text).unwrap();
                    assert_eq!(&text, b"hop");
                }
            }
        });
    }

    #[test]
    fn the_child_is_held_by_its_pidfd_and_waited_for() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            let child = cloned(Files::Shared, || {
                loop {
                    std::thread::park();
                }
            });
            assert!(!child.held().has_ended());
            // SAFETY: takes plain integers.
            unsafe { libc::kill(child.pid() as i32, libc::SIGKILL) };
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        });
    }

    /// Locks an error-checking mutex twice and releases it, in the child. The codes tell if the
    /// mutex knows its owner.
    fn owner_codes(mutex: *mut libc::pthread_mutex_t) -> [i32; 3] {
        // SAFETY: the mutex is initialised, and both processes have it at this address.
        unsafe {
            [
                libc::pthread_mutex_lock(mutex),
                libc::pthread_mutex_lock(mutex),
                libc::pthread_mutex_unlock(mutex),
            ]
        }
    }

    fn init(mutex: *mut libc::pthread_mutex_t, robust: bool) {
        // SAFETY: zero is a valid attribute to initialise, and the mutex lies in mapped memory
        // without another user.
        unsafe {
            let mut attribute = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attribute);
            libc::pthread_mutexattr_settype(&mut attribute, libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutexattr_setpshared(&mut attribute, libc::PTHREAD_PROCESS_SHARED);
            if robust {
                libc::pthread_mutexattr_setrobust(&mut attribute, libc::PTHREAD_MUTEX_ROBUST);
            }
            assert_eq!(libc::pthread_mutex_init(mutex, &attribute), 0);
        }
    }

    #[test]
    fn a_mutex_knows_that_the_child_is_not_its_parent() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            let page = page();
            let mutex: *mut libc::pthread_mutex_t = page.start().as_ptr().cast();
            init(mutex, false);
            let child =
                cloned(Files::Shared, || i32::from(owner_codes(mutex) != [0, libc::EDEADLK, 0]));
            assert!(child.wait().unwrap().success());
            // SAFETY: the mutex is initialised.
            assert_eq!(unsafe { libc::pthread_mutex_lock(mutex) }, 0);
            // SAFETY: as above; in the child it fails, as another process owns it.
            let unlock = || i32::from(unsafe { libc::pthread_mutex_unlock(mutex) } != libc::EPERM);
            assert!(cloned(Files::Shared, unlock).wait().unwrap().success());
            // SAFETY: as above.
            assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex) }, 0);
        });
    }

    #[test]
    fn a_robust_mutex_notices_the_death_of_the_child() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            let page = page();
            let mutex: *mut libc::pthread_mutex_t = page.start().as_ptr().cast();
            init(mutex, true);
            // SAFETY: the mutex is initialised.
            let lock = || unsafe { libc::pthread_mutex_lock(mutex) };
            assert!(cloned(Files::Shared, lock).wait().unwrap().success());
            assert_eq!(lock(), libc::EOWNERDEAD);
        });
    }

    #[test]
    fn an_abort_of_the_child_is_a_sigabrt_of_the_child() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            let child = cloned(Files::Shared, || std::process::abort());
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGABRT));
        });
    }

    #[test]
    fn a_child_has_working_threads() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            assert!(is_single_threaded());
            let child = cloned(Files::Shared, || {
                let other = std::thread::spawn(|| (is_single_threaded(), crate::thread::id()));
                let (single, id) = other.join().unwrap();
                i32::from(single || id == crate::thread::id())
            });
            assert!(child.wait().unwrap().success());
        });
    }

    #[test]
    fn a_process_of_several_threads_is_not_cloned() {
        std::thread::scope(|s| {
            let other = s.spawn(|| {
                // SAFETY: there is no child.
                unsafe { clone_process(Files::Copied) }.unwrap_err()
            });
            assert_eq!(other.join().unwrap(), ProcessError::Threads);
        });
    }

    /// Uses `alarm` to end the test if the child does not die.
    #[test]
    fn a_child_dies_with_its_parent() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        let page = page();
        let word = shared_word(&page);
        let parent = forked(|| {
            let parent = std::process::id();
            let child = cloned(Files::Copied, || {
                die_with_parent(parent).unwrap();
                word.store(1, SeqCst);
                loop {
                    std::thread::park();
                }
            });
            while word.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            word.store(child.pid() as i32, SeqCst);
            loop {
                std::thread::park();
            }
        });
        let child = loop {
            match word.load(SeqCst) {
                0 | 1 => std::thread::yield_now(),
                pid => break PidFd::open(pid as u32).unwrap(),
            }
        };
        assert!(!child.has_ended());
        // SAFETY: takes plain integers; the process is a child of the test that is not reaped yet.
        unsafe { libc::kill(parent, libc::SIGKILL) };
        reap(parent);
        while !child.has_ended() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_dies_at_once_if_its_parent_ended_before() {
        if LinuxPart::Clone.is_lacking() {
            return;
        }
        in_fork(|| {
            let own = std::process::id();
            let child = cloned(Files::Copied, || {
                let _ = die_with_parent(own + 1);
                0
            });
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
            let child = cloned(Files::Copied, || i32::from(die_with_parent(own).is_err()));
            assert!(child.wait().unwrap().success());
        });
    }
}
