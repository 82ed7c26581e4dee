//! Time until fibers that ask for no worker have run while one of two workers is stuck.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use daiko::{Builder, JoinHandle, Runtime, Stuck};

use super::fibers::Workers;
use crate::experiments::costs::laps::Parts;
use crate::kit::{Effort, Failure, Sample};

/// Fibers in a round: more than placement leaves on one worker while another has none.
const FIBERS: usize = 300;
/// Time between two looks of the fiber that blocks its worker.
const LOOK: Duration = Duration::from_micros(100);

/// Measures [`FIBERS`] fibers that all live at the same time, from the report of the stuck worker
/// until their end.
pub(super) fn beside_stuck<W: Workers>(effort: Effort) -> Result<Sample, Failure> {
    let (tell, told) = mpsc::channel();
    // Another process may keep the other worker from its CPU.
    let hook = move |stuck: &Stuck| {
        if stuck.worker == 0 {
            let _ = tell.send(Instant::now());
        }
    };
    let runtime = W::builder(2).on_stuck(hook).build()?;
    let mut parts = Parts::new(effort);
    while parts.next_round() {
        let released = Arc::new(AtomicBool::new(false));
        let blocker = block(&runtime, &released)?;
        let report = told.recv().expect("the hook lives as long as the runtime");
        let ran = run_free_fibers(&runtime);
        parts.add(report.elapsed());
        released.store(true, Ordering::Release);
        blocker.join()?;
        ran?;
    }
    Ok(parts.end(1))
}

/// Blocks worker 0 until it is released.
fn block(runtime: &Runtime, released: &Arc<AtomicBool>) -> Result<JoinHandle<()>, Failure> {
    let told = Arc::clone(released);
    let body = move || {
        while !told.load(Ordering::Acquire) {
            thread::sleep(LOOK);
        }
    };
    Ok(runtime.spawn_with(Builder::new().on(0), body)?)
}

fn run_free_fibers(runtime: &Runtime) -> Result<(), Failure> {
    let begun = Arc::new(AtomicUsize::new(0));
    let body = |begun: Arc<AtomicUsize>| {
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < FIBERS {
            daiko::yield_now();
        }
    };
    let spawn = |_| {
        let begun = Arc::clone(&begun);
        runtime.spawn_with(Builder::new(), move || body(begun))
    };
    let fibers: Vec<_> = (0..FIBERS).map(spawn).collect::<Result<_, _>>()?;
    Ok(fibers.into_iter().try_for_each(JoinHandle::join)?)
}
