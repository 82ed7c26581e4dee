//! What this system grants: versions, kernel settings, resource limits, own memory use.

use std::ffi::CStr;
use std::fs;
use std::path::Path;

use crate::cgroup;

/// The kernel's release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    // SAFETY: `utsname` consists of character arrays, for which zero is valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the result goes to a live local, and `uname` ends every field with a zero byte.
    let release = unsafe {
        libc::uname(&mut name);
        CStr::from_ptr(name.release.as_ptr())
    };
    release.to_string_lossy().into_owned()
}

/// The version of the running glibc; `None` with another C library.
pub fn glibc_version() -> Option<&'static str> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: glibc returns a constant, zero-terminated string.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        version.to_str().ok()
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// `vm.max_map_count`: how many mappings a process may have.
pub fn max_map_count() -> Option<u64> {
    setting("/proc/sys/vm/max_map_count")
}

/// `vm.overcommit_memory`: 0 heuristic, 1 always, 2 never promise more than there is.
pub fn overcommit_memory() -> Option<u64> {
    setting("/proc/sys/vm/overcommit_memory")
}

/// `kernel.threads-max`: how many kernel threads the system may have.
pub fn threads_max() -> Option<u64> {
    setting("/proc/sys/kernel/threads-max")
}

/// How many processes and threads this process's control groups allow; `None` if they do not say.
pub fn cgroup_pids() -> Option<u64> {
    cgroup_pids_under(Path::new("/"))
}

/// [`cgroup_pids`], with `/proc` and `/sys` looked up below `root`.
pub fn cgroup_pids_under(root: &Path) -> Option<u64> {
    let limits = cgroup::groups(root, "pids");
    limits.iter().filter_map(|group| group.numbers::<u64, 1>("pids.max")).map(|[max]| max).min()
}

/// A limit that [`rlimit`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// `RLIMIT_NPROC`: kernel threads of this user.
    Threads,
    /// `RLIMIT_AS`: bytes of address space.
    AddressSpace,
    /// `RLIMIT_DATA`: bytes of private writable memory.
    Data,
    /// `RLIMIT_MEMLOCK`: bytes of locked memory.
    LockedMemory,
    /// `RLIMIT_NOFILE`: open files.
    OpenFiles,
}

/// The soft limit of `resource`; `None` if it is unlimited.
pub fn rlimit(resource: Resource) -> Option<u64> {
    let resource = match resource {
        Resource::Threads => libc::RLIMIT_NPROC,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
    };
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the result goes to a live local.
    unsafe { libc::getrlimit(resource, &mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// A field of `/proc/self/status` in KiB, such as `VmRSS` or `VmPTE`.
///
/// # Examples
///
/// ```
/// assert!(daiko_sys::limits::status_kib("VmRSS").unwrap() > 0);
/// ```
pub fn status_kib(field: &str) -> Option<u64> {
    status_field(&fs::read_to_string("/proc/self/status").ok()?, field)
}

fn status_field(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn setting(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::Tree;

    #[test]
    fn this_system_tells_its_settings() {
        assert!(kernel_release().starts_with(|c: char| c.is_ascii_digit()));
        assert!(glibc_version().is_none_or(|version| version.contains('.')));
        assert!(max_map_count().unwrap() > 0);
        assert!(overcommit_memory().unwrap() <= 2);
        assert!(threads_max().unwrap() > 0);
        assert!(rlimit(Resource::OpenFiles).is_none_or(|files| files > 2));
    }

    #[test]
    fn status_fields_are_found_by_their_whole_name() {
        let status = "Name:\tx\nVmPTE:\t      52 kB\nVmRSSx:\t1 kB\nVmRSS:\t    1234 kB\n";
        assert_eq!(status_field(status, "VmRSS"), Some(1234));
        assert_eq!(status_field(status, "VmPTE"), Some(52));
        assert_eq!(status_field(status, "Vm"), None);
        assert_eq!(status_field(status, "Name"), None);
    }

    #[test]
    fn the_least_pids_limit_counts() {
        let tree = Tree::new(&[
            ("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cg/a/b/pids.max", "max\n"),
            ("cg/a/pids.max", "500\n"),
            ("cg/pids.max", "900\n"),
        ]);
        assert_eq!(cgroup_pids_under(tree.root()), Some(500));
        assert_eq!(cgroup_pids_under(Tree::new(&[]).root()), None);
    }
}
