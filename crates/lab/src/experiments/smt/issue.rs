//! A loop that uses all issue slots of a core: any other work on that core slows it down.

use std::arch::asm;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::run::bind;
use crate::kit::Failure;

/// Does eight independent additions, `rounds` times.
fn issue(rounds: u64) {
    // SAFETY: the assembly uses registers only, all of which are named.
    unsafe {
        asm!(
            "2:",
            "inc {a}", "inc {b}", "inc {c}", "inc {d}", "inc {e}", "inc {f}", "inc {g}", "inc {h}",
            "dec {rounds}",
            "jnz 2b",
            a = inout(reg) 0u64 => _,
            b = inout(reg) 0u64 => _,
            c = inout(reg) 0u64 => _,
            d = inout(reg) 0u64 => _,
            e = inout(reg) 0u64 => _,
            f = inout(reg) 0u64 => _,
            g = inout(reg) 0u64 => _,
            h = inout(reg) 0u64 => _,
            rounds = inout(reg) rounds.max(1) => _,
            options(nomem, nostack),
        );
    }
}

fn timed(rounds: u64) -> Duration {
    let start = Instant::now();
    issue(rounds);
    start.elapsed()
}

/// The median time of `rounds` on each of `cpus` in turn, five times each. Returns the largest
/// median.
pub(super) fn slowest(cpus: &[usize], rounds: u64) -> Result<Duration, Failure> {
    let median = |&cpu: &usize| {
        bind(cpu)?;
        let mut times: [Duration; 5] = std::array::from_fn(|_| timed(rounds));
        times.sort_unstable();
        Ok(times[times.len() / 2])
    };
    // On a thread of its own, as binding is permanent.
    let on_all = || {
        cpus.iter()
            .map(median)
            .try_fold(Duration::ZERO, |most, time| time.map(|time| most.max(time)))
    };
    thread::scope(|scope| scope.spawn(on_all).join().expect("no probe panics"))
}

/// Time that `rounds` take on each of `cpus` at once, until the last CPU has done them.
pub(super) fn together(cpus: [usize; 2], rounds: u64) -> Result<Duration, Failure> {
    let ready = AtomicUsize::new(0);
    let on = &|cpu| {
        let bound = bind(cpu);
        // Relaxed: the threads only meet, and publish no data. They spin, because a thread that
        // slept here would start later than the other.
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < cpus.len() {
            spin_loop();
        }
        let start = Instant::now();
        issue(rounds);
        bound.map(|()| (start, Instant::now()))
    };
    thread::scope(|scope| {
        let tasks = cpus.map(|cpu| scope.spawn(move || on(cpu)));
        let [one, other] = tasks.map(|task| task.join().expect("no loop panics"));
        let (one, other) = (one?, other?);
        Ok(one.1.max(other.1) - one.0.min(other.0))
    })
}
