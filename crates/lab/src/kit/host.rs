//! The measured machine.

use std::time::SystemTime;
use std::{env, fs, io};

use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::limits;
use daiko_sys::topology::Topology;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::conditions::{self, Conditions};
use super::control;
use super::failure::{Failure, OrFailure, Skip};

/// Properties of the machine that a reader of the results needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Name of the processor, as it reports it.
    pub cpu: String,
    /// Number of CPUs allowed for this process.
    pub cpus: usize,
    /// CPUs granted by the control group, if it limits them.
    pub quota: Option<f64>,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the C library.
    pub glibc: String,
    /// Frequency governor of the first CPU, if the kernel reports it.
    pub governor: Option<String>,
    /// Frequency settings of the cores: governor, range, turbo; `unknown` if there are none.
    #[serde(default = "unknown")]
    pub frequency: String,
    /// State of the hardware prefetchers: `on`, `off`, `some off`, `unknown`.
    #[serde(default = "unknown")]
    pub prefetchers: String,
    /// Use of huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Load average of the last minute, at the start of the measurement.
    #[serde(default)]
    pub load: Option<f64>,
    /// State of the machine during the whole run, up to the last sample.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    /// Start of the measurement, UTC.
    pub date: String,
    /// Version of Daiko.
    pub daiko: String,
    /// Whether this is an optimised build; figures of other builds are not comparable.
    pub optimised: bool,
}

impl Host {
    /// Detects this machine's properties.
    pub fn detect() -> Self {
        Self {
            cpu: cpu_model().unwrap_or_else(|| "unknown".into()),
            cpus: cpus(),
            quota: cpu::quota(),
            kernel: limits::kernel_release(),
            glibc: limits::glibc_version().unwrap_or("unknown").to_owned(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            frequency: control::frequency(),
            prefetchers: control::prefetchers(),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| chosen(&line)),
            load: conditions::load_average(),
            conditions: None,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            daiko: env!("CARGO_PKG_VERSION").into(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// Value in results of versions that did not detect a property.
fn unknown() -> String {
    "unknown".into()
}

/// Number of CPUs allowed for this process.
pub fn cpus() -> usize {
    cpu_list().len().max(1)
}

/// Numbers of the CPUs allowed for this process.
pub(crate) fn cpu_list() -> Vec<usize> {
    cpu::allowed().map(|set| set.iter().collect()).unwrap_or_default()
}

/// The first two allowed CPUs.
pub(crate) fn two_cpus() -> Result<(usize, usize), Skip> {
    match cpu_list()[..] {
        [first, second, ..] => Ok((first, second)),
        _ => Err(Skip::new("two CPUs are needed: allow two")),
    }
}

/// Binds the calling thread to `cpu`.
pub(crate) fn bind(cpu: usize) -> io::Result<()> {
    cpu::bind_current(&CpuSet::from_iter([cpu]))
}

/// Reads the topology: cores, caches and packages.
pub(crate) fn topology() -> Result<Topology, Skip> {
    Topology::read().map_err(|error| Skip::new(error.to_string()))
}

/// Creates a folder that is removed when it is dropped.
pub(crate) fn temporary_folder() -> Result<TempDir, Failure> {
    tempfile::tempdir().or_limit("no folder in TMPDIR")
}

/// Requires that the program `name` is installed.
pub(crate) fn require_program(name: &str) -> Result<(), Skip> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    found.then_some(()).ok_or_else(|| Skip::new(format!("{name} is not installed")))
}

fn cpu_model() -> Option<String> {
    model_name(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The first processor's name in the text of `/proc/cpuinfo`.
#[doc(hidden)]
pub fn model_name(info: &str) -> Option<String> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The choice in brackets in a line like `always [madvise] never`.
#[doc(hidden)]
pub fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_the_facts_of_a_report() {
        let host = Host::detect();
        assert!(host.cpus >= 1);
        assert!(host.kernel.starts_with(|first: char| first.is_ascii_digit()), "{}", host.kernel);
        assert!(host.date.ends_with('Z'), "{}", host.date);
    }

    #[test]
    fn the_choice_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always madvise never"), None);
    }
}
