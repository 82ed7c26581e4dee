//! Sleeping on several words at once.

use std::ptr;
use std::sync::OnceLock;

use super::{Scope, timespec};
use crate::atomic::AtomicU32;

/// Largest number of words that [`wait_any`] takes.
pub const MOST_WORDS: usize = libc::FUTEX_WAITV_MAX as usize;

/// Reason for the return of [`wait_any`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum WaitAny {
    /// A [`wake`](super::wake) of the word with this index chose this thread.
    Woken(usize),
    /// One of the words did not hold its expected value, so the thread did not sleep.
    Changed,
    /// The time has come.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while each word holds the value beside it, at most until `due_ns`. Returns `None` if the
/// kernel (before Linux 5.16) or a filter refuses, which is found out at the first use.
///
/// All other properties are those of [`wait`](super::wait).
///
/// # Examples
///
/// ```
/// use daiko_sys::futex::{Scope, WaitAny, wait_any};
/// use std::sync::atomic::AtomicU32;
///
/// let [one, two] = [1, 2].map(AtomicU32::new);
/// let words = [(&one, 1, Scope::Private), (&two, 1, Scope::Shared)];
/// assert!(matches!(wait_any(&words, None), None | Some(WaitAny::Changed)));
/// ```
///
/// # Panics
///
/// If there is no word, or more than [`MOST_WORDS`].
pub fn wait_any(words: &[(&AtomicU32, u32, Scope)], due_ns: Option<u64>) -> Option<WaitAny> {
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{} words to wait for", words.len());
    if !is_offered() {
        return None;
    }
    // SAFETY: zero is a valid `futex_waitv`.
    let mut entries: [libc::futex_waitv; MOST_WORDS] = unsafe { std::mem::zeroed() };
    for (entry, &(word, expected, scope)) in entries.iter_mut().zip(words) {
        entry.uaddr = word.as_ptr().expose_provenance() as u64;
        entry.val = expected.into();
        entry.flags = flags(scope) as u32;
    }
    let due = due_ns.map(timespec);
    let result = call(&entries[..words.len()], due.as_ref());
    if let Ok(index) = usize::try_from(result) {
        return Some(WaitAny::Woken(index));
    }
    match crate::thread::errno() {
        libc::EAGAIN => Some(WaitAny::Changed),
        libc::ETIMEDOUT => Some(WaitAny::TimedOut),
        libc::EINTR => Some(WaitAny::Interrupted),
        // A filter installed after the first use.
        libc::ENOSYS | libc::EPERM => None,
        libc::EFAULT if super::may_be_gone(words.iter().map(|word| word.2)) => {
            Some(WaitAny::Changed)
        }
        other => unreachable!("futex wait on valid words failed with errno {other}"),
    }
}

fn is_offered() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(probe)
}

/// Calls with no words, which a kernel that has the call reports as invalid.
fn probe() -> bool {
    call(&[], None) < 0 && crate::thread::errno() == libc::EINVAL
}

fn call(entries: &[libc::futex_waitv], due: Option<&libc::timespec>) -> libc::c_long {
    let due = due.map_or(ptr::null(), ptr::from_ref);
    let (first, count, clock) = (entries.as_ptr(), entries.len(), libc::CLOCK_MONOTONIC);
    // SAFETY: the entries and the time are live; the caller borrows the words in the entries.
    unsafe { libc::syscall(libc::SYS_futex_waitv, first, count, 0, due, clock) }
}

fn flags(scope: Scope) -> libc::c_int {
    match scope {
        Scope::Private => libc::FUTEX2_SIZE_U32 | libc::FUTEX2_PRIVATE,
        Scope::Shared => libc::FUTEX2_SIZE_U32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::futex::wake;
    use crate::testing::{LinuxPart, forbid, in_fork};
    use std::thread;

    fn skipped() -> bool {
        if !is_offered() {
            println!("skipped: this kernel or container refuses futex_waitv");
        }
        !is_offered()
    }

    #[test]
    fn each_of_the_words_wakes_and_is_named() {
        if skipped() {
            return;
        }
        let words: Vec<AtomicU32> = (0..MOST_WORDS as u32).map(AtomicU32::new).collect();
        for scope in [Scope::Private, Scope::Shared] {
            let waits: Vec<_> =
                words.iter().zip(0..).map(|(word, expected)| (word, expected, scope)).collect();
            let in_an_hour = monotonic_ns() + 3_600_000_000_000;
            for (index, due) in [(0, None), (1, Some(in_an_hour)), (MOST_WORDS - 1, Some(u64::MAX))]
            {
                thread::scope(|s| {
                    let sleeper = s.spawn(|| wait_any(&waits, due));
                    while wake(&words[index], 1, scope) == 0 && !sleeper.is_finished() {
                        thread::yield_now();
                    }
                    assert_eq!(sleeper.join().unwrap(), Some(WaitAny::Woken(index)));
                });
            }
            assert_eq!(wake(&words[0], 1, scope), 0);
        }
    }

    #[test]
    fn one_word_that_differs_is_enough() {
        if skipped() {
            return;
        }
        let words = [5, 6, 7].map(AtomicU32::new);
        for differing in 0..3 {
            let mut waits = [0, 1, 2].map(|i| (&words[i], 5 + i as u32, Scope::Private));
            waits[differing].1 = 9;
            assert_eq!(wait_any(&waits, None), Some(WaitAny::Changed));
        }
    }

    #[test]
    fn an_unwoken_wait_for_any_times_out() {
        if skipped() {
            return;
        }
        let word = AtomicU32::new(0);
        for due in [0, monotonic_ns() + 1_000_000] {
            let waits = [(&word, 0, Scope::Private), (&word, 0, Scope::Shared)];
            assert_eq!(wait_any(&waits, Some(due)), Some(WaitAny::TimedOut));
        }
    }

    #[test]
    fn a_refused_wait_is_reported_and_does_not_wait() {
        if LinuxPart::Filters.is_lacking() {
            return;
        }
        for errno in [libc::ENOSYS, libc::EPERM] {
            in_fork(|| {
                forbid(libc::SYS_futex_waitv, errno);
                assert!(!probe());
                let word = AtomicU32::new(0);
                assert_eq!(wait_any(&[(&word, 0, Scope::Private)], None), None);
            });
        }
    }

    #[test]
    #[should_panic(expected = "0 words")]
    fn waiting_for_nothing_is_refused() {
        let _ = wait_any(&[], None);
    }
}
