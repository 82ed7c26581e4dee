//! System calls that a filter denies, as sandboxes do: the runtime starts without them, or names
//! the call and the remedy.

use std::os::unix::process::ExitStatusExt;
use std::thread;

use crate::support::child::emulated::LinuxPart;
use crate::support::child::{in_child, in_child_well, stderr};
use crate::support::seccomp::forbid;
use crate::support::{assert_names, end, run_on, scenarios};
use daiko::{BuildError, Placement, Runtime, RuntimeBuilder};

/// Calls that a runtime can do without.
const DISPENSABLE: [libc::c_long; 8] = [
    libc::SYS_process_madvise,
    libc::SYS_sched_setaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_membarrier,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
];

/// Runs `body` on a thread on which `calls` fail with `errno`.
fn without(calls: &[libc::c_long], errno: i32, body: impl FnOnce() + Send) {
    let denied = || {
        calls.iter().for_each(|&call| forbid(call, errno));
        body();
    };
    thread::scope(|scope| scope.spawn(denied).join().unwrap());
}

#[test]
fn a_runtime_works_without_each_call_that_it_can_do_without() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_child_well("denied::a_runtime_works_without_each_call_that_it_can_do_without", || {
        for errno in [libc::EPERM, libc::ENOSYS] {
            for call in DISPENSABLE {
                without(&[call], errno, || scenarios::all(Runtime::builder));
            }
        }
    });
}

#[test]
fn the_default_runtime_works_without_all_of_them() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_child_well("denied::the_default_runtime_works_without_all_of_them", || {
        without(&DISPENSABLE, libc::EPERM, || {
            assert_eq!(daiko::run(|| daiko::spawn(|| daiko::blocking(|| 5)).join().unwrap()), 5);
        });
    });
}

fn refused(builder: RuntimeBuilder, call: &str, remedy: &str) {
    let error = builder.build().unwrap_err();
    assert!(matches!(&error, BuildError::Refused(refused) if refused.call == call), "{error:?}");
    assert_names(&error, &format!("{call} is refused"));
    assert_names(&error, remedy);
}

#[test]
fn a_setting_that_needs_a_denied_call_names_it() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_child_well("denied::a_setting_that_needs_a_denied_call_names_it", || {
        let cpus: Vec<usize> = daiko_sys::cpu::allowed().unwrap().iter().collect();
        without(&[libc::SYS_sched_setaffinity], libc::EPERM, || {
            let (call, remedy) = ("sched_setaffinity", "leave out RuntimeBuilder::cpus, bind");
            refused(Runtime::builder().bind(true), call, remedy);
            refused(Runtime::builder().pairing(true), call, remedy);
            refused(Runtime::builder().placement(Placement::Follow), call, remedy);
            if cpus.len() > 1 {
                refused(Runtime::builder().cpus([cpus[0]]), call, remedy);
            }
            run_on(Runtime::builder().cpus(cpus), || ());
        });
    });
}

#[test]
fn a_denied_call_that_every_runtime_makes_is_named() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_child_well("denied::a_denied_call_that_every_runtime_makes_is_named", || {
        without(&[libc::SYS_sched_getaffinity], libc::EPERM, || {
            refused(Runtime::builder(), "sched_getaffinity", "allow it in the seccomp filter");
        });
    });
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 128]);
    if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[7] }
}

#[test]
fn an_overflow_without_an_alternate_stack_ends_the_process() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    let output =
        in_child("denied::an_overflow_without_an_alternate_stack_ends_the_process", || {
            without(&[libc::SYS_sigaltstack], libc::EPERM, || {
                let runtime = Runtime::builder().workers(1).build().unwrap();
                eprintln!("runs");
                let depth = runtime.run(|| deeper(std::hint::black_box(0)));
                println!("{depth}");
                end(runtime);
            });
        });
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    assert!(stderr(&output).contains("runs"));
}
