//! The environment of worker processes: denied system calls, CPUs, children by `fork`.

use daiko::{Builder, SpawnError};
use daiko_sys::cpu::{self, CpuSet};

use super::{end, processes, run_on_two};
use crate::End;
use crate::support::seccomp::forbid;

super::cases! {
    workers_run_without_calls_that_they_can_do_without End::Well,
    worker_processes_may_run_where_the_program_may End::Well,
    bound_processes_confine_all_but_blocking_calls End::Well,
    an_inherited_runtime_of_processes_refuses End::Well,
    the_closures_of_a_join_run_in_their_caller End::Well,
}

fn workers_run_without_calls_that_they_can_do_without() {
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sigaltstack,
        libc::SYS_membarrier,
        libc::SYS_io_uring_setup,
        libc::SYS_ptrace,
    ] {
        forbid(call, libc::EPERM);
        run_on_two(|| {
            let fibers: Vec<_> = (0..100).map(|i| daiko::spawn(move || i)).collect();
            assert_eq!(fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>(), 4950);
            assert_eq!(daiko::blocking(|| 5), 5);
        });
    }
}

/// Returns the CPUs that the calling thread may use.
fn mine() -> CpuSet {
    cpu::allowed().unwrap()
}

fn worker_processes_may_run_where_the_program_may() {
    let all = mine();
    run_on_two(move || {
        assert_eq!(mine(), all);
        assert_eq!(daiko::blocking(mine), all);
    });
}

fn bound_processes_confine_all_but_blocking_calls() {
    let all = mine();
    let runtime = processes(2).bind(true).build().unwrap();
    let of = |worker| {
        let body = || (mine().len(), [daiko::blocking(mine), daiko::blocking(mine)]);
        runtime.spawn_with(Builder::new().on(worker), body).unwrap().join().unwrap()
    };
    for worker in [0, 1] {
        assert_eq!(of(worker), (1, [all.clone(), all.clone()]));
    }
    end(runtime);
}

fn an_inherited_runtime_of_processes_refuses() {
    let runtime = processes(2).build().unwrap();
    // SAFETY: the child refuses to spawn, and ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let refused = runtime.spawn_with(Builder::new(), || ());
            libc::_exit(i32::from(!matches!(refused, Err(SpawnError::Forked))));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0);
    }
    end(runtime);
}

fn the_closures_of_a_join_run_in_their_caller() {
    fn sum(numbers: &[u64]) -> u64 {
        let here = daiko::current();
        let (left, right) = numbers.split_at(numbers.len() / 2);
        let part = |numbers: &[u64]| {
            daiko::yield_now();
            assert_eq!(daiko::current(), here);
            if numbers.len() == 1 { numbers[0] } else { sum(numbers) }
        };
        let (left, right) = daiko::join(|| part(left), || part(right));
        left + right
    }
    run_on_two(|| {
        let fibers = [1, 2].map(|factor| {
            daiko::spawn(move || sum(&std::array::from_fn::<_, 64, _>(|i| factor * i as u64)))
        });
        assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), [2016, 4032]);
        // A child that its joiner would begin, where workers are threads.
        assert_eq!(daiko::spawn(|| daiko::spawn(|| 7).join().unwrap()).join().unwrap(), 7);
    });
}
