//! Set 1 of P4: all tasks are threads of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use daiko_sys::clock::thread_cpu_ns;

use super::compute::ComputeKernel;
use super::run::{Amount, Done, PairDone, StartGate, Stopped, all, bind};
use super::writer::{WriteTarget, Writer};
use crate::kit::Failure;
use crate::kit::p4::setting::Pair;

/// Runs IO tasks that write to `target`, and CPU tasks that do `kernel`.
pub(super) fn run(
    pairs: &[Pair],
    target: &WriteTarget,
    kernel: ComputeKernel,
    amount: Amount,
) -> Result<Vec<PairDone>, Failure> {
    let start = StartGate::of(2 * pairs.len());
    let ends: Vec<AtomicBool> = pairs.iter().map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        let mut tasks = Vec::new();
        for (index, (pair, end)) in pairs.iter().zip(&ends).enumerate() {
            let (start, pair) = (&start, *pair);
            let seed = index as u64;
            let io = scope.spawn(move || write(pair.io, start, end, || target.writer(seed)));
            let cpu = scope.spawn(move || compute(pair.cpu, start, end, kernel, amount));
            tasks.push((io, cpu));
        }
        let mut results = Vec::new();
        for (io, cpu) in tasks {
            results.push(io.join().expect("an IO task does not panic"));
            results.push(cpu.join().expect("a CPU task does not panic"));
        }
        let done = all(results)?;
        Ok(done.as_chunks().0.iter().map(|&[io, cpu]| PairDone { io, cpu }).collect())
    })
}

/// Body of an IO task: writes until `end`.
fn write(
    cpu: usize,
    start: &StartGate,
    end: &AtomicBool,
    prepare: impl FnOnce() -> Result<Writer, Failure>,
) -> Result<Done, Stopped> {
    let (mut writer, begin) = start.wait(bind(cpu).and_then(|()| prepare()))?;
    let begin_cpu = thread_cpu_ns();
    let count = writer.write_until(end);
    Ok(Done { count, elapsed: begin.elapsed(), cpu: cpu_since(begin_cpu) })
}

/// Body of a CPU task: does its work, then ends the IO task of its pair.
fn compute(
    cpu: usize,
    start: &StartGate,
    end: &AtomicBool,
    kernel: ComputeKernel,
    amount: Amount,
) -> Result<Done, Stopped> {
    let (mut work, begin) = start.wait(bind(cpu).map(|()| kernel.prepare()))?;
    let begin_cpu = thread_cpu_ns();
    let (count, elapsed) = amount.run(begin, || {
        work();
        Ok(())
    })?;
    let cpu = cpu_since(begin_cpu);
    // Relaxed: no other data is read on the strength of this flag.
    end.store(true, Ordering::Relaxed);
    Ok(Done { count, elapsed, cpu })
}

fn cpu_since(begin: u64) -> Duration {
    Duration::from_nanos(thread_cpu_ns() - begin)
}
