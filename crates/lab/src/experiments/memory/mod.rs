//! Memory cost of a suspended thread.
//!
//! 1. The handles have their places in a vector that is allocated and written beforehand, as it
//!    belongs to the user. One thread has run, so that code and the runtime's first memory are
//!    resident.
//! 2. `VmRSS + VmPTE` is read: resident memory and its page tables.
//! 3. `threads` threads are created, on stacks of `stack-kib` KiB with a guard, and suspend.
//!    Fibers of `daiko` are of the default kind; those of `daiko-borrowed` borrow thread-locals.
//! 4. It is read again. A point is the growth divided by `threads`.
//!
//! Memory that the kernel keeps for a thread (its kernel stack and task) is in neither figure.

mod daiko;
mod growth;
mod nptl;

use std::time::Instant;

use crate::kit::free_memory::{self, available_bytes};
use crate::kit::{
    Experiment, FiberKind, List, Measure, Options, Params, Plan, Reading, Rounds, Sample, Skip,
    Unit, thread_limits,
};

const NPTL: &str = "nptl";
const DAIKO: &str = "daiko";
const BORROWED: &str = "daiko-borrowed";
const METHODS: [&str; 3] = [NPTL, DAIKO, BORROWED];

/// Sizes of fibers' stacks, in KiB. Threads have the smaller one.
const STACKS: [usize; 2] = [64, 256];

const THREADS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];
const MOST_QUICK: usize = 100_000;

/// More bytes than a suspended thread takes, including those of the kernel.
const ENOUGH_EACH_NPTL: u64 = 30_000;

/// Bytes per suspended thread.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    about: "memory per suspended thread with a guarded stack, up to a million of them",
    sizes: &["threads"],
    lists: &[List::Threads],
    methods: || METHODS.into(),
    cases,
    measure,
    published: Vec::new,
    sections: |_| Vec::new(),
};

/// Plans all points. A round is a thread.
fn cases(plan: &mut Plan<'_>) {
    let available = available_bytes();
    for method in METHODS {
        let stacks = if method == NPTL { &STACKS[..1] } else { &STACKS };
        for threads in threads(method, plan.options) {
            for stack in stacks {
                let rounds = too_many(method, threads, available).map_or(Ok(threads as u64), Err);
                let params = Params::new().with("threads", threads).with("stack-kib", *stack);
                plan.add(method, params, rounds.map(Rounds::Fixed));
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = METHODS.into_iter().find(|known| *known == method)?;
    let stack = params.size("stack-kib").filter(|stack| STACKS.contains(stack))? << 10;
    let growth = move |threads| match method {
        NPTL => nptl::growth(threads),
        DAIKO => daiko::growth(FiberKind::Default, threads, stack),
        _ => daiko::growth(FiberKind::Borrowed, threads, stack),
    };
    let threads = params.size("threads").filter(|&threads| threads > 0)?;
    Some(Box::new(move |_| {
        let start = Instant::now();
        let each = growth(threads)? as f64 / threads as f64;
        let readings = vec![Reading::new(Unit::Bytes, each)];
        Ok(Sample { rounds: threads as u64, elapsed: start.elapsed(), readings })
    }))
}

fn threads(method: &str, options: &Options) -> Vec<usize> {
    let most = match (method, options.quick) {
        (NPTL, _) => thread_limits::MOST,
        (_, true) => MOST_QUICK,
        (_, false) => usize::MAX,
    };
    let own = || THREADS.into_iter().filter(|&threads| threads <= most).collect();
    options.threads.clone().unwrap_or_else(own)
}

/// Reason why this many threads are not tried when `available` bytes are free.
fn too_many(method: &str, threads: usize, available: Option<u64>) -> Option<Skip> {
    match method {
        NPTL if threads > thread_limits::MOST => thread_limits::check(threads).err(),
        NPTL => free_memory::room(threads, ENOUGH_EACH_NPTL, available).err(),
        BORROWED => free_memory::room(threads, free_memory::BORROWED_FIBER, available).err(),
        _ => free_memory::room(threads, free_memory::FIBER, available).err(),
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;
    use std::time::Duration;

    use super::growth::*;
    use super::*;
    use crate::kit::Effort;

    /// Set in a process that runs one test and nothing else that allocates.
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
            for planned in EXPERIMENT.plan(&options) {
                let effort = Effort { rounds: 2000, limit: Duration::from_secs(60) };
                let sample = EXPERIMENT.sample(&planned.case, effort).expect("a sample");
                let [reading] = &sample.readings[..] else { panic!("{}", planned.case) };
                assert_eq!((sample.rounds, reading.unit), (2000, Unit::Bytes));
                let most = match planned.case.method.as_str() {
                    NPTL => 20_000.0,
                    BORROWED => 2.0 * free_memory::BORROWED_FIBER as f64,
                    _ => 2.0 * free_memory::FIBER as f64,
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
        let plan = EXPERIMENT.plan(options);
        plan.iter().map(|planned| planned.case.to_string()).collect()
    }

    #[test]
    fn kernel_threads_end_where_the_machine_does() {
        let plan = planned_threads(&Options::default());
        let nptl: Vec<_> = plan.iter().filter(|case| case.contains("nptl")).collect();
        let both = ["1000", "10000"].map(|n| format!("memory nptl threads={n} stack-kib=64"));
        assert_eq!(nptl, both.each_ref());
        assert!(plan.contains(&"memory daiko threads=1000000 stack-kib=256".to_owned()));
        assert!(too_many(NPTL, 10_001, None).is_some());
    }

    #[test]
    fn quick_runs_leave_the_million_out() {
        let plan = planned_threads(&Options { quick: true, ..Options::default() });
        let last = "memory daiko-borrowed threads=100000 stack-kib=256";
        assert!(plan.iter().any(|case| case == last));
        assert!(!plan.iter().any(|case| case.contains("threads=1000000 ")));
    }

    #[test]
    fn a_point_beyond_memory_is_skipped_with_the_figures() {
        assert_eq!(too_many(DAIKO, 1_000_000, None), None);
        assert_eq!(too_many(DAIKO, 1000, Some(10_000_000)), None);
        let skip = too_many(BORROWED, 1000, Some(4 << 20)).expect("a skip");
        assert_eq!(skip.reason, "needs 5 MiB of memory; 4 are available");
    }
}
