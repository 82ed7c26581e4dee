//! Measures round trips.

use std::io::Write;
use std::time::{Duration, Instant};

use daiko::Runtime;

use crate::client::{Kv, KvError};
use crate::problem::Problem;

pub(crate) struct Options {
    pub(crate) fibers: u32,
    /// The time for which each line is measured.
    pub(crate) run: Duration,
}

/// Gets a value again and again, from one fiber and then from many of one worker.
pub(crate) fn run(kv: &Kv, options: Options, out: &mut impl Write) -> Result<(), Problem> {
    let runtime = Runtime::builder().workers(1).build().map_err(Problem::failed)?;
    // A key of this process alone, so that several processes may measure at a time.
    let key = format!("bench {}", std::process::id()).into_bytes();
    kv.set(&key, &[b'x'; 8])?;
    for fibers in [1, options.fibers] {
        let begun = Instant::now();
        let mut times = round_trips(&runtime, kv, &key, fibers, begun + options.run)?;
        let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos();
        let (p50, p99) = (at(50), at(99));
        let name = if fibers == 1 { "fiber" } else { "fibers" };
        writeln!(
            out,
            "{fibers} {name}: {per_second:.0} round trips/s, p50 {p50} ns, p99 {p99} ns"
        )?;
    }
    Ok(kv.del(&key)?)
}

/// Returns the time of each round trip, of all fibers together: at least one each.
fn round_trips(
    runtime: &Runtime,
    kv: &Kv,
    key: &[u8],
    fibers: u32,
    end: Instant,
) -> Result<Vec<Duration>, KvError> {
    runtime.scope(|scope| {
        let fibers: Vec<_> =
            (0..fibers).map(|_| scope.spawn(move || one_after_another(kv, key, end))).collect();
        let mut times = Vec::new();
        for fiber in fibers {
            times.extend(fiber.join().expect("a fiber that measures does not panic")?);
        }
        Ok(times)
    })
}

fn one_after_another(kv: &Kv, key: &[u8], end: Instant) -> Result<Vec<Duration>, KvError> {
    let mut times = Vec::new();
    loop {
        let begun = Instant::now();
        kv.get(key)?;
        times.push(begun.elapsed());
        if begun > end {
            return Ok(times);
        }
        // Yields to the fibers that wait for a slot. They would not get the slot that was just
        // given back if this fiber called at once.
        daiko::yield_now();
    }
}
