//! Short observations of threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use daiko_sys::counter_group::CounterGroup;
use daiko_sys::counters::CounterError;
use daiko_sys::processor::Processor;
use daiko_sys::sampling::Sampler;

use super::code::Code;
use super::counters::{CounterTable, Counting};
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
    /// The events of its hardware counters, or the reason why there are none.
    pub table: Result<&'static CounterTable, &'static str>,
}

impl Look {
    /// A quarter of a second, with the counters of this machine and its cache size, or 32 MiB if
    /// the kernel does not report it.
    pub fn here(topology: Option<&daiko_sys::topology::Topology>) -> Self {
        let cache = topology.and_then(|topology| topology.largest_cache()).unwrap_or(32 << 20);
        let table = CounterTable::of(Processor::detect());
        Self { patience: Duration::from_millis(250), cache, table }
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
        let observe = |&(pid, thread): &(u32, u32)| (pid, ObservedThread::open(thread, *self));
        let mut seen: Vec<(u32, ObservedThread)> = threads.iter().map(observe).collect();
        let end = Instant::now() + self.patience;
        while seen.iter().any(|(_, seen)| seen.is_watched()) && Instant::now() < end {
            wait(DRAIN);
            for (pid, seen) in &mut seen {
                let process = processes.get_mut(pid).expect("made above");
                seen.drain(&mut process.code);
            }
        }
        let mappings = |pid| processes[pid].mappings.clone();
        seen.iter().map(|(pid, seen)| seen.evidence(mappings(pid))).collect()
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
    sampler: Result<Option<Sampler>, CounterError>,
    profiler: Profiler,
    counting: Result<Counting, String>,
}

impl ObservedThread {
    fn open(thread: u32, look: Look) -> Self {
        let start = |table| Counting::start(CounterGroup::open, table, thread);
        Self {
            sampler: Sampler::open(thread, PERIOD_NS).map(Some),
            profiler: Profiler::new(look.cache),
            counting: look.table.map_err(str::to_owned).and_then(start),
        }
    }

    /// Returns true if there is more to see.
    fn is_watched(&self) -> bool {
        match &self.sampler {
            Ok(sampler) => sampler.is_some(),
            Err(_) => self.counting.is_ok(),
        }
    }

    fn drain(&mut self, code: &mut Code) {
        let Self { sampler: Ok(sampler), profiler, .. } = self else { return };
        profiler.begin_round();
        sampler.iter_mut().for_each(|sampler| sampler.drain(|sample| profiler.add(&sample, code)));
        if profiler.samples() >= ENOUGH {
            *sampler = None;
        }
    }

    fn evidence(&self, mappings: Result<Option<String>, Unavailable>) -> Evidence {
        let counters = self.counting.as_ref().map_err(Clone::clone).and_then(Counting::finish);
        let profile = self.sampler.as_ref().map(|_| self.profiler.finish());
        Evidence {
            mappings,
            profile: profile.map_err(|error| Unavailable(error.to_string())),
            counters: counters.map_err(Unavailable),
        }
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
