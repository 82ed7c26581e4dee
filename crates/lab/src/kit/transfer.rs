//! A message between two spinning threads, each on a CPU of its own.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::case::Sample;
use super::failure::{Failure, OrFailure};
use super::host;

/// A word with a distance of two cache lines, as the adjacent-line prefetcher fetches pairs.
#[repr(align(128))]
#[derive(Default)]
struct PaddedWord(AtomicU64);

/// One direction: a cache line for the flag and one for the datum.
#[derive(Default)]
struct TransferLines {
    flag: PaddedWord,
    datum: PaddedWord,
}

impl TransferLines {
    fn send<const DATUM: bool>(&self, lap: u64, datum: u64) {
        if DATUM {
            self.datum.0.store(datum, Ordering::Relaxed);
        }
        // Pairs with the Acquire in `receive`: the datum is visible before its flag.
        self.flag.0.store(lap, Ordering::Release);
    }

    fn receive<const DATUM: bool>(&self, lap: u64) -> u64 {
        // Pairs with the Release in `send`.
        while self.flag.0.load(Ordering::Acquire) != lap {
            spin_loop();
        }
        if DATUM { self.datum.0.load(Ordering::Relaxed) } else { lap }
    }
}

/// Measures `rounds` round trips. With `DATUM`, each message carries a datum on a cache line of its
/// own.
pub(crate) fn run<const DATUM: bool>(rounds: u64) -> Result<Sample, Failure> {
    let cpus = host::cpu_list();
    let &[here, there, ..] = cpus.as_slice() else {
        return Err(Failure::Unavailable("two CPUs are needed".into()));
    };
    between::<DATUM>(here, there, rounds)
}

/// The same between two given, different CPUs.
pub(crate) fn between<const DATUM: bool>(
    here: usize,
    there: usize,
    rounds: u64,
) -> Result<Sample, Failure> {
    let (outward, back) = (TransferLines::default(), TransferLines::default());
    let ready = Barrier::new(2);
    // Separate threads, as binding is permanent.
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let bound = host::bind(there);
            ready.wait();
            for lap in 1..=rounds {
                let datum = outward.receive::<DATUM>(lap);
                back.send::<DATUM>(lap, datum);
            }
            bound
        });
        let timer = scope.spawn(|| {
            let bound = host::bind(here);
            ready.wait();
            let timed = there_and_back::<DATUM>(&outward, &back, rounds);
            bound.map(|()| timed)
        });
        let echoed = echo.join().expect("the echo does not panic");
        let timed = timer.join().expect("the timer does not panic");
        echoed.and(timed).or_broken("cannot bind to a CPU")?
    })
}

fn there_and_back<const DATUM: bool>(
    outward: &TransferLines,
    back: &TransferLines,
    rounds: u64,
) -> Result<Sample, Failure> {
    let mut wrong = None;
    let start = Instant::now();
    for lap in 1..=rounds {
        outward.send::<DATUM>(lap, lap);
        let found = back.receive::<DATUM>(lap);
        if found != lap {
            wrong = Some(Failure::WrongDatum { expected: lap, found });
        }
    }
    let elapsed = start.elapsed();
    wrong.map_or(Ok(Sample::timed(rounds, 2 * rounds, elapsed)), Err)
}
