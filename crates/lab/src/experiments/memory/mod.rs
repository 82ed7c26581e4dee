//! What a suspended thread costs in memory.
//!
//! 1. The handles have their place in a vector that is allocated and written
//!    to beforehand: it is the user's own. One thread has run, so that code and
//!    the runtime's first memory are there.
//! 2. `VmRSS + VmPTE` is read: what is resident, and its page tables.
//! 3. `threads` threads are created, all on stacks of 64 KiB with a guard, and
//!    suspend.
//! 4. It is read again. A point is the growth divided by `threads`.
//!
//! What the kernel keeps for a thread of its own (its kernel stack, its task)
//! is in neither figure.

mod daiko;
mod nptl;

use std::{fs, time::Instant};

use daiko_sys::limits;

use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Skip, Unit,
};

const NPTL: &str = "nptl";
const DAIKO: &str = "daiko";

const THREADS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];
const MOST_QUICK: usize = 100_000;
/// Beyond this many kernel threads a machine's limits are the subject.
const MOST_KERNEL_THREADS: usize = 10_000;

/// More bytes than a suspended fiber takes: a page of stack, page tables, what
/// the runtime adds.
const ENOUGH_EACH: u64 = 5000;
/// More bytes than a suspended thread takes, the kernel's own included.
const ENOUGH_EACH_NPTL: u64 = 30_000;

/// Bytes per suspended thread.
pub struct Memory;

impl Experiment for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "memory per suspended thread with a guarded stack, up to a million of them"
    }

    fn methods(&self) -> Vec<&'static str> {
        vec![NPTL, DAIKO]
    }

    fn takes(&self, list: List) -> bool {
        list == List::Threads
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let available = available_bytes();
        let methods = self.methods().into_iter().filter(|method| options.wants(method));
        methods
            .flat_map(|method| threads(method, options).into_iter().map(move |n| (method, n)))
            .map(|(method, threads)| planned(method, threads, available))
            .collect()
    }

    fn sample(&self, case: &Case, _: Effort) -> Result<Sample, Failure> {
        let Some(threads) = case.params.number("threads").filter(|&threads| threads > 0) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let start = Instant::now();
        let grown = match case.method.as_str() {
            NPTL => nptl::growth(threads as usize)?,
            DAIKO => daiko::growth(threads as usize)?,
            _ => return Err(Failure::Broken(format!("{case}: there is no such point"))),
        };
        let each = grown as f64 / threads as f64;
        let readings = vec![Reading::new(Unit::Bytes, each)];
        Ok(Sample { rounds: threads, elapsed: start.elapsed(), readings })
    }
}

/// A round is a thread.
fn planned(method: &str, threads: usize, available: Option<u64>) -> Planned {
    let params = Params::new().with("threads", threads);
    let case = Case { experiment: "memory".into(), method: method.into(), params };
    let rounds = match too_many(method, threads, available) {
        Some(skip) => Err(skip),
        None => Ok(Rounds::Fixed(threads as u64)),
    };
    Planned { case, rounds }
}

fn threads(method: &str, options: &Options) -> Vec<usize> {
    if let Some(asked) = &options.threads {
        return asked.clone();
    }
    let most = match (method, options.quick) {
        (NPTL, _) => MOST_KERNEL_THREADS,
        (_, true) => MOST_QUICK,
        (_, false) => usize::MAX,
    };
    THREADS.into_iter().filter(|&threads| threads <= most).collect()
}

/// Why so many threads are not even tried, where `available` bytes are free.
fn too_many(method: &str, threads: usize, available: Option<u64>) -> Option<Skip> {
    if method == NPTL && threads > MOST_KERNEL_THREADS {
        return Some(Skip::new(format!("kernel threads are measured up to {MOST_KERNEL_THREADS}")));
    }
    let each = if method == NPTL { ENOUGH_EACH_NPTL } else { ENOUGH_EACH };
    let needed = threads as u64 * each;
    let available = available.filter(|&available| needed > available)?;
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    Some(Skip::new(format!(
        "needs {} MiB of memory; {} are available",
        mebibytes(needed),
        mebibytes(available)
    )))
}

/// Whether this machine has memory for so many fibers, as far as it tells.
pub(crate) fn room_for_fibers(fibers: usize) -> Result<(), Skip> {
    too_many(DAIKO, fibers, available_bytes()).map_or(Ok(()), Err)
}

/// What can be used without swapping, as the kernel estimates it.
fn available_bytes() -> Option<u64> {
    limits::kib_field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")?.checked_mul(1024)
}

/// Bytes of this process that are resident, and those of its page tables.
fn resident_bytes() -> Result<u64, Failure> {
    let field = |name| {
        let value = limits::status_kib(name);
        value.ok_or_else(|| {
            Failure::Unavailable(format!("/proc/self/status does not tell {name}: mount /proc"))
        })
    };
    Ok((field("VmRSS")? + field("VmPTE")?) * 1024)
}

/// Places for so many handles, in memory that is resident already.
fn places<T>(count: usize) -> Vec<Option<T>> {
    // Opaque, lest the compiler asks for zeroed memory, which is not resident.
    (0..count).map(|_| std::hint::black_box(None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process::Command, time::Duration};

    /// Set in a process that runs one test, and nothing else that allocates.
    const ALONE: &str = "DAIKO_LAB_TEST_ALONE";

    /// Runs `body`, the test `name` of this module, in a process of its own.
    fn alone(name: &str, body: fn()) {
        if env::var_os(ALONE).is_some() {
            return body();
        }
        let name = format!("experiments::memory::tests::{name}");
        let mut child = Command::new(env::current_exe().expect("the test's own program"));
        let child = child.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output();
        let output = child.expect("a child process");
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}{failed}");
    }

    #[test]
    fn a_suspended_thread_takes_its_page_and_not_much_more() {
        alone("a_suspended_thread_takes_its_page_and_not_much_more", || {
            let options = Options { threads: Some(vec![2000]), ..Options::default() };
            for planned in Memory.plan(&options) {
                let effort = Effort { rounds: 2000, limit: Duration::from_secs(60) };
                let sample = Memory.sample(&planned.case, effort).expect("a sample");
                let [reading] = &sample.readings[..] else { panic!("{}", planned.case) };
                assert_eq!((sample.rounds, reading.unit), (2000, Unit::Bytes));
                let most = match planned.case.method.as_str() {
                    NPTL => 20_000.0,
                    _ => 2.0 * ENOUGH_EACH as f64,
                };
                assert!((4096.0..most).contains(&reading.value), "{}: {reading:?}", planned.case);
            }
        });
    }

    #[test]
    fn places_are_resident_before_they_are_used() {
        alone("places_are_resident_before_they_are_used", || {
            let before = resident_bytes().unwrap();
            let places = places::<Box<u8>>(1 << 21);
            let grown = resident_bytes().unwrap() - before;
            assert!(grown >= 15 << 20, "{grown}");
            drop(places);
        });
    }

    fn planned_threads(options: &Options) -> Vec<String> {
        let plan = Memory.plan(options);
        plan.iter().map(|planned| planned.case.to_string()).collect()
    }

    #[test]
    fn kernel_threads_end_where_the_machine_does() {
        let plan = planned_threads(&Options::default());
        let nptl: Vec<_> = plan.iter().filter(|case| case.contains("nptl")).collect();
        assert_eq!(nptl, ["memory nptl threads=1000", "memory nptl threads=10000"]);
        assert!(plan.contains(&"memory daiko threads=1000000".to_owned()));
        assert!(too_many(NPTL, 10_001, None).is_some());
    }

    #[test]
    fn quick_runs_leave_the_million_out() {
        let plan = planned_threads(&Options { quick: true, ..Options::default() });
        assert_eq!(plan.last().map(String::as_str), Some("memory daiko threads=100000"));
    }

    #[test]
    fn what_does_not_fit_is_skipped_with_the_figures() {
        assert_eq!(too_many(DAIKO, 1_000_000, None), None);
        assert_eq!(too_many(DAIKO, 1000, Some(5_000_000)), None);
        let skip = too_many(DAIKO, 1000, Some(4 << 20)).expect("a skip");
        assert_eq!(skip.reason, "needs 5 MiB of memory; 4 are available");
    }
}
