//! Which limit of the system forbids more threads.

use std::{fs, path::Path};

/// A limit on the threads that can be created.
struct Limit {
    name: &'static str,
    value: u64,
    /// How many of its units a thread takes.
    per_thread: u64,
    remedy: &'static str,
}

/// One line for thread `made` of `threads` that could not be created.
pub(super) fn explain(made: usize, threads: usize, error: &std::io::Error) -> String {
    let lowest = limits().into_iter().min_by_key(|limit| limit.value / limit.per_thread);
    let hint = lowest.map_or_else(String::new, |Limit { name, value, remedy, .. }| {
        format!("; the lowest limit is {name} = {value}: {remedy}, or ask for fewer threads")
    });
    format!("thread {} of {threads} could not be created ({error}){hint}", made + 1)
}

fn limits() -> Vec<Limit> {
    let limit = |name, value: Option<u64>, per_thread, remedy| {
        value.map(|value| Limit { name, value, per_thread, remedy })
    };
    [
        limit("RLIMIT_NPROC", nproc(), 1, "raise it by `ulimit -u`"),
        limit("pids.max of the cgroup", pids_max(), 1, "raise the container's pids limit"),
        limit(
            "kernel.threads-max",
            number("/proc/sys/kernel/threads-max"),
            1,
            "raise it by sysctl",
        ),
        limit("kernel.pid_max", number("/proc/sys/kernel/pid_max"), 1, "raise it by sysctl"),
        // A stack and an alternate signal stack, each with its guard.
        limit("vm.max_map_count", number("/proc/sys/vm/max_map_count"), 4, "raise it by sysctl"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn nproc() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The lowest `pids.max` from the process's cgroup (v2) up to the root.
fn pids_max() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let root = Path::new("/sys/fs/cgroup");
    let leaf = root.join(group);
    let above = leaf.ancestors().take_while(|path| path.starts_with(root));
    above.filter_map(|path| number(path.join("pids.max"))).min()
}

/// The number in a file; `None` for "max" too.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_limit_in_one_line() {
        let error = std::io::Error::from_raw_os_error(libc::EAGAIN);
        let line = explain(41, 100, &error);
        assert!(line.starts_with("thread 42 of 100 could not be created"), "{line}");
        assert!(line.contains("the lowest limit is "), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
