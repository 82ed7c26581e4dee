//! The CPUs of what a fiber starts: threads, processes, runtimes.

use std::process::Command;
use std::thread;

use crate::support::{assert_names, end, run_on, skip};
use daiko::{BuildError, Builder, Placement, Runtime, RuntimeBuilder};
use daiko_sys::cpu::{self, CpuSet};

/// Returns the CPUs that the calling thread may use.
fn mine() -> CpuSet {
    cpu::allowed().unwrap()
}

/// Returns the CPUs that a child started by `Command` may use.
fn of_command() -> CpuSet {
    let output = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let status = String::from_utf8(output.stdout).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().parse().unwrap()
}

/// Returns true if a child that is forked may use exactly these CPUs.
fn is_of_fork(expected: &CpuSet) -> bool {
    // SAFETY: the child only reads its mask, and ends without unwinding into the fiber's frames.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(i32::from(cpu::allowed().ok().as_ref() != Some(expected)));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status == 0
    }
}

/// Checks that all that the calling fiber starts may use the CPUs of the process, `all`.
fn starts_are_free(all: &CpuSet) {
    assert_eq!(daiko::blocking(mine), *all);
    assert_eq!(thread::spawn(mine).join().unwrap(), *all);
    assert_eq!(of_command(), *all);
    assert!(is_of_fork(all));
    assert_eq!(thread::available_parallelism().unwrap().get(), cpu::default_workers());
    let nested = Runtime::builder().build().unwrap();
    assert_eq!(nested.workers(), cpu::default_workers());
    assert_eq!(nested.run(mine), *all);
    end(nested);
}

fn free() -> [fn() -> RuntimeBuilder; 3] {
    [
        || Runtime::builder().workers(2),
        || Runtime::builder().workers(2).bind(false),
        || Runtime::builder().workers(2).pairing(false),
    ]
}

#[test]
fn what_a_fiber_starts_may_run_where_the_process_may() {
    for builder in free() {
        let all = mine();
        run_on(builder(), move || starts_are_free(&all));
    }
    let all = mine();
    daiko::run(move || starts_are_free(&all));
}

/// A runtime takes the CPUs of the thread that builds it for those of the process.
#[test]
fn a_narrowed_process_is_as_free_within_its_cpus() {
    let narrowed = || {
        let one = CpuSet::from_iter(mine().iter().take(1));
        cpu::bind_current(&one).unwrap();
        run_on(Runtime::builder(), move || {
            assert_eq!(mine(), one);
            assert_eq!(daiko::blocking(mine), one);
        });
    };
    thread::spawn(narrowed).join().unwrap();
}

/// Returns the masks of the fibers of both workers, of their threads, and of their calls of
/// `blocking`.
fn masks(builder: RuntimeBuilder) -> [[CpuSet; 3]; 2] {
    let runtime = builder.build().unwrap();
    let of = |worker| {
        let body = || [mine(), thread::spawn(mine).join().unwrap(), daiko::blocking(mine)];
        runtime.spawn_with(Builder::new().on(worker), body).unwrap().join().unwrap()
    };
    let masks = [of(0), of(1)];
    end(runtime);
    masks
}

/// Returns the first two CPUs.
fn two_cpus() -> Option<[usize; 2]> {
    let two = mine().iter().take(2).collect::<Vec<_>>().try_into().ok();
    if two.is_none() {
        skip("there is one CPU");
    }
    two
}

#[test]
fn bound_workers_confine_all_but_blocking_calls() {
    let Some(cpus) = two_cpus() else { return };
    let all = mine();
    let bound = || Runtime::builder().workers(2).cpus(cpus);
    for builder in [
        bound().bind(true),
        bound().pairing(true),
        bound().placement(Placement::Follow),
        bound().bind(true).pairing(false),
    ] {
        let one = |cpu| CpuSet::from_iter([cpu]);
        let expected = cpus.map(|cpu| [one(cpu), one(cpu), all.clone()]);
        assert_eq!(masks(builder), expected);
    }
}

#[test]
fn chosen_cpus_confine_all_but_blocking_calls() {
    let all = mine();
    let one = CpuSet::from_iter(all.iter().take(1));
    let builder = Runtime::builder().workers(2).cpus(one.iter());
    let expected = [one.clone(), one, all];
    assert_eq!(masks(builder), [expected.clone(), expected]);
}

#[test]
fn a_setting_that_needs_bound_workers_is_refused_without() {
    let unbound = || Runtime::builder().workers(2).bind(false);
    for (builder, named) in [
        (unbound().pairing(true), "pairing(true)"),
        (unbound().placement(Placement::Follow), "placement(Placement::Follow)"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::Unbound { setting } if setting == named), "{error:?}");
        assert_names(&error, "leave out bind(false)");
    }
}
