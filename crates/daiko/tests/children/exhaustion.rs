//! Exhausted resources: the call returns an error, nothing leaks, and running fibers go on.
//!
//! Each case changes the limits of a child process.

use std::fs;
use std::sync::mpsc;
use std::thread;

use super::control_groups::made;
use crate::support::child::emulated::LinuxPart;
use crate::support::child::in_child_well;
use crate::support::{
    Drops, assert_names, end, migratable, panic_of, run_on, skip, until, workers,
};
use daiko::{BuildError, Builder, JoinHandle, Runtime, SpawnError, StackError};
use daiko_sys::cgroup::GroupLimit;
use daiko_sys::limits;
use daiko_sys::memory::{GuardKind, MemoryError, page_size};

/// Stacks that a worker keeps for the fibers that it spawns itself.
const KEPT: usize = 256;

/// Sets the soft limit; the hard limit stays.
fn limit(resource: libc::__rlimit_resource_t, soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a live local, in both calls.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &mut limit), 0);
        limit.rlim_cur = soft.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(resource, &limit), 0);
    }
}

fn address_space_used() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    pages * page_size() as u64
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Spawns fibers that park until there is room for no more. Returns their number and the error.
///
/// Half of them end before the rest, which runs on meanwhile and finds its data unchanged.
fn fill_up(builder: impl Fn() -> Builder) -> (usize, MemoryError) {
    let drops = Drops::default();
    // So that the list itself needs no memory when there is none.
    let mut parked: Vec<JoinHandle<usize>> = Vec::with_capacity(2_000_000);
    let error = loop {
        let (token, i) = (drops.token(), parked.len());
        let body = move || {
            let (_token, own) = (token, std::hint::black_box([i; 16]));
            daiko::park();
            own[i % 16]
        };
        match builder().spawn(body) {
            Ok(handle) => parked.push(handle),
            Err(SpawnError::Stack(StackError::Memory(error))) => break error,
            Err(error) => panic!("{error:?}"),
        }
        if parked.len().is_multiple_of(1000) {
            daiko::yield_now();
        }
    };
    assert_eq!(drops.dropped(), 1, "the closure that was refused");
    let count = parked.len();
    for (i, handle) in parked.into_iter().enumerate() {
        handle.fiber().unpark();
        assert_eq!(handle.join().unwrap(), i);
        if i == count / 2 {
            // There is room for new fibers now.
            assert_eq!(builder().spawn(|| 5).unwrap().join().unwrap(), 5);
        }
    }
    drops.assert_all();
    (count, error)
}

#[test]
fn a_full_address_space_is_an_error_of_the_spawn() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    in_child_well("exhaustion::a_full_address_space_is_an_error_of_the_spawn", || {
        let runtime = Runtime::builder().workers(1).stack_size(64 << 10).build().unwrap();
        // The list of handles, stacks, and the address space that glibc reserves for the heap of
        // another thread.
        runtime.run(|| drop(daiko::spawn(|| ()).join()));
        limit(libc::RLIMIT_AS, address_space_used() + (512 << 20));
        runtime.run(|| {
            let (first, error) = fill_up(Builder::new);
            assert!(matches!(error, MemoryError::AddressSpace { .. }), "{error:?}");
            assert_names(&error, "RLIMIT_AS");
            assert!(first > 2 * KEPT, "{first}");
            for _ in 0..3 {
                let again = fill_up(Builder::new).0;
                assert!(again + KEPT >= first, "{again} after {first}");
            }
        });
        end(runtime);
    });
}

/// There is no stack for the second closure, so it stays with its caller.
#[test]
fn a_join_without_memory_for_a_fiber_runs_both_closures_in_the_caller() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    let name = "exhaustion::a_join_without_memory_for_a_fiber_runs_both_closures_in_the_caller";
    in_child_well(name, || {
        let runtime = Runtime::builder().workers(1).stack_size(64 << 10).build().unwrap();
        runtime.run(|| drop(daiko::spawn(|| ()).join()));
        limit(libc::RLIMIT_AS, address_space_used() + (64 << 20));
        runtime.run(|| {
            let mut parked = Vec::with_capacity(100_000);
            while let Ok(handle) = Builder::new().spawn(daiko::park) {
                parked.push(handle);
            }
            let here = daiko::current();
            // The worker looks for offers at every 61st pick.
            let yields = || (0..300).for_each(|_| daiko::yield_now());
            let in_place = || daiko::join(yields, || daiko::current() == here).1;
            assert!(in_place());
            parked.drain(..).for_each(|handle| {
                handle.fiber().unpark();
                handle.join().unwrap();
            });
            assert!(!in_place(), "there is room now");
        });
        end(runtime);
    });
}

#[test]
fn a_full_address_space_is_an_error_for_another_size_and_a_large_closure() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    in_child_well(
        "exhaustion::a_full_address_space_is_an_error_for_another_size_and_a_large_closure",
        || {
            let runtime = workers(1);
            let untouched = runtime.spawn(|| {
                let own = std::hint::black_box([7; 64]);
                daiko::park();
                own[63]
            });
            runtime.run(daiko::yield_now);
            limit(libc::RLIMIT_AS, address_space_used() + (8 << 20));
            runtime.run(|| {
                let error = Builder::new().stack_size(256 << 20).spawn(|| ()).unwrap_err();
                assert_names(&error, "RLIMIT_AS");
            });
            untouched.fiber().unpark();
            assert_eq!(untouched.join().unwrap(), 7);
            end(runtime);
        },
    );
}

/// Makes the spare of the only worker start. Later it might find no mapping left for the signal
/// stack that `std` gives to each thread, and then `std` ends the process.
fn start_spare(runtime: &Runtime) {
    let (release, held) = mpsc::channel::<()>();
    let keeps_the_worker = runtime.spawn(move || held.recv());
    // Only the spare can run this fiber.
    runtime.spawn(|| ()).join().unwrap();
    drop(release);
    assert!(keeps_the_worker.join().unwrap().is_err());
}

#[test]
fn guards_beyond_the_limit_of_mappings_name_it() {
    if !has_light_blocks() {
        return;
    }
    in_child_well("exhaustion::guards_beyond_the_limit_of_mappings_name_it", || {
        let most = limits::max_map_count().unwrap();
        if most > 200_000 {
            return skip("vm.max_map_count is above 200,000");
        }
        let builder = Runtime::builder().workers(1).stack_size(16 << 10);
        let runtime = builder.fallbacks(Some(GuardKind::Protect), true).build().unwrap();
        start_spare(&runtime);
        let main = Builder::new().stack_size(256 << 10);
        let main = runtime.spawn_with(main, move || {
            let (first, error) = fill_up(Builder::new);
            assert_eq!(error, MemoryError::Mappings);
            assert_names(&error, "vm.max_map_count");
            assert!((most / 4..most).contains(&(first as u64)), "{first} of {most}");
            let again = fill_up(Builder::new).0;
            // The number is the same, except for the stacks that a spare may have taken and kept.
            assert!(again + KEPT >= first, "{again} after {first}");
        });
        main.unwrap().join().unwrap();
        end(runtime);
    });
}

/// A limit of the number of threads.
#[derive(Clone, Copy)]
pub(super) enum ThreadLimit {
    /// `RLIMIT_NPROC`, of a user that it applies to and that has no other process: each test has
    /// its own.
    User(libc::uid_t),
    /// `pids.max` of a control group.
    Group,
}

impl ThreadLimit {
    /// Lets this process start `more` threads, until the result is called. `None`, after a message,
    /// if there is no such limit here.
    fn set(self, more: usize) -> Option<Box<dyn FnOnce()>> {
        let most = threads() + more;
        match self {
            ThreadLimit::User(user) => {
                // SAFETY: plain system calls; no thread of this process relies on its user.
                if unsafe { libc::geteuid() == 0 && libc::setuid(user) != 0 } {
                    skip("RLIMIT_NPROC does not apply to root, which cannot change its user here");
                    return None;
                }
                limit(libc::RLIMIT_NPROC, most as u64);
                Some(Box::new(|| limit(libc::RLIMIT_NPROC, u64::MAX)))
            }
            ThreadLimit::Group => {
                let group = made(GroupLimit::Threads(most))?;
                group.enter().unwrap();
                Some(Box::new(move || group.leave().unwrap()))
            }
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            ThreadLimit::User(_) => "ulimit -u",
            ThreadLimit::Group => "pids.max",
        }
    }
}

#[test]
fn too_few_threads_are_an_error_of_the_build() {
    in_child_well("exhaustion::too_few_threads_are_an_error_of_the_build", || {
        build_with_too_few_threads(ThreadLimit::User(60001));
    });
}

pub(super) fn build_with_too_few_threads(by: ThreadLimit) {
    let before = threads();
    let Some(lift) = by.set(3) else { return };
    let error = Runtime::builder().workers(8).build().unwrap_err();
    assert!(matches!(error, BuildError::Thread(_)), "{error:?}");
    assert_names(&error, "a worker thread could not be started");
    assert_names(&error, by.remedy());
    until("the end of the workers that had started", || threads() == before);
    let runtime = workers(1);
    assert_eq!(runtime.run(|| 6), 6);
    end(runtime);
    lift();
    run_on(Runtime::builder().workers(8), || ());
}

#[test]
fn too_little_address_space_is_an_error_of_the_build() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    in_child_well("exhaustion::too_little_address_space_is_an_error_of_the_build", || {
        // The stack of one thread takes 2 MiB.
        for room in [0, 64 << 10, 1 << 20, 3 << 20, 5 << 20] {
            limit(libc::RLIMIT_AS, address_space_used() + room);
            let error = Runtime::builder().workers(8).build().unwrap_err();
            assert!(!matches!(error, BuildError::Thread(_)), "{error:?}");
            assert_names(&error, "RLIMIT_AS");
        }
        limit(libc::RLIMIT_AS, u64::MAX);
        run_on(Runtime::builder().workers(8), || ());
    });
}

/// Returns true if fibers have thread-locals without a kernel thread each. If not, which differs
/// only by processor, prints that a test is skipped.
fn has_light_blocks() -> bool {
    let has_light_blocks = cfg!(target_arch = "x86_64");
    if !has_light_blocks {
        skip("each fiber has a kernel thread on this processor");
    }
    has_light_blocks
}

/// Returns the number of blocking calls that blocked workers of `runtime`.
fn in_place(runtime: &Runtime) -> u64 {
    runtime.counters().iter().map(|counters| counters.blocking_in_place).sum()
}

/// Makes calls of `blocking` while no thread can be started, and some after `lift`, on threads that
/// are started then.
fn call_without_and_with_threads(runtime: &Runtime, lift: impl FnOnce()) {
    let thread_of = |builder: fn() -> Builder| {
        let body = || {
            let (drops, this) = (Drops::default(), thread::current().id());
            let token = drops.token();
            let call = move || (drop(token), daiko_sys::thread::id(), thread::current().id());
            let ((), kernel_thread, thread) = daiko::blocking(call);
            drops.assert_all();
            (kernel_thread == daiko_sys::thread::id(), thread == this)
        };
        runtime.spawn_with(builder(), body).unwrap().join().unwrap()
    };
    for builder in [Builder::new, migratable] {
        let before = in_place(runtime);
        assert_eq!(thread_of(builder), (true, true));
        assert_eq!(in_place(runtime), before + 1);
    }
    let panics = || panic_of(|| daiko::blocking(|| panic!("of the call")));
    assert_eq!(runtime.run(panics), "of the call");
    let before = in_place(runtime);
    lift();
    for builder in [Builder::new, migratable] {
        assert_eq!(thread_of(builder), (false, false));
    }
    assert_eq!(in_place(runtime), before);
}

#[test]
fn a_blocking_call_without_a_thread_is_made_by_its_fiber() {
    in_child_well("exhaustion::a_blocking_call_without_a_thread_is_made_by_its_fiber", || {
        call_without_threads(ThreadLimit::User(60002));
    });
}

pub(super) fn call_without_threads(by: ThreadLimit) {
    if !has_light_blocks() {
        return;
    }
    let runtime = workers(1);
    if let Some(lift) = by.set(0) {
        call_without_and_with_threads(&runtime, lift);
    }
    end(runtime);
}

#[test]
fn a_blocking_call_without_memory_for_a_thread_is_made_by_its_fiber() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    in_child_well(
        "exhaustion::a_blocking_call_without_memory_for_a_thread_is_made_by_its_fiber",
        || {
            let runtime = workers(1);
            runtime.run(|| ());
            limit(libc::RLIMIT_AS, address_space_used() + (1 << 20));
            call_without_and_with_threads(&runtime, || limit(libc::RLIMIT_AS, u64::MAX));
            end(runtime);
        },
    );
}

#[test]
fn a_blocking_call_waits_for_the_only_thread() {
    in_child_well("exhaustion::a_blocking_call_waits_for_the_only_thread", || {
        wait_for_the_only_thread(ThreadLimit::User(60005));
    });
}

pub(super) fn wait_for_the_only_thread(by: ThreadLimit) {
    if !has_light_blocks() {
        return;
    }
    let runtime = workers(1);
    let (release, held) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let first = runtime.spawn(move || {
        daiko::blocking(move || {
            tell.send(daiko_sys::thread::id()).unwrap();
            held.recv().unwrap();
        });
    });
    let only = told.recv().unwrap();
    let Some(lift) = by.set(0) else { return };
    let second = runtime.spawn(|| daiko::blocking(daiko_sys::thread::id));
    // The worker is free meanwhile.
    assert_eq!(runtime.run(|| 6), 6);
    release.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(second.join().unwrap(), only);
    assert_eq!(in_place(&runtime), 0);
    end(runtime);
    lift();
}

/// Fibers have thread-locals of a kernel thread each where the C library is not known.
#[test]
fn no_thread_for_thread_locals_is_an_error_of_the_spawn() {
    in_child_well("exhaustion::no_thread_for_thread_locals_is_an_error_of_the_spawn", || {
        // SAFETY: no other thread of this process reads the environment yet.
        unsafe { std::env::set_var("DAIKO_THREAD_BLOCKS", "home") };
        let runtime = workers(1);
        let before = threads();
        assert_eq!(runtime.run(|| 4), 4);
        // Otherwise that thread would be counted, and make room for one more.
        until("the end of the thread of this fiber", || threads() <= before);
        if ThreadLimit::User(60004).set(5).is_none() {
            return;
        }
        let park = || runtime.spawn_with(Builder::new(), daiko::park);
        let mut parked = Vec::new();
        let error = loop {
            match park() {
                Ok(handle) => parked.push(handle),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SpawnError::ThreadLocals(_)), "{error:?}");
        assert_names(&error, "ulimit -u");
        assert!((1..=5).contains(&parked.len()), "{}", parked.len());
        for handle in parked {
            handle.fiber().unpark();
            handle.join().unwrap();
        }
        until("the end of the threads", || threads() <= before);
        assert_eq!(runtime.run(|| 5), 5);
        end(runtime);
    });
}

/// If no thread can be started for a spare, the fibers of a stuck worker wait, and nothing else
/// happens.
#[test]
fn no_thread_for_a_spare_is_only_slow() {
    in_child_well("exhaustion::no_thread_for_a_spare_is_only_slow", || {
        go_on_without_a_spare(ThreadLimit::User(60003));
    });
}

pub(super) fn go_on_without_a_spare(by: ThreadLimit) {
    if !has_light_blocks() {
        return;
    }
    let runtime = workers(1);
    let Some(lift) = by.set(0) else { return };
    let (tell, told) = mpsc::channel::<()>();
    let stuck = runtime.spawn(move || told.recv());
    until("the event", || runtime.counters()[0].stuck > 0);
    tell.send(()).unwrap();
    stuck.join().unwrap().unwrap();
    assert_eq!(runtime.run(|| 6), 6);
    end(runtime);
    lift();
}
