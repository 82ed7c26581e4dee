//! Sleeping on a word in memory until another thread wakes the sleeper.

mod any;

use std::ptr;

pub use crate::Scope;
pub use any::{MOST_WORDS, WaitAny, wait_any};

use crate::arch;
use crate::atomic::AtomicU32;

/// Reason for the return of [`wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum WaitEnd {
    /// A [`wake`] chose this thread.
    Woken,
    /// The word did not hold the expected value, so the thread did not sleep; or the word lies in a
    /// shared file that was truncated, so that the word is gone.
    Changed,
    /// The time has come.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, at most until `due_ns`, a time of
/// [`monotonic_ns`](crate::clock::monotonic_ns).
///
/// A point in time, since a signal handler ends the wait: a caller that waits again does not begin
/// the time anew.
///
/// The comparison and the decision to sleep are one step with respect to [`wake`]. A return proves
/// nothing about the word: read it again.
///
/// # Examples
///
/// ```
/// use daiko_sys::futex::{self, Scope, WaitEnd};
/// use std::sync::atomic::AtomicU32;
///
/// let word = AtomicU32::new(1);
/// assert_eq!(futex::wait(&word, 0, None, Scope::Private), WaitEnd::Changed);
/// ```
pub fn wait(word: &AtomicU32, expected: u32, due_ns: Option<u64>, scope: Scope) -> WaitEnd {
    let due = due_ns.map(timespec);
    let due = due.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is a live, aligned u32, and the time is null or points to a local that
    // outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            // Unlike `FUTEX_WAIT`, it takes a point in time.
            operation(libc::FUTEX_WAIT_BITSET, scope),
            expected,
            due,
            ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result == 0 {
        return WaitEnd::Woken;
    }
    match crate::thread::errno() {
        libc::EAGAIN => WaitEnd::Changed,
        libc::ETIMEDOUT => WaitEnd::TimedOut,
        libc::EINTR => WaitEnd::Interrupted,
        libc::EFAULT if may_be_gone([scope]) => WaitEnd::Changed,
        other => unreachable!("futex wait on a valid word failed with errno {other}"),
    }
}

/// [`wait`] that signal handlers do not end.
pub fn wait_through_signals(
    word: &AtomicU32,
    expected: u32,
    due_ns: Option<u64>,
    scope: Scope,
) -> WaitEnd {
    loop {
        match wait(word, expected, due_ns, scope) {
            WaitEnd::Interrupted => {}
            end => return end,
        }
    }
}

/// Sleeps while `word` holds `expected`, and touches no thread-local storage, `errno` included:
/// another context may be using the caller's. Only threads of this process wake it.
///
/// A return proves nothing about the word: read it again.
pub fn wait_without_thread_locals(word: &AtomicU32, expected: u32) {
    let operation = operation(libc::FUTEX_WAIT, Scope::Private) as usize;
    let arguments = [word.as_ptr().expose_provenance(), operation, expected as usize, 0];
    // SAFETY: the word is a live, aligned u32, and the null pointer means that there is no timeout.
    unsafe { arch::system_call(libc::SYS_futex, arguments) };
}

/// Wakes at most `count` threads that sleep on `word` and returns their number.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> usize {
    wake_addr(word, count, scope)
}

/// [`wake`] for a word that may be gone by now, since a sleeper may have seen the caller's store
/// and freed the word. The call then wakes no thread, or a thread that looks again and sleeps on.
pub fn wake_addr(word: *const AtomicU32, count: u32, scope: Scope) -> usize {
    let count = count.min(i32::MAX as u32);
    // SAFETY: the kernel uses the address as a key only.
    let woken = unsafe {
        libc::syscall(libc::SYS_futex, word.addr(), operation(libc::FUTEX_WAKE, scope), count)
    };
    // An address that is not mapped any more is an error and has no sleepers.
    usize::try_from(woken).unwrap_or(0)
}

/// Returns true if a word of one of these scopes may have no memory although it is borrowed,
/// because another process can truncate the file below it. The next reader faults or finds the
/// replacement.
fn may_be_gone(scopes: impl IntoIterator<Item = Scope>) -> bool {
    scopes.into_iter().any(|scope| scope == Scope::Shared)
}

fn operation(base: libc::c_int, scope: Scope) -> libc::c_int {
    match scope {
        Scope::Private => base | libc::FUTEX_PRIVATE_FLAG,
        Scope::Shared => base,
    }
}

fn timespec(ns: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    // Both fit: the seconds are at most a billionth of the largest `u64`.
    libc::timespec { tv_sec: (ns / SECOND) as libc::time_t, tv_nsec: (ns % SECOND) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::file::{Populate, SharedFile};
    use crate::memory::Mapping;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::thread;

    use crate::atomic::Ordering::Relaxed;

    #[test]
    fn a_word_that_differs_is_not_waited_for() {
        let word = AtomicU32::new(7);
        for scope in [Scope::Private, Scope::Shared] {
            assert_eq!(wait(&word, 8, None, scope), WaitEnd::Changed);
        }
    }

    #[test]
    fn a_wait_without_thread_locals_is_woken_and_leaves_errno_alone() {
        let errno = || std::io::Error::last_os_error().raw_os_error();
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 8, None, Scope::Private), WaitEnd::Changed);
        let before = errno();
        // SAFETY: an address of the calling thread's own.
        unsafe { *libc::__errno_location() = libc::EXDEV };
        wait_without_thread_locals(&word, 8);
        assert_eq!((before, errno()), (Some(libc::EAGAIN), Some(libc::EXDEV)));
        thread::scope(|s| {
            s.spawn(|| {
                while word.load(Relaxed) == 7 {
                    wait_without_thread_locals(&word, 7);
                }
            });
            while wake(&word, 1, Scope::Private) == 0 {
                thread::yield_now();
            }
            word.store(8, Relaxed);
            wake(&word, 1, Scope::Private);
        });
    }

    #[test]
    fn an_unmapped_address_wakes_no_thread() {
        for scope in [Scope::Private, Scope::Shared] {
            assert_eq!(wake_addr(std::ptr::without_provenance(8), 1, scope), 0);
        }
    }

    #[test]
    fn a_word_of_a_truncated_file_is_not_waited_for() {
        let name = format!("daiko-futex-{}", std::process::id());
        let mut file = SharedFile::create(name, 4096).unwrap();
        let page = file.map(Populate::Now).unwrap();
        // SAFETY: the page is mapped and aligned; the word is not read from here on.
        let word = unsafe { AtomicU32::from_ptr(page.start().as_ptr().cast()) };
        File::from(file.as_fd().try_clone_to_owned().unwrap()).set_len(0).unwrap();
        assert_eq!(wait(word, 0, None, Scope::Shared), WaitEnd::Changed);
        let any = wait_any(&[(word, 0, Scope::Shared)], None);
        assert!(matches!(any, None | Some(WaitAny::Changed)));
        assert!(file.lock().unwrap().remove().unwrap());
    }

    #[test]
    fn an_unwoken_wait_times_out() {
        let word = AtomicU32::new(0);
        for due in [0, monotonic_ns() + 1_000_000] {
            assert_eq!(wait(&word, 0, Some(due), Scope::Private), WaitEnd::TimedOut);
        }
    }

    #[test]
    fn a_sleeper_is_woken_and_counted() {
        for scope in [Scope::Private, Scope::Shared] {
            let word = AtomicU32::new(0);
            thread::scope(|s| {
                let sleeper = s.spawn(|| wait(&word, 0, Some(u64::MAX), scope));
                while wake(&word, 1, scope) == 0 {
                    thread::yield_now();
                }
                assert_eq!(sleeper.join().unwrap(), WaitEnd::Woken);
            });
            assert_eq!(wake(&word, u32::MAX, scope), 0);
        }
    }

    #[test]
    fn a_shared_wake_crosses_processes() {
        let page = Mapping::new(4096, Scope::Shared).unwrap();
        // SAFETY: the page is mapped, zeroed, aligned, and only accessed as this atomic.
        let word = unsafe { AtomicU32::from_ptr(page.start().as_ptr().cast()) };
        // SAFETY: the child makes system calls only, then leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            while word.load(Relaxed) == 0 {
                let _ = wait(word, 0, None, Scope::Shared);
            }
            // SAFETY: ends the child at once, without running destructors or exit handlers of the
            // parent.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0);
        while wake(word, 1, Scope::Shared) == 0 {
            thread::yield_now();
        }
        word.store(1, Relaxed);
        let mut status = -1;
        while {
            wake(word, 1, Scope::Shared);
            // SAFETY: the status is a live local.
            unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) == 0 }
        } {
            thread::yield_now();
        }
        assert_eq!(status, 0);
    }
}
