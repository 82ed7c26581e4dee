//! The ends of fibers, workers and runtimes.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use daiko::{Builder, Runtime};

use super::{end, processes, run_on_two};
use crate::support::child::emulated;
use crate::{CASE, End};

super::cases! {
    a_panic_surfaces_at_a_join_in_another_process End::Well,
    a_panic_surfaces_in_the_maker End::Well,
    an_overflow_names_the_fiber End::Said(1, OVERFLOW),
    an_overflow_of_a_stack_that_another_process_made_names_the_fiber End::Said(1, OVERFLOW),
    a_shutdown_unwinds_fibers_and_reaps_all_processes End::Well,
    a_fiber_that_resists_is_killed_and_counted End::Well,
    a_program_has_one_runtime_after_the_other End::Well,
    only_the_maker_ends_the_runtime End::Well,
    a_stuck_worker_is_reported_in_the_maker_and_its_fibers_run_elsewhere End::Well,
    a_worker_that_exits_takes_the_program_along End::Exit(7, "worker process 0 has ended (exit status: 7) and it was not killed"),
    an_exit_without_an_error_ends_the_program_without_one End::Exit(0, "worker process 1 has ended (exit status: 0)"),
    workers_end_with_the_maker End::Well,
}

const OVERFLOW: &str = "daiko: stack overflow in fiber 'deep', spawned at ";

/// Returns the ids of the worker processes.
fn ids(runtime: &Runtime) -> [u32; 2] {
    [0, 1].map(|worker| {
        let builder = Builder::new().on(worker);
        runtime.spawn_with(builder, std::process::id).unwrap().join().unwrap()
    })
}

/// Whether the process exists, and has not ended.
fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn assert_no_children() {
    // SAFETY: a null pointer means that no status is returned.
    assert_eq!(unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }, -1);
}

fn a_panic_surfaces_at_a_join_in_another_process() {
    run_on_two(|| {
        for (from, to) in [(0, 1), (1, 0)] {
            let body = || -> () { std::panic::resume_unwind(Box::new(String::from("payload"))) };
            let panics = Builder::new().on(from).spawn(body).unwrap();
            let joins = move || {
                let payload = panics.join().unwrap_err().into_panic().unwrap();
                *payload.downcast::<String>().unwrap()
            };
            let joins = Builder::new().on(to).spawn(joins).unwrap();
            assert_eq!(joins.join().unwrap(), "payload");
        }
    });
}

fn a_panic_surfaces_in_the_maker() {
    let runtime = processes(1).build().unwrap();
    let panics = runtime.spawn(|| std::panic::resume_unwind(Box::new(17_u8)));
    let payload = panics.join().unwrap_err().into_panic().unwrap();
    assert_eq!(*payload.downcast::<u8>().unwrap(), 17);
    end(runtime);
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    if frame[7] == u64::MAX { 0 } else { recurse(depth + 1) + black_box(frame)[5] }
}

fn an_overflow_names_the_fiber() {
    run_on_two(|| {
        let deep = Builder::new().name("deep").spawn(|| black_box(recurse(0)));
        let _ = deep.unwrap().join();
    });
}

fn an_overflow_of_a_stack_that_another_process_made_names_the_fiber() {
    let runtime = processes(2).build().unwrap();
    runtime.run(|| {
        let spawner = || {
            // More fibers than the first slab, which the launcher has made, has stacks.
            let others: Vec<_> = (0..100).map(|_| daiko::spawn(daiko::park)).collect();
            let deep = Builder::new().name("deep").on(1).spawn(|| black_box(recurse(0)));
            let _ = deep.unwrap().join();
            drop(others);
        };
        Builder::new().on(0).spawn(spawner).unwrap().join().unwrap();
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn a_shutdown_unwinds_fibers_and_reaps_all_processes() {
    let runtime = processes(2).build().unwrap();
    let (ids, dropped) = (ids(&runtime), Arc::new(AtomicUsize::new(0)));
    let started = Arc::new(AtomicU32::new(0));
    for i in 0..40 {
        let (counted, started) = (Counted(dropped.clone()), started.clone());
        let body = move || {
            let _counted = counted;
            started.fetch_add(1, Ordering::Relaxed);
            daiko::park();
        };
        drop(runtime.spawn_with(Builder::new().on(i % 2), body).unwrap());
    }
    while started.load(Ordering::Relaxed) < 40 {
        std::thread::yield_now();
    }
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (40, 0));
    assert_eq!(dropped.load(Ordering::Relaxed), 40);
    assert!(!ids.into_iter().any(runs));
    assert_no_children();
}

fn a_fiber_that_resists_is_killed_and_counted() {
    let runtime = processes(2).build().unwrap();
    let (ids, started) = (ids(&runtime), Arc::new(AtomicU32::new(0)));
    let starting = started.clone();
    let resists = runtime.spawn(move || {
        starting.store(1, Ordering::Relaxed);
        loop {
            std::thread::yield_now();
        }
    });
    while started.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)).leaked, 1);
    assert!(!ids.into_iter().any(runs));
    assert!(matches!(resists.join(), Err(daiko::JoinError::Leaked)));
    assert_no_children();
}

fn a_program_has_one_runtime_after_the_other() {
    for _ in 0..3 {
        run_on_two(|| daiko::spawn(|| ()).join().unwrap());
    }
    let threads = Runtime::builder().workers(2).build().unwrap();
    assert_eq!(threads.run(std::process::id), std::process::id());
    end(threads);
    run_on_two(|| ());
}

fn only_the_maker_ends_the_runtime() {
    let (runtime, launcher) = (Arc::new(processes(2).build().unwrap()), std::process::id());
    let taken = runtime.clone();
    let text = runtime.run(move || {
        daiko::blocking(|| {
            assert_ne!(std::process::id(), launcher);
            // SAFETY: the copy is never dropped, as its shutdown panics before it does anything.
            let copy = unsafe { std::ptr::read(&raw const *taken) };
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy.shutdown()));
            drop(taken);
            (*ended.unwrap_err().downcast::<&str>().unwrap()).to_owned()
        })
    });
    assert!(text.contains("is shut down by the process that built it"), "{text}");
    end(Arc::into_inner(runtime).unwrap());
}

fn a_stuck_worker_is_reported_in_the_maker_and_its_fibers_run_elsewhere() {
    let (reported, launcher) = (Arc::new(AtomicU32::new(0)), std::process::id());
    let seen = reported.clone();
    let hook = move |stuck: &daiko::Stuck| {
        assert_eq!((stuck.worker, stuck.fiber.as_deref()), (0, Some("hog")));
        seen.store(std::process::id(), Ordering::Release);
    };
    let runtime = processes(2).on_stuck(hook).build().unwrap();
    let hogged = reported.clone();
    let hog = move || {
        let queued = daiko::spawn(std::process::id);
        while !queued.is_finished() || hogged.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        queued.join().unwrap()
    };
    let hog = runtime.spawn_with(Builder::new().on(0).name("hog"), hog).unwrap();
    let [first, second] = [hog.join().unwrap(), ids(&runtime)[0]];
    assert_ne!(first, second, "it ran on the other worker");
    assert_eq!(reported.load(Ordering::Acquire), launcher);
    end(runtime);
}

fn a_worker_that_exits_takes_the_program_along() {
    let runtime = processes(2).build().unwrap();
    let exits = runtime.spawn_with(Builder::new().on(0), || std::process::exit(7));
    let _ = exits.unwrap().join();
    runtime.run(daiko::park);
}

fn an_exit_without_an_error_ends_the_program_without_one() {
    let runtime = processes(2).build().unwrap();
    let exits = runtime.spawn_with(Builder::new().on(1), || std::process::exit(0));
    let _ = exits.unwrap().join();
    runtime.run(daiko::park);
    unreachable!("the program has ended");
}

fn workers_end_with_the_maker() {
    const MAKER: &str = "DAIKO_PROCESS_MAKER";
    if std::env::var_os(MAKER).is_some() {
        let runtime = processes(2).build().unwrap();
        let ids = ids(&runtime);
        println!("{} {}", ids[0], ids[1]);
        // SAFETY: it takes plain integers; nothing of this process goes on.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let mut launcher = emulated::own_program();
    let launcher =
        launcher.env(CASE, "workers_end_with_the_maker").env(MAKER, "1").output().unwrap();
    let ids = String::from_utf8(launcher.stdout).unwrap();
    let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{}", String::from_utf8_lossy(&launcher.stderr));
    while ids.iter().any(|&id| runs(id)) {
        std::thread::yield_now();
    }
}
