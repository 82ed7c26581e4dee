//! Test helpers: running a part of a test in a forked process, and forbidding a system call.

#[path = "../../../tests/child.rs"]
pub(crate) mod child;
#[path = "../../../tests/real_time.rs"]
mod real_time;
#[path = "../../../tests/seccomp.rs"]
mod seccomp;

pub(crate) use child::emulated::LinuxPart;
pub(crate) use real_time::RealTime;
pub(crate) use seccomp::forbid;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body` in a forked process of one thread, which ends with it, and returns its id.
pub(crate) fn forked(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: glibc makes its allocator usable in the child, and the child leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: takes a plain integer. Ends the child if it waits in vain.
        unsafe { libc::alarm(60) };
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Err(panic) = &result {
            // The harness captures the output of the test's thread in this process's memory, which
            // is lost.
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied());
            let message = format!("in a child: {}\n", message.unwrap_or("a panic without words"));
            // SAFETY: the bytes are live.
            unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
        }
        // SAFETY: ends the child at once, without running destructors or exit handlers of the
        // parent.
        unsafe { libc::_exit(result.is_err().into()) };
    }
    assert!(child > 0);
    child
}

/// Waits for the end of the child and returns its wait status.
pub(crate) fn reap(child: libc::pid_t) -> libc::c_int {
    let mut status = -1;
    // SAFETY: the status is a live local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Runs `body` in a forked process and asserts that it succeeds.
#[track_caller]
pub(crate) fn in_fork(body: impl FnOnce()) {
    assert_eq!(reap(forked(body)), 0, "the child failed: see its message");
}
