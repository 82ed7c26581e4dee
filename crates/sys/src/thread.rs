//! Kernel threads: identity, timer slack, what one of them is blocked in.

use std::fs::File;
use std::io::{self, Read, Write};

/// The calling thread's id in the kernel, as `/proc/self/task` lists it.
pub fn id() -> u32 {
    // SAFETY: `gettid` takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Lets the kernel delay the calling thread's timeouts by at most `slack_ns` (default 50,000; 0 restores it).
///
/// # Errors
///
/// What `prctl(PR_SET_TIMERSLACK)` reports.
pub fn set_timer_slack_ns(slack_ns: u32) -> io::Result<()> {
    // SAFETY: this `prctl` option takes one plain integer.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack_ns)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of the system call that waits on a futex, as [`blocked_syscall`] gives it.
pub const FUTEX: i64 = libc::SYS_futex;

/// The number of the system call that thread `id` of this process is blocked in.
///
/// `None` if it runs, has ended, or the kernel does not tell. Allocates nothing.
///
/// # Examples
///
/// ```
/// assert_eq!(daiko_sys::thread::blocked_syscall(u32::MAX), None, "no such thread");
/// ```
pub fn blocked_syscall(id: u32) -> Option<i64> {
    let mut path = [0; 48];
    let mut rest = &mut path[..];
    write!(rest, "/proc/self/task/{id}/syscall").ok()?;
    let free = rest.len();
    let path = str::from_utf8(&path[..path.len() - free]).ok()?;
    let mut text = [0; 256];
    let len = File::open(path).ok()?.read(&mut text).ok()?;
    parse_syscall(str::from_utf8(&text[..len]).ok()?)
}

/// A running thread reads `running`; one that is blocked outside of a system call reads -1.
#[doc(hidden)]
pub fn parse_syscall(text: &str) -> Option<i64> {
    let number: i64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (number >= 0).then_some(number)
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address is this thread's own errno, valid while it lives.
    unsafe { *libc::__errno_location() }
}

/// Whether the thread of this process with this id runs or waits for a CPU, not for anything else.
///
/// False also if there is no such thread.
pub fn is_runnable(thread: u32) -> bool {
    std::fs::read(format!("/proc/self/task/{thread}/stat")).is_ok_and(|stat| says_runnable(&stat))
}

/// The name, in parentheses, may be any bytes; the state is the letter behind it.
#[doc(hidden)]
pub fn says_runnable(stat: &[u8]) -> bool {
    stat.rsplit(|&byte| byte == b')').next().is_some_and(|rest| rest.starts_with(b" R"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::{self, Scope};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn threads_have_distinct_ids() {
        let other = std::thread::spawn(id).join().unwrap();
        assert_ne!(id(), other);
    }

    #[test]
    fn the_syscall_file_is_understood() {
        assert_eq!(parse_syscall("202 0x7f 0x0 0x7ffd 0x7f12\n"), Some(202));
        assert_eq!(parse_syscall("-1 0x7ffd 0x7f12\n"), None);
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall(""), None);
    }

    #[test]
    fn a_name_of_any_bytes_hides_no_state() {
        assert!(says_runnable(b"7 (x) S \xff) R 1 2\n"));
        assert!(!says_runnable(b"7 () R \xff) S 1 2\n"));
        assert!(!says_runnable(b""));
    }

    /// Calls `is_seen` with the id of a thread that is about to block in a futex, until it is true.
    fn until_blocked_in_a_futex(is_seen: impl Fn(u32) -> bool) {
        let (thread, word) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                thread.store(id(), Relaxed);
                while word.load(Relaxed) == 0 {
                    let _ = futex::wait(&word, 0, None, Scope::Private);
                }
            });
            while thread.load(Relaxed) == 0 || !is_seen(thread.load(Relaxed)) {
                std::thread::yield_now();
            }
            word.store(1, Relaxed);
            futex::wake(&word, 1, Scope::Private);
        });
    }

    #[test]
    fn a_thread_blocked_in_a_futex_is_seen() {
        if File::open("/proc/self/syscall").is_ok() {
            until_blocked_in_a_futex(|id| blocked_syscall(id) == Some(libc::SYS_futex));
        } else {
            println!("skipped: this kernel does not offer /proc/self/task/*/syscall");
        }
        assert_eq!(blocked_syscall(u32::MAX), None, "no such thread");
    }

    #[test]
    fn who_runs_is_runnable_and_who_waits_is_not() {
        assert!(is_runnable(id()));
        assert!(!is_runnable(u32::MAX), "no such thread");
        until_blocked_in_a_futex(|id| !is_runnable(id));
    }

    #[test]
    fn timer_slack_is_accepted() {
        set_timer_slack_ns(1).unwrap();
    }
}
