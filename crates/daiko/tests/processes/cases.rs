//! Cases for workers that are processes.

mod blocking;
mod crossing;
mod death;
mod ends;
mod environment;
mod errors;
mod exec_mode;
mod heap;
mod kills;
mod objects;
mod pairing;
mod robust_list;
mod sockets;
mod stops;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko::{Builder, Runtime, RuntimeBuilder};

use super::Case;

pub(super) fn all() -> Vec<Case> {
    [
        heap::cases(),
        crossing::cases(),
        objects::cases(),
        ends::cases(),
        errors::cases(),
        exec_mode::cases(),
        death::cases(),
        stops::cases(),
        kills::cases(),
        robust_list::cases(),
        blocking::cases(),
        sockets::cases(),
        pairing::cases(),
        environment::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Declares the cases of a module, by the names of their functions.
macro_rules! cases {
    ($($name:ident $end:expr,)+) => {
        pub(super) fn cases() -> Vec<$crate::Case> {
            vec![$($crate::Case { name: stringify!($name), body: $name, end: $end },)+]
        }
    };
}
use cases;

/// Returns a builder of so many worker processes.
fn processes(workers: usize) -> RuntimeBuilder {
    // SAFETY: the cases keep to the contract: data that fibers share is in the heap or a `shared!`
    // static.
    unsafe { Runtime::builder().process_workers(workers) }
}

/// Runs `f` on two worker processes, which then have nothing left to unwind.
fn run_on_two(f: impl FnOnce() + Send + 'static) {
    let runtime = processes(2).build().unwrap();
    runtime.run(f);
    end(runtime);
}

/// Runs `f` as a fiber that starts on worker 0 of two processes.
fn run_on_first(f: impl FnOnce() + Send + 'static) {
    run_on_two(|| Builder::new().on(0).spawn(f).unwrap().join().unwrap());
}

/// Ends a runtime after all of its fibers have finished.
fn end(runtime: Runtime) {
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
}

/// Keeps worker `here` busy until the returned flag is set, so that the other worker takes all
/// other work.
fn hog(here: usize) -> (daiko::JoinHandle<()>, Arc<AtomicBool>) {
    let enough = Arc::new(AtomicBool::new(false));
    let seen = enough.clone();
    let body = move || {
        while !seen.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    (Builder::new().on(here).spawn(body).unwrap(), enough)
}

/// Suspends the calling fiber, which runs on worker `here` of two, until it is in the other
/// process.
fn cross(here: usize) {
    let process = std::process::id();
    let (hog, enough) = hog(here);
    while std::process::id() == process {
        daiko::yield_now();
    }
    enough.store(true, Ordering::Release);
    finish(hog);
}

/// Waits for a hog without a suspension, in which the caller might move again.
fn finish(hog: daiko::JoinHandle<()>) {
    while !hog.is_finished() {
        std::thread::yield_now();
    }
}

/// Whether the kernel lets this process trace its children. If not, prints that the test `skips` is
/// skipped.
fn can_trace(skips: &str) -> bool {
    let answer = daiko_sys::process::probe_tracing();
    if let Err(error) = &answer {
        println!("skipped: {skips}: the kernel does not let processes be traced here: {error}");
    }
    answer.is_ok()
}
