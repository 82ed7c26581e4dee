//! The machine that was measured.

use std::{ffi::CStr, fs, io, mem, time::SystemTime};

use serde::{Deserialize, Serialize};

/// What a reader of the results has to know about the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The processor, as it names itself.
    pub cpu: String,
    /// CPUs this process may run on.
    pub cpus: usize,
    /// CPUs granted by the control group, if it limits them.
    pub quota: Option<f64>,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the C library.
    pub glibc: String,
    /// Frequency governor of the first CPU, if the kernel tells.
    pub governor: Option<String>,
    /// Whether memory is backed by huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// When the measurement began, UTC.
    pub date: String,
    /// Version of Daiko.
    pub daiko: String,
    /// Whether this is an optimised build; others are not worth comparing.
    pub optimised: bool,
}

impl Host {
    /// This machine, now.
    pub fn detect() -> Self {
        Self {
            cpu: cpu_model().unwrap_or_else(|| "unknown".into()),
            cpus: cpus(),
            quota: None,
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            glibc: glibc_version(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| chosen(&line)),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            daiko: env!("CARGO_PKG_VERSION").into(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// How many CPUs this process may run on.
pub fn cpus() -> usize {
    cpu_list().len().max(1)
}

/// The CPUs this process may run on, by number.
pub(crate) fn cpu_list() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is a bit array, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is as long as told; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) };
    if result != 0 {
        return Vec::new();
    }
    // SAFETY: the index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Binds the calling thread to `cpu`.
pub(crate) fn bind(cpu: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is a bit array, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `CPU_SET` checks the index against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is as long as told; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn glibc_version() -> String {
    // SAFETY: returns a static string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The choice in brackets of a line like `always [madvise] never`.
fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
