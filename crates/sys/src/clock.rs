//! Clocks, in nanoseconds.

use std::path::Path;

use crate::arch;
use crate::limits::text;

/// Time since a fixed point in the past. Never goes back; stands still while the machine sleeps.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Time since the start of the machine, the time that it slept included.
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CPU time used by all threads of this process.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time used by the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time used by the thread of this process with kernel id `thread`; `None` if there is no such
/// thread.
pub fn cpu_ns_of(thread: u32) -> Option<u64> {
    // The kernel's encoding, which glibc's pthread_getcpuclockid uses as well: the complement of
    // the id, then "per thread" and "as the scheduler counts".
    try_read((!(thread as libc::clockid_t) << 3) | 0b110)
}

/// CPU time used by all threads of the process with id `process`, which may be any process; `None`
/// if there is no such process.
pub fn cpu_ns_of_process(process: u32) -> Option<u64> {
    // The same encoding without "per thread".
    try_read((!(process as libc::clockid_t) << 3) | 0b010)
}

/// Total time for which the machine's CPUs were not idle, in steps of a tick (usually 10 ms);
/// `None` if `/proc` does not report it.
pub fn machine_busy_ns() -> Option<u64> {
    // SAFETY: the call takes a plain integer.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = busy_ticks(&text(Path::new("/proc/stat"))?)?;
    Some(ticks * (1_000_000_000 / u64::try_from(ticks_per_second).ok()?.max(1)))
}

/// Parses the first line: user, nice, system, (idle, waiting), interrupts, soft interrupts.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let ticks = ticks.get(..7)?;
    Some(ticks[..3].iter().chain(&ticks[5..]).sum())
}

/// Returns the counter of the processor that user code reads: the time stamp counter of x86-64,
/// `cntvct_el0` of aarch64, `time` of riscv64. It counts at a fixed rate, the same on all
/// processors, where [`is_ticking_evenly`] is true.
#[inline(always)]
pub fn ticks() -> u64 {
    arch::ticks()
}

/// Returns true if the processor says that this counter never changes its rate.
pub fn is_ticking_evenly() -> bool {
    arch::is_ticking_evenly()
}

fn read(clock: libc::clockid_t) -> u64 {
    try_read(clock).expect("these clocks exist on every Linux")
}

fn try_read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result goes to a live local.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let times: Vec<u64> = (0..1000).map(|_| monotonic_ns()).collect();
        assert!(times[0] > 0 && times.is_sorted());
    }

    #[test]
    fn ticks_go_on_with_the_time() {
        let (ticks, ns) = (super::ticks(), monotonic_ns());
        assert!(boottime_ns() >= ns, "it counts sleeps of the machine as well");
        while monotonic_ns() - ns < 1_000_000 {}
        let passed = super::ticks() - ticks;
        // The slowest counters, those of riscv64, have a few million ticks in a second.
        assert!(!is_ticking_evenly() || passed >= 1000, "{passed}");
    }

    #[test]
    fn the_cpu_time_of_a_thread_is_visible_to_other_threads() {
        let me = crate::thread::id();
        let before = thread_cpu_ns();
        let seen = std::thread::spawn(move || cpu_ns_of(me).unwrap()).join().unwrap();
        assert!(before <= seen && seen <= thread_cpu_ns());
        assert_eq!(cpu_ns_of(u32::MAX >> 4), None, "no such thread");
    }

    #[test]
    fn a_processes_cpu_time_is_seen_by_its_id() {
        let before = process_cpu_ns();
        let seen = cpu_ns_of_process(std::process::id()).unwrap();
        assert!(before <= seen && seen <= process_cpu_ns());
        assert!(cpu_ns_of_process(1).is_some(), "another process");
        assert_eq!(cpu_ns_of_process(u32::MAX >> 4), None, "no such process");
    }

    #[test]
    fn cpu_time_passes_while_computing() {
        let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
        while thread_cpu_ns() == thread {}
        assert!(process_cpu_ns() > process);
    }

    #[test]
    fn a_machine_is_busy_with_all_but_waiting() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(7_600_321));
        assert_eq!(busy_ticks("cpu  1 2 3\n"), None);
        assert_eq!(busy_ticks(""), None);
        let before = machine_busy_ns().unwrap();
        let start = thread_cpu_ns();
        while machine_busy_ns().unwrap() == before {
            assert!(thread_cpu_ns() - start < 10_000_000_000, "a thread that computes is not seen");
        }
    }
}
