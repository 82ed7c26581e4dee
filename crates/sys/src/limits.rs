//! Limits of this system: versions, kernel settings, resource limits, own memory use.

use std::ffi::CStr;
use std::path::Path;

pub(crate) use crate::cgroup::text;
use crate::cgroup::{self, Reader};

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

/// `vm.max_map_count`: largest number of mappings of a process.
pub fn max_map_count() -> Option<u64> {
    setting("/proc/sys/vm/max_map_count")
}

/// `vm.overcommit_memory`: 0 heuristic, 1 always, 2 never promise more memory than exists.
pub fn overcommit_memory() -> Option<u64> {
    setting("/proc/sys/vm/overcommit_memory")
}

/// `kernel.threads-max`: largest number of kernel threads in the system.
pub fn threads_max() -> Option<u64> {
    setting("/proc/sys/kernel/threads-max")
}

/// Largest number of processes and threads in this process's control groups; `None` if unlimited.
pub fn cgroup_pids() -> Option<u64> {
    cgroup_pids_in(&text)
}

/// [`cgroup_pids`] with an injected file reader.
#[doc(hidden)]
pub fn cgroup_pids_in(read: Reader<'_>) -> Option<u64> {
    let groups = cgroup::groups(read, "pids");
    groups.iter().filter_map(|group| group.numbers(read, "pids.max")).map(|[max]| max).min()
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
    /// `RLIMIT_FSIZE`: bytes of one file.
    FileSize,
}

/// The soft limit of `resource`; `None` if it is unlimited.
pub fn rlimit(resource: Resource) -> Option<u64> {
    let resource = match resource {
        Resource::Threads => libc::RLIMIT_NPROC,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileSize => libc::RLIMIT_FSIZE,
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
    kib_field(&text(Path::new("/proc/self/status"))?, field)
}

/// A field in KiB of a text in the format of `/proc/self/status` or `/proc/meminfo`.
///
/// # Examples
///
/// ```
/// assert_eq!(
///     daiko_sys::limits::kib_field("VmPTE:\t  52 kB\nVmSwap:\t 0 kB\n", "VmPTE"),
///     Some(52)
/// );
/// ```
pub fn kib_field(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn setting(path: &str) -> Option<u64> {
    text(Path::new(path))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::tree;

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
        assert_eq!(kib_field(status, "VmRSS"), Some(1234));
        assert_eq!(kib_field(status, "VmPTE"), Some(52));
        assert_eq!(kib_field(status, "Vm"), None);
        assert_eq!(kib_field(status, "Name"), None);
    }

    #[test]
    fn the_least_pids_limit_counts() {
        let files = [
            ("/proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/cg/a/b/pids.max", "max\n"),
            ("/cg/a/pids.max", "500\n"),
            ("/cg/pids.max", "900\n"),
        ];
        assert_eq!(cgroup_pids_in(&tree(&files)), Some(500));
        assert_eq!(cgroup_pids_in(&tree(&[])), None);
    }
}
