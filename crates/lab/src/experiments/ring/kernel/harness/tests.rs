//! Runs every mechanism through the same rings, and the harness through faults.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, io};

use daiko_sys::cpu;

use super::super::futex::Futex;
use super::super::{methods, polling};
use super::testing::ring;
use super::{Buffer, Conductor, Port, gates, ports};
use crate::experiments::ring::{Cpus, RingOutcome, RingSpec};
use crate::kit::Failure;

fn run_all(threads: usize, cpus: Cpus) {
    for method in methods() {
        let spec = RingSpec { cpus, ..ring(threads, 3) };
        if let Err(skip) = (method.supports)(&spec) {
            println!("skipped: {} with {cpus:?}: {skip}", method.name);
            continue;
        }
        let outcome = (method.run)(&spec).unwrap_or_else(|failure| {
            panic!("{} with {threads} threads, {cpus:?}: {failure}", method.name)
        });
        assert_eq!(outcome.laps, 3, "{}", method.name);
        assert!(outcome.elapsed > Duration::ZERO);
    }
}

#[test]
fn every_method_does_all_laps_on_all_cpus() {
    [2, 3, 10].into_iter().for_each(|threads| run_all(threads, Cpus::All));
}

#[test]
fn every_method_does_all_laps_on_one_cpu() {
    [2, 3, 10].into_iter().for_each(|threads| run_all(threads, Cpus::One));
}

#[test]
fn names_are_those_of_the_result_format() {
    let names: Vec<_> = methods().iter().map(|method| method.name).collect();
    let format = [
        "rtsignal",
        "polling",
        "agent+rtsignal",
        "futex",
        "semaphore",
        "condvar",
        "eventfd",
        "pipe",
    ];
    assert_eq!(names, format);
}

/// A run that only its limit ends.
fn endless(threads: usize) -> RingSpec {
    RingSpec { limit: Duration::from_millis(200), ..ring(threads, u64::MAX / 2) }
}

fn ended_early(result: Result<RingOutcome, Failure>) {
    assert!(result.unwrap().laps < u64::MAX / 2);
}

#[test]
fn the_limit_ends_every_method_early() {
    let spec = endless(2);
    for method in methods() {
        if (method.supports)(&spec).is_ok() {
            ended_early((method.run)(&spec));
        }
    }
}

#[test]
fn the_limit_ends_polling_with_more_threads_than_cpus() {
    let threads = cpu::allowed().unwrap().len() + 1;
    ended_early((polling::method().run)(&endless(threads)));
}

#[test]
fn polling_with_far_more_threads_than_cpus_is_refused() {
    let skip = (polling::method().supports)(&ring(100_000, 1)).unwrap_err();
    assert!(skip.reason.contains("time slices"), "{skip}");
}

#[test]
fn an_agent_without_a_cpu_of_its_own_is_refused() {
    let spec = RingSpec { cpus: Cpus::One, ..ring(2, 1) };
    let method = methods().into_iter().find(|method| method.name == "agent+rtsignal").unwrap();
    let skip = (method.supports)(&spec).unwrap_err();
    assert!(skip.reason.contains("CPU of its own"), "{skip}");
}

/// A port that sends a wrong datum in place of `SPOILT`.
struct Spoiler<P>(P);

const SPOILT: u64 = 4;

impl<P: Port> Port for Spoiler<P> {
    fn attach(&self) {
        self.0.attach();
    }

    fn receive(&self, last: u64, conductor: &Conductor) -> u64 {
        self.0.receive(last, conductor)
    }

    fn send(&self, datum: u64) {
        self.0.send(if datum == SPOILT { datum + 70 } else { datum });
    }

    fn rouse(&self) {
        self.0.rouse();
    }
}

#[test]
fn a_wrong_datum_is_found_and_ends_all() {
    let open = |threads| Ok((0..threads).map(|_| Spoiler(Buffer::new(Futex::default()))).collect());
    let method = ports("spoiler", open, None);
    let result = (method.run)(&ring(10, 100));
    assert_eq!(result, Err(Failure::WrongDatum { expected: SPOILT, found: SPOILT + 70 }));
}

/// Counts the ports that were opened but not dropped.
struct Counted(Buffer<Futex>, Arc<AtomicUsize>);

thread_local! {
    static OPEN: Arc<AtomicUsize> = Arc::default();
}

fn open_counted(threads: usize) -> io::Result<Vec<Counted>> {
    let count = OPEN.with(Arc::clone);
    count.store(threads, Ordering::Relaxed);
    let port = |_| Counted(Buffer::new(Futex::default()), Arc::clone(&count));
    Ok((0..threads).map(port).collect())
}

impl Port for Counted {
    fn receive(&self, last: u64, conductor: &Conductor) -> u64 {
        self.0.receive(last, conductor)
    }

    fn send(&self, datum: u64) {
        self.0.send(datum);
    }

    fn rouse(&self) {
        self.0.rouse();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_run_that_is_ended_early_leaves_no_port_behind() {
    ended_early((ports("counted", open_counted, None).run)(&endless(50)));
    assert_eq!(OPEN.with(|count| count.load(Ordering::Relaxed)), 0);
}

/// Set in the child of the test below.
const FEW_THREADS: &str = "DAIKO_LAB_TEST_FEW_THREADS";

/// Limits this process to about 20 threads. Returns false if that is not possible.
fn allow_few_threads() -> bool {
    const UNPRIVILEGED: libc::uid_t = 65534;
    let limit = libc::rlimit { rlim_cur: 20, rlim_max: 20 };
    // SAFETY: `limit` is valid for reads. The limit does not apply to root, and this process needs
    // no privilege of root.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NPROC, &limit) == 0
            && (libc::geteuid() != 0 || libc::setuid(UNPRIVILEGED) == 0)
    }
}

#[test]
fn threads_beyond_a_limit_fail_with_its_name() {
    if env::var_os(FEW_THREADS).is_none() {
        let name =
            "experiments::ring::kernel::harness::tests::threads_beyond_a_limit_fail_with_its_name";
        let child = Command::new(env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(FEW_THREADS, "1")
            .status();
        assert!(child.unwrap().success());
    } else if allow_few_threads() {
        let failure = (gates::<Futex>("futex").run)(&ring(100, 1)).unwrap_err();
        assert!(matches!(failure, Failure::Limit(_)), "{failure:?}");
        assert!(failure.to_string().contains("RLIMIT_NPROC = 20"), "{failure}");
    } else {
        println!("skipped: cannot limit the threads of a process here");
    }
}
