//! Short observations of threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use daiko_sys::counters::{Counter, CounterError, Work};
use daiko_sys::sampling::Sampler;

use super::code::Code;
use super::{Evidence, Mappings, Profiler, Unavailable};

/// CPU time of a thread between two samples. Short, as sequential accesses wrap around before long.
const PERIOD_NS: u64 = 100_000;
/// Number of samples that suffices. With fewer, an observation lasts its whole time.
const ENOUGH: usize = 200;
/// Time between two reads of the samples, short enough that the buffer does not overflow, and that
/// words of the stack are read in many rounds.
const DRAIN: Duration = Duration::from_millis(1);
/// Threads sampled at the same time. Each needs locked memory, which is limited.
const TOGETHER: usize = 12;

/// Parameters of an observation.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Limit of the wait for samples. Threads that sleep give none.
    pub patience: Duration,
    /// Bytes held by the caches of a CPU.
    pub cache: u64,
}

impl Look {
    /// A quarter of a second, with the cache size of this machine, or 32 MiB if the kernel does not
    /// report it.
    pub fn here(topology: Option<&daiko_sys::topology::Topology>) -> Self {
        let sizes =
            topology.map(|topology| topology.caches().iter().filter_map(|cache| cache.size));
        let cache = sizes.and_then(Iterator::max).unwrap_or(32 << 20);
        Self { patience: Duration::from_millis(250), cache }
    }

    /// Collects evidence about threads, given as process and thread. `wait` sleeps for a time.
    pub fn at(&self, threads: &[(u32, u32)], wait: &mut dyn FnMut(Duration)) -> Vec<Evidence> {
        let mut processes: HashMap<u32, Process> = HashMap::new();
        for (pid, thread) in threads {
            processes.entry(*pid).or_insert_with(|| Process::of(*thread));
        }
        let mut evidence = Vec::new();
        for batch in threads.chunks(TOGETHER) {
            evidence.extend(self.batch(batch, &mut processes, wait));
        }
        evidence
    }

    fn batch(
        &self,
        threads: &[(u32, u32)],
        processes: &mut HashMap<u32, Process>,
        wait: &mut dyn FnMut(Duration),
    ) -> Vec<Evidence> {
        let mut seen: Vec<_> = threads
            .iter()
            .map(|(pid, thread)| (*pid, ObservedThread::open(*thread, self.cache)))
            .collect();
        let end = Instant::now() + self.patience;
        let lacks = |(_, seen): &(u32, Result<ObservedThread, _>)| {
            seen.as_ref().is_ok_and(|seen| seen.sampler.is_some())
        };
        while seen.iter().any(lacks) && Instant::now() < end {
            wait(DRAIN);
            for (pid, seen) in &mut seen {
                let process = processes.get_mut(pid).expect("made above");
                seen.iter_mut().for_each(|seen| seen.drain(&mut process.code));
            }
        }
        let evidence = |(pid, seen): (u32, Result<ObservedThread, CounterError>)| Evidence {
            mappings: processes[&pid].mappings.clone(),
            stalled: seen.as_ref().ok().and_then(ObservedThread::stalled),
            profile: seen
                .map(|seen| seen.profiler.finish())
                .map_err(|error| Unavailable(error.to_string())),
        };
        seen.into_iter().map(evidence).collect()
    }
}

/// State shared by the threads of a process. Read through a thread that has not ended, as the first
/// thread may have.
struct Process {
    code: Code,
    mappings: Result<Option<String>, Unavailable>,
}

impl Process {
    fn of(thread: u32) -> Self {
        let (mapped, mappings) = match Mappings::of(thread) {
            Ok(mappings) => (mappings.mapped.clone(), Ok(mappings.persistent())),
            Err(error) => {
                (Vec::new(), Err(Unavailable(format!("cannot read /proc/{thread}/maps: {error}"))))
            }
        };
        Self { code: Code::of(thread, mapped), mappings }
    }
}

/// A thread under observation.
struct ObservedThread {
    /// Present until there are enough samples, as sampling costs the thread some of its time.
    sampler: Option<Sampler>,
    profiler: Profiler,
    /// All cycles and stalled cycles; `None` if the processor does not count them.
    cycles: Option<[Counter; 2]>,
}

impl ObservedThread {
    fn open(thread: u32, cache: u64) -> Result<Self, CounterError> {
        let count = |work| Counter::of_thread(work, thread).ok();
        let cycles = count(Work::Cycles).zip(count(Work::StalledCycles)).map(<[_; 2]>::from);
        let sampler = Some(Sampler::open(thread, PERIOD_NS)?);
        Ok(Self { sampler, profiler: Profiler::new(cache), cycles })
    }

    fn drain(&mut self, code: &mut Code) {
        let Self { sampler, profiler, .. } = self;
        profiler.begin_round();
        sampler.iter_mut().for_each(|sampler| sampler.drain(|sample| profiler.add(&sample, code)));
        if profiler.samples() >= ENOUGH {
            *sampler = None;
        }
    }

    /// The share of stalled cycles.
    fn stalled(&self) -> Option<f64> {
        let [cycles, stalled] =
            self.cycles.as_ref()?.each_ref().map(|counter| counter.count().ok());
        cycles
            .zip(stalled)
            .filter(|(cycles, _)| *cycles > 0.0)
            .map(|(cycles, stalled)| stalled / cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, hint, thread};

    /// A process with an ended first thread: the id of the remaining thread, and the child, which
    /// the test must kill.
    fn without_first_thread() -> (u32, libc::pid_t) {
        // SAFETY: the child has one thread, which may start more, and it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread::spawn(|| {
                loop {
                    hint::black_box(());
                }
            });
            // SAFETY: takes a plain integer and ends this thread only.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let ids = || {
            let tasks = fs::read_dir(format!("/proc/{child}/task")).unwrap();
            tasks.map(|task| task.unwrap().file_name().into_string().unwrap().parse().unwrap())
        };
        let maps = || fs::read(format!("/proc/{child}/maps")).unwrap();
        while !maps().is_empty() {
            thread::yield_now();
        }
        (ids().find(|id: &u32| *id != child as u32).expect("the other"), child)
    }

    #[test]
    fn a_process_without_its_first_thread_has_its_code() {
        let (other, child) = without_first_thread();
        let look =
            || Look::here(None).at(&[(child as u32, other)], &mut thread::sleep).remove(0).profile;
        // The thread may have to wait for a CPU.
        let mut profile = look();
        while profile.as_ref().is_ok_and(|profile| profile.samples == 0) {
            profile = look();
        }
        // SAFETY: takes plain integers; the child was not waited for yet.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        match profile {
            Ok(profile) => assert_eq!(profile.unread, 0.0, "{profile:?}"),
            Err(unavailable) => println!("skipped: {unavailable}"),
        }
    }
}
