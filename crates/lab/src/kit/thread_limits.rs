//! The system limit that forbids more threads.

use std::io;

use super::failure::{Failure, Skip};
use daiko_sys::limits::{Resource, cgroup_pids, max_map_count, rlimit, threads_max};

/// Largest number of kernel threads. Beyond it, the limits of the machine would be measured.
pub(crate) const MOST: usize = 10_000;

/// Tests that so many kernel threads are measured.
pub(crate) fn check(threads: usize) -> Result<(), Skip> {
    if threads > MOST {
        return Err(Skip::new(format!("kernel threads are measured up to {MOST}")));
    }
    Ok(())
}

/// A limit on the number of threads.
struct Limit {
    name: &'static str,
    value: u64,
    /// Units of the limit that a thread takes.
    per_thread: u64,
    remedy: &'static str,
}

/// Failure to create thread `made` of `threads`.
pub(crate) fn refused(made: usize, threads: usize, error: &io::Error) -> Failure {
    let lowest = limits().min_by_key(|limit| limit.value / limit.per_thread);
    let hint = lowest.map_or_else(String::new, |Limit { name, value, remedy, .. }| {
        format!("; the lowest limit is {name} = {value}: {remedy}, or ask for fewer threads")
    });
    let made = made + 1;
    Failure::Limit(format!("thread {made} of {threads} could not be created ({error}){hint}"))
}

fn limits() -> impl Iterator<Item = Limit> {
    let limit = |name, value: Option<u64>, per_thread, remedy| {
        value.map(|value| Limit { name, value, per_thread, remedy })
    };
    let sysctl = "raise it by sysctl";
    // A stack and an alternate signal stack, each with its guard.
    let mappings = 4;
    [
        limit("RLIMIT_NPROC", rlimit(Resource::Threads), 1, "raise it by `ulimit -u`"),
        limit("the cgroup's pids.max", cgroup_pids(), 1, "raise the container's pids limit"),
        limit("kernel.threads-max", threads_max(), 1, sysctl),
        limit("vm.max_map_count", max_map_count(), mappings, sysctl),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_limit_in_one_line() {
        let line = refused(41, 100, &io::Error::from_raw_os_error(libc::EAGAIN)).to_string();
        assert!(line.starts_with("thread 42 of 100 could not be created"), "{line}");
        assert!(line.contains("the lowest limit is "), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
