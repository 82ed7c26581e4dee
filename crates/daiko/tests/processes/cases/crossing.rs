//! Fibers that move from one process to another, and the state that they find there.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use daiko::{Builder, Fiber};

use daiko_sys::memory::GuardKind;

use super::{cross, end, hog, processes, run_on_first};
use crate::End;
use crate::support::{PRESETS, scenarios};

super::cases! {
    processes_pass_the_tests_of_threads End::Well,
    a_ring_goes_round_over_two_processes End::Well,
    a_fiber_resumes_in_another_process End::Well,
    locals_go_along End::Well,
    descriptors_are_common End::Well,
    an_unwinding_fiber_stays End::Well,
    a_shared_static_is_one_and_another_is_not End::Well,
    a_static_that_is_watched_and_changed_is_told_once CHANGED,
    fibers_on_stacks_of_many_sizes_made_in_both_processes_run_in_both End::Well,
}

const CHANGED: End = match cfg!(debug_assertions) {
    true => End::Said(1, "was changed in worker process 0, which no other sees"),
    false => End::Well,
};

/// Programs written for threads run unchanged.
fn processes_pass_the_tests_of_threads() {
    scenarios::all(|| processes(2));
}

fn a_ring_goes_round_over_two_processes() {
    for preset in PRESETS {
        for membarrier in [true, false] {
            let builder = processes(2).preset(preset).fallbacks(None, membarrier);
            let runtime = builder.build().unwrap();
            let launcher = std::process::id();
            let ran_in = runtime.run(|| [2, 7, 100].map(|fibers| ring(fibers, 50)));
            assert!(ran_in.iter().all(|processes| !processes.contains(&launcher)));
            end(runtime);
        }
    }
}

/// Passes a lap counter round, by park and unpark, and checks it at each switch. Returns the
/// processes where fibers ended.
fn ring(fibers: usize, laps: u64) -> BTreeSet<u32> {
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..fibers).map(|_| AtomicU64::new(0)).collect());
    let next: Arc<Vec<OnceLock<Fiber>>> = Arc::new((0..fibers).map(|_| OnceLock::new()).collect());
    let body = |i: usize| {
        let (words, next) = (words.clone(), next.clone());
        move || {
            for lap in 1..=laps {
                while words[i].load(Ordering::Acquire) != lap {
                    daiko::park();
                }
                let (to, sent) = ((i + 1) % fibers, lap + u64::from(i + 1 == fibers));
                words[to].store(sent, Ordering::Release);
                next[to].get().unwrap().unpark();
            }
            std::process::id()
        }
    };
    let handles: Vec<_> =
        (0..fibers).map(|i| Builder::new().on(i % 2).spawn(body(i)).unwrap()).collect();
    for (slot, handle) in next.iter().zip(&handles) {
        slot.set(handle.fiber().clone()).unwrap();
    }
    words[0].store(1, Ordering::Release);
    next[0].get().unwrap().unpark();
    let ended_in = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(words[0].load(Ordering::Relaxed), laps + 1);
    ended_in
}

fn a_fiber_resumes_in_another_process() {
    run_on_first(|| {
        let data: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let (first, frame) = (std::process::id(), [7_u8; 2_000]);
        cross(0);
        let second = std::process::id();
        assert_ne!(first, second);
        assert!(data.iter().enumerate().all(|(i, text)| *text == i.to_string()));
        drop(data);
        cross(1);
        assert_eq!((std::process::id(), frame), (first, [7; 2_000]));
    });
}

fn locals_go_along() {
    daiko::fiber_local!(static OWN: Cell<u64> = const { Cell::new(0) });
    run_on_first(|| {
        OWN.set(7);
        cross(0);
        assert_eq!(OWN.replace(8), 7);
        cross(1);
        assert_eq!(OWN.get(), 8);
    });
}

fn descriptors_are_common() {
    run_on_first(|| {
        let mut file = File::open("/proc/version").unwrap();
        cross(0);
        assert_eq!(file.read(&mut [0; 16]).unwrap(), 16);
        drop(file);
    });
}

/// The count of panics belongs to a process, so a migratable fiber stays while it unwinds.
fn an_unwinding_fiber_stays() {
    struct OnDrop(fn());
    impl Drop for OnDrop {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    fn suspended_while_unwinding() {
        let here = std::process::id();
        let (hog, enough) = hog(0);
        let free = move || enough.store(true, Ordering::Release);
        drop(Builder::new().on(1).spawn(free).unwrap());
        while !hog.is_finished() {
            daiko::yield_now();
        }
        assert!(daiko::panicking());
        assert_eq!(std::process::id(), here);
    }
    run_on_first(|| {
        let unwinding = AssertUnwindSafe(|| {
            let _late = OnDrop(suspended_while_unwinding);
            panic::resume_unwind(Box::new(7));
        });
        assert_eq!(*panic::catch_unwind(unwinding).unwrap_err().downcast::<i32>().unwrap(), 7);
        assert!(!daiko::panicking());
        cross(0);
        assert!(!daiko::panicking() && !std::thread::panicking());
    });
}

daiko::shared! {
    static ONE: AtomicU64 = AtomicU64::new(0);
    static OTHER: Vec<AtomicU64> = vec![AtomicU64::new(5)];
}
static EACH: AtomicU64 = AtomicU64::new(0);

fn a_shared_static_is_one_and_another_is_not() {
    ONE.store(1, Ordering::Relaxed);
    run_on_first(|| {
        assert_eq!(ONE.fetch_add(1, Ordering::Relaxed), 1);
        EACH.store(7, Ordering::Relaxed);
        OTHER[0].store(6, Ordering::Relaxed);
        cross(0);
        assert_eq!(ONE.fetch_add(1, Ordering::Relaxed), 2);
        assert_eq!(OTHER[0].load(Ordering::Relaxed), 6);
        assert_eq!(EACH.load(Ordering::Relaxed), 0);
    });
    assert_eq!((ONE.load(Ordering::Relaxed), OTHER[0].load(Ordering::Relaxed)), (3, 6));
}

fn a_static_that_is_watched_and_changed_is_told_once() {
    daiko::process::watch_static(&EACH);
    run_on_first(|| {
        EACH.store(7, Ordering::Relaxed);
        for _ in 0..3 {
            cross(0);
            cross(1);
        }
    });
}

/// A slab of stacks is guarded, and known to the fault handler, in each process that runs a fiber
/// on it.
fn fibers_on_stacks_of_many_sizes_made_in_both_processes_run_in_both() {
    for kind in [None, Some(GuardKind::Protect)] {
        let runtime = processes(2).fallbacks(kind, true).build().unwrap();
        runtime.run(run_on_stacks_of_many_sizes);
        end(runtime);
    }
}

fn run_on_stacks_of_many_sizes() {
    let spawner = |on: usize| {
        let children = move || {
            let sizes = [16, 64, 256, 1024].into_iter().cycle().take(200);
            let child = |size: usize| {
                let builder = Builder::new().stack_size(size << 10).on(1 - on);
                builder.spawn(|| (0..5).for_each(|_| daiko::yield_now())).unwrap()
            };
            let children: Vec<_> = sizes.map(child).collect();
            children.into_iter().for_each(|child| child.join().unwrap());
        };
        Builder::new().on(on).spawn(children).unwrap()
    };
    [spawner(0), spawner(1)].into_iter().for_each(|spawner| spawner.join().unwrap());
}
