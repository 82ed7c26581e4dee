//! The state of the machine while samples are taken: load, stolen time, other programs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{fs, mem};

use daiko_sys::cpu;
use serde::{Deserialize, Serialize};

/// Share of the CPUs' time that a hypervisor may take from an undisturbed sample.
const MOST_STOLEN: f64 = 0.05;
/// Share of the CPUs' time that other programs may take from an undisturbed sample. The kernel
/// counts by ticks, with an error of several per cent in a window.
///
/// Chosen by five quick runs of rings of ten threads in each case, 250 samples, on two CPUs of a
/// virtual machine (AMD, family 25). A neighbour computes for a share of each 10 ms. A sample is
/// off if it lies more than 10% beyond all values of its point in the quiet runs.
///
/// | case | share found: median, 90%, most | marked by 0.06, 0.08, 0.15 | off, and marked by each |
/// |---|---|---|---|
/// | quiet | 0, 0.015, 0.063 | 1, 0, 0 | |
/// | a neighbour of 10% | 0.016, 0.061, 0.092 | 29, 6, 0 | 5: 0, 0, 0 |
/// | of 20% | 0.071, 0.114, 0.209 | 183, 88, 5 | 20: 15, 6, 0 |
/// | of 35% | 0.117, 0.144, 0.186 | 236, 229, 10 | 30: 29, 27, 1 |
/// | two of 20% | 0.156, 0.176, 0.199 | 243, 243, 168 | 24: 23, 23, 21 |
/// | of 100% | 0.363, 0.417, 0.750 | 249, 249, 248 | 41: 41, 41, 41 |
/// | two of 100% | 0.835, 0.867, 0.894 | 250, 250, 250 | 160: 160, 160, 160 |
///
/// 730 further quiet samples (rings, channels, many threads) had 0.018 at most. Of 230 samples of
/// fork-join, four in a row had 0.091 to 0.140, one of them 26% above its median: 0.15 would not
/// mark them. Involuntary switches do not tell: the tenth of the samples with the most had at least
/// 678 in the quiet runs, where threads share a CPU, and 640 beside a neighbour of 100%.
const MOST_OTHERS: f64 = 0.08;
/// Least time over which shares are computed: a short sample is judged by the time before it too.
const WINDOW: Duration = Duration::from_millis(500);

/// The machine's state during a sample, or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Load average of the last minute, at the end.
    pub load: f64,
    /// Share of the allowed CPUs' time that the hypervisor gave to other guests.
    pub stolen: f64,
    /// Share of the allowed CPUs' time that programs beside the lab used.
    pub others: f64,
    /// Involuntary context switches of the processes that were measured.
    pub involuntary: u64,
}

impl Conditions {
    /// Returns true if other programs or other guests took noticeable time.
    pub fn is_disturbed(&self) -> bool {
        self.stolen > MOST_STOLEN || self.others > MOST_OTHERS
    }

    /// The share of the CPUs' time that was taken from the lab.
    pub fn taken(&self) -> f64 {
        self.stolen + self.others
    }
}

/// Counters of the machine and of the lab's processes.
#[derive(Clone, Copy, Debug)]
struct Counters {
    at: Instant,
    ticks: CpuTicks,
    /// CPU time of this process and of its ended children.
    own: Duration,
    involuntary: u64,
}

impl Counters {
    fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (own, involuntary) = own_use();
        Self { at: Instant::now(), ticks: cpu_ticks(&stat, &cpu_list()), own, involuntary }
    }

    fn until(&self, end: &Self, cpus: usize, tick: Duration) -> Conditions {
        let time = |ticks: u64| ticks as f64 * tick.as_secs_f64();
        let capacity = (end.at - self.at).as_secs_f64() * cpus as f64;
        let share = |seconds: f64| match capacity > 0.0 {
            true => (seconds / capacity).clamp(0.0, 1.0),
            false => 0.0,
        };
        let busy = time(end.ticks.busy.saturating_sub(self.ticks.busy));
        let own = end.own.saturating_sub(self.own).as_secs_f64();
        Conditions {
            load: load_average().unwrap_or_default(),
            stolen: share(time(end.ticks.stolen.saturating_sub(self.ticks.stolen))),
            // Each CPU's count may be late by a tick.
            others: share(busy - own - time(cpus as u64)),
            involuntary: end.involuntary.saturating_sub(self.involuntary),
        }
    }
}

/// Observes the machine during a run and its samples.
#[derive(Debug)]
pub struct MachineWatch {
    cpus: usize,
    tick: Duration,
    start: Counters,
    /// The beginnings of the last samples.
    begun: VecDeque<Counters>,
}

impl MachineWatch {
    /// Begins a run.
    pub fn begin() -> Self {
        // SAFETY: the call takes a plain integer.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let tick = Duration::from_secs(1) / u32::try_from(ticks).unwrap_or(100).max(1);
        let start = Counters::read();
        Self { cpus: cpu_list().len(), tick, start, begun: [start].into() }
    }

    /// Begins a sample.
    pub fn begin_sample(&mut self) {
        let now = Counters::read();
        // All but the last one that is old enough can be forgotten.
        while self.begun.len() > 1 && now.at - self.begun[1].at >= WINDOW {
            self.begun.pop_front();
        }
        self.begun.push_back(now);
    }

    /// The state since the sample began, over the window at least.
    pub fn sample(&self) -> Conditions {
        let end = Counters::read();
        let is_old = |begin: &&Counters| end.at - begin.at >= WINDOW;
        let begin = self.begun.iter().rev().find(is_old).unwrap_or(&self.begun[0]);
        let own = self.begun.back().unwrap_or(begin).involuntary;
        let involuntary = end.involuntary.saturating_sub(own);
        Conditions { involuntary, ..begin.until(&end, self.cpus, self.tick) }
    }

    /// The state since the run began.
    pub fn run(&self) -> Conditions {
        self.start.until(&Counters::read(), self.cpus, self.tick)
    }
}

/// The load average of the last minute.
pub fn load_average() -> Option<f64> {
    parse_load(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// The first number in the text of `/proc/loadavg`.
#[doc(hidden)]
pub fn parse_load(text: &str) -> Option<f64> {
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// Time of CPUs in ticks.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Time of programs, in user space and in the kernel.
    pub busy: u64,
    /// Time that the hypervisor gave to other guests.
    pub stolen: u64,
}

/// Sums the lines of `cpus` in the text of `/proc/stat`: user, nice, system, idle, waiting,
/// interrupts, soft interrupts, stolen. Interrupts are not counted, as those of a sample are not
/// in the time of its processes.
#[doc(hidden)]
pub fn cpu_ticks(stat: &str, cpus: &[usize]) -> CpuTicks {
    let mut sum = CpuTicks::default();
    for line in stat.lines() {
        let Some((cpu, fields)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        if !cpu.parse().is_ok_and(|cpu| cpus.contains(&cpu)) {
            continue;
        }
        let ticks: Vec<u64> =
            fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        if let [user, nice, system, _, _, _, _, stolen, ..] = ticks[..] {
            let busy = user.saturating_add(nice).saturating_add(system);
            sum.busy = sum.busy.saturating_add(busy);
            sum.stolen = sum.stolen.saturating_add(stolen);
        }
    }
    sum
}

/// Numbers of the CPUs allowed for this process.
fn cpu_list() -> Vec<usize> {
    cpu::allowed().map(|set| set.iter().collect()).unwrap_or_default()
}

/// CPU time, and involuntary context switches, of this process and of its ended children.
fn own_use() -> (Duration, u64) {
    let (mut time, mut switches) = (Duration::ZERO, 0);
    for of in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        // SAFETY: zero is a valid value of all fields.
        let mut usage: libc::rusage = unsafe { mem::zeroed() };
        // SAFETY: the result goes to a live local.
        if unsafe { libc::getrusage(of, &mut usage) } == 0 {
            time += duration(usage.ru_utime) + duration(usage.ru_stime);
            switches += usage.ru_nivcsw.max(0) as u64;
        }
    }
    (time, switches)
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  999 999 999 999 999 999 999 999 0 0\n\
        cpu0 1 20 300 4000 50000 600000 7000000 5 0 0\n\
        cpu1 9 9 9 9 9 9 9 9 9 9\n\
        cpu12 2 2 2 0 0 0 0 1 0 0\n\
        cpu13 2 2\n\
        intr 1 2 3\n";

    #[test]
    fn ticks_are_those_of_the_allowed_cpus() {
        let ticks = |cpus: &[usize]| cpu_ticks(STAT, cpus);
        assert_eq!(ticks(&[0]), CpuTicks { busy: 321, stolen: 5 });
        assert_eq!(ticks(&[0, 12, 13, 14]), CpuTicks { busy: 327, stolen: 6 });
        assert_eq!(ticks(&[]), CpuTicks::default());
    }

    #[test]
    fn a_load_is_a_number() {
        assert_eq!(parse_load("50.12 7.00 4.97 3/120 99\n"), Some(50.12));
        for text in ["", "x 1", "nan 1", "-1 1", "inf"] {
            assert_eq!(parse_load(text), None, "{text:?}");
        }
    }

    fn counters(start: Instant, ms: u64, busy: u64, stolen: u64, own_ms: u64) -> Counters {
        let at = start + Duration::from_millis(ms);
        let own = Duration::from_millis(own_ms);
        Counters { at, ticks: CpuTicks { busy, stolen }, own, involuntary: ms }
    }

    #[test]
    fn time_of_other_programs_is_the_time_that_was_not_our_own() {
        let start = Instant::now();
        let tick = Duration::from_millis(10);
        let begin = counters(start, 0, 1000, 50, 100);
        // A second of two CPUs, in 100 ticks each.
        let of = |busy: u64, stolen: u64, own: u64| {
            begin.until(&counters(start, 1000, 1000 + busy, 50 + stolen, 100 + own), 2, tick)
        };
        assert_eq!(of(100, 0, 1000).others, 0.0);
        assert!(!of(100, 0, 1000).is_disturbed());
        assert!((of(152, 0, 1000).others - 0.25).abs() < 1e-9);
        assert!(of(152, 0, 1000).is_disturbed());
        assert!((of(0, 20, 0).stolen - 0.1).abs() < 1e-9);
        assert!(of(0, 20, 0).is_disturbed());
        assert_eq!(of(0, 0, 5000).others, 0.0, "counters of ticks are late");
        assert_eq!(of(0, 0, 0).involuntary, 1000);
    }

    /// The shares were found in quiet runs and beside neighbours: see `MOST_OTHERS`.
    #[test]
    fn quiet_samples_are_not_marked_and_those_beside_a_neighbour_are() {
        let of = |others: f64| Conditions { others, ..Conditions::default() };
        let most_of_quiet = 0.063;
        assert!(!of(most_of_quiet).is_disturbed());
        let medians_beside_neighbours = [0.117, 0.156, 0.363, 0.835];
        assert!(medians_beside_neighbours.into_iter().all(|others| of(others).is_disturbed()));
    }

    #[test]
    fn a_short_sample_is_judged_by_the_time_before_it_too() {
        let mut watch = MachineWatch::begin();
        watch.begin_sample();
        watch.begin_sample();
        assert_eq!(watch.begun.len(), 3, "the window is longer than that");
        watch.begun[0].at -= WINDOW;
        watch.begun[1].at -= WINDOW;
        watch.begin_sample();
        assert_eq!(watch.begun.len(), 3, "the first is behind the window");
    }

    #[test]
    fn the_use_of_children_counts_as_our_own() {
        let (before, _) = own_use();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(ended.expect("a shell").success());
        assert!(own_use().0 > before);
    }
}
