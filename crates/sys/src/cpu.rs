//! The CPUs that this process may use, and its share of their time.

use std::fmt;
use std::io;

use crate::cgroup::{self, Group, Reader, Version};
use crate::limits::text;

mod list;

pub use list::ParseCpuSetError;

/// Returns the word of processor features that the kernel offers to programs, `AT_HWCAP2`.
pub fn hardware_capabilities_2() -> u64 {
    // SAFETY: takes a plain integer.
    unsafe { libc::getauxval(libc::AT_HWCAP2) }
}

const BITS: usize = libc::c_ulong::BITS as usize;

/// A set of CPU numbers of any size.
///
/// # Examples
///
/// ```
/// use daiko_sys::cpu::CpuSet;
///
/// let set = CpuSet::from_iter([0, 1, 2, 5]);
/// assert_eq!(set.to_string(), "0-2,5");
/// assert!(set.contains(5) && !set.contains(4));
/// ```
#[derive(Clone, Default)]
pub struct CpuSet {
    words: Vec<libc::c_ulong>,
}

impl CpuSet {
    /// Upper bound of CPU numbers in every kernel that can be configured.
    pub const LIMIT: usize = 8192;

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: usize) {
        if cpu / BITS >= self.words.len() {
            self.words.resize(cpu / BITS + 1, 0);
        }
        self.words[cpu / BITS] |= 1 << (cpu % BITS);
    }

    /// Returns true if `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / BITS).is_some_and(|word| word & (1 << (cpu % BITS)) != 0)
    }

    /// The number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * BITS).filter(|&cpu| self.contains(cpu))
    }

    /// The CPUs that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let pairs = self.words.iter().zip(&other.words);
        Self { words: pairs.map(|(word, other)| word & other).collect() }
    }

    /// The CPUs that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for CpuSet {}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// Writes the set in the kernel's format: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts = self.iter().filter(|&cpu| cpu == 0 || !self.contains(cpu - 1));
        for (position, start) in starts.enumerate() {
            let separator = if position == 0 { "" } else { "," };
            let end = (start..).take_while(|&cpu| self.contains(cpu)).last().unwrap_or(start);
            match end - start {
                0 => write!(f, "{separator}{start}")?,
                _ => write!(f, "{separator}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// The CPUs that the calling thread may run on.
///
/// # Errors
///
/// The errors of `sched_getaffinity`, except that a mask that is too small is grown.
pub fn allowed() -> io::Result<CpuSet> {
    allowed_of(SELF)
}

/// The CPUs that are online now.
///
/// # Errors
///
/// The error of reading sysfs; `InvalidData` if the kernel's list cannot be parsed.
pub fn online() -> io::Result<CpuSet> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    list.trim_end().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The CPUs that the thread with id `thread` may run on. The thread may belong to any process.
///
/// # Errors
///
/// The errors of [`allowed`]; `ESRCH` if there is no such thread.
pub fn allowed_of(thread: u32) -> io::Result<CpuSet> {
    let thread = number(thread)?;
    let mut set = CpuSet { words: vec![0; 1024 / BITS] };
    loop {
        // SAFETY: the kernel writes at most the given number of bytes to the mask.
        let result =
            unsafe { libc::sched_getaffinity(thread, set.bytes(), set.words.as_mut_ptr().cast()) };
        if result == 0 {
            return Ok(set);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || set.bytes() >= 1 << 20 {
            return Err(error);
        }
        set.words.resize(set.words.len() * 2, 0);
    }
}

/// Restricts the calling thread to the CPUs of `set`.
///
/// # Errors
///
/// `InvalidInput` if none of them is available to this process.
pub fn bind_current(set: &CpuSet) -> io::Result<()> {
    bind(SELF, set)
}

/// Restricts the thread with id `thread`, of any process of the same user, to the CPUs of `set`.
///
/// # Errors
///
/// `InvalidInput` if none of them is available to its process, `PermissionDenied` for threads of
/// another user without `CAP_SYS_NICE`, `ESRCH` if there is no such thread.
pub fn bind(thread: u32, set: &CpuSet) -> io::Result<()> {
    // SAFETY: the kernel reads the given number of bytes from the mask.
    let result =
        unsafe { libc::sched_setaffinity(number(thread)?, set.bytes(), set.words.as_ptr().cast()) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Names the calling thread in affinity calls: no thread has this id.
const SELF: u32 = 0;

/// Refuses a larger number, which would become a negative id.
fn number(thread: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(thread).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))
}

/// The CPU that the calling thread runs on at this moment.
pub fn current() -> usize {
    // SAFETY: `sched_getcpu` takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).expect("every Linux that Daiko supports tells the current CPU")
}

/// The share of CPU time that the control groups grant this process, in CPUs; `None` if unlimited.
///
/// The least grant among the process's own group and its ancestors counts (`cpu.max`, or
/// `cpu.cfs_quota_us` in version 1).
pub fn quota() -> Option<f64> {
    quota_in(&text)
}

/// [`quota`] with an injected file reader.
#[doc(hidden)]
pub fn quota_in(read: Reader<'_>) -> Option<f64> {
    let groups = cgroup::groups(read, "cpu");
    groups.iter().filter_map(|group| grant(read, group)).reduce(f64::min)
}

/// Time over period, both in microseconds. A group without a limit reads `max` or -1.
fn grant(read: Reader<'_>, group: &Group) -> Option<f64> {
    let [time, period] = match group.version {
        Version::V2 => group.numbers::<i64, 2>(read, "cpu.max")?,
        Version::V1 => {
            let [time] = group.numbers(read, "cpu.cfs_quota_us")?;
            let [period] = group.numbers(read, "cpu.cfs_period_us")?;
            [time, period]
        }
    };
    (time > 0 && period > 0).then(|| time as f64 / period as f64)
}

/// The number of workers that this process can keep busy: its allowed CPUs, or its quota rounded up
/// if that is less.
///
/// # Examples
///
/// ```
/// let workers = daiko_sys::cpu::default_workers();
/// assert!(workers >= 1);
/// ```
pub fn default_workers() -> usize {
    workers_for(allowed().map_or(1, |set| set.len()), quota())
}

/// The number of workers that `allowed` CPUs and a `quota` can keep busy: at least one.
pub fn workers_for(allowed: usize, quota: Option<f64>) -> usize {
    let granted = quota.map_or(usize::MAX, |cpus| cpus.ceil() as usize);
    allowed.min(granted).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::tree;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_holds_the_inserted_cpus(cpus: BTreeSet<u16>) {
            let set = CpuSet::from_iter(cpus.iter().map(|&cpu| usize::from(cpu)));
            prop_assert_eq!(set.len(), cpus.len());
            prop_assert!(set.iter().eq(cpus.iter().map(|&cpu| usize::from(cpu))));
            prop_assert!(!set.contains(1 << 20));
        }

        #[test]
        fn sets_are_intersected_and_subtracted(one: BTreeSet<u8>, other: BTreeSet<u8>) {
            let set = |cpus: &BTreeSet<u8>| CpuSet::from_iter(cpus.iter().map(|&cpu| usize::from(cpu)));
            let both = set(&one).intersection(&set(&other));
            prop_assert_eq!(both, set(&(&one & &other)));
            prop_assert_eq!(set(&one).difference(&set(&other)), set(&(&one - &other)));
        }
    }

    #[test]
    fn a_bound_thread_runs_where_it_was_told() {
        std::thread::spawn(|| {
            for cpu in allowed().unwrap().iter() {
                let one = CpuSet::from_iter([cpu]);
                bind_current(&one).unwrap();
                assert_eq!(current(), cpu);
                assert_eq!(allowed().unwrap(), one);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_thread_is_bound_and_reads_its_binding() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(crate::thread::id()).unwrap();
            let _ = ended.recv();
            allowed().unwrap()
        });
        let (thread, mine) = (told.recv().unwrap(), allowed().unwrap());
        assert_eq!(allowed_of(thread).unwrap(), mine);
        let one = mine.iter().take(1).collect();
        bind(thread, &one).unwrap();
        assert_eq!(allowed_of(thread).unwrap(), one);
        assert_eq!(allowed().unwrap(), mine, "this one stays where it was");
        drop(end);
        assert_eq!(other.join().unwrap(), one);
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        for thread in [i32::MAX as u32, u32::MAX] {
            let set = CpuSet::from_iter([0]);
            for error in [allowed_of(thread).unwrap_err(), bind(thread, &set).unwrap_err()] {
                assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
            }
        }
    }

    #[test]
    fn a_set_without_a_usable_cpu_is_refused() {
        for set in [CpuSet::new(), CpuSet::from_iter([100_000])] {
            let error = bind_current(&set).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    const V2: (&str, &str) = ("/proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    const V1: (&str, &str) =
        ("/proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n");

    #[test]
    fn the_least_grant_of_all_ancestors_counts() {
        let files = [
            V2,
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/cg/a/b/cpu.max", "max 100000\n"),
            ("/cg/a/cpu.max", "150000 100000\n"),
            ("/cg/cpu.max", "400000 100000\n"),
        ];
        assert_eq!(quota_in(&tree(&files)), Some(1.5));
    }

    #[test]
    fn version_one_quotas_are_read() {
        let files = [
            V1,
            ("/proc/self/cgroup", "2:cpu,cpuacct:/job\n"),
            ("/cg/job/cpu.cfs_quota_us", "25000\n"),
            ("/cg/job/cpu.cfs_period_us", "100000\n"),
            ("/cg/cpu.cfs_quota_us", "-1\n"),
            ("/cg/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota_in(&tree(&files)), Some(0.25));
        assert_eq!(quota_in(&tree(&[files[0], files[1], files[4], files[5]])), None);
    }

    #[test]
    fn no_quota_is_none() {
        let unlimited = [V2, ("/proc/self/cgroup", "0::/\n"), ("/cg/cpu.max", "max 100000\n")];
        assert_eq!(quota_in(&tree(&unlimited)), None);
        assert_eq!(quota_in(&tree(&[])), None);
    }

    #[test]
    fn workers_are_bounded_by_cpus_and_quota() {
        assert_eq!(workers_for(8, None), 8);
        assert_eq!(workers_for(8, Some(2.5)), 3);
        assert_eq!(workers_for(2, Some(64.0)), 2);
        assert_eq!(workers_for(8, Some(0.01)), 1);
        assert_eq!(workers_for(0, None), 1);
    }
}
