//! Measures a trace's cost for the traced process: the time of a hop in a ring of two fibers, with
//! and without events being recorded, and of two readings of the time stamp counter.
//!
//! `traces [ROUNDS]`, 15 rounds by default. Events are recorded without end, as no reader could
//! follow.

mod target;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{env, hint, thread};

use daiko_inspect::Subject;
use daiko_sys::clock;
use daiko_sys::process::write_word;
use target::{HOPS, Target, answer, is_target};

/// Duration of one measurement.
const WINDOW: Duration = Duration::from_millis(300);
/// Time in which the worker finds out that it is traced, or no more.
const SETTLE: Duration = Duration::from_millis(30);

fn main() -> ExitCode {
    if is_target() {
        run_target();
    }
    let rounds = env::args().nth(1).map_or(Ok(15), |word| word.parse());
    let Ok(rounds) = rounds else {
        eprintln!("traces: give a number of rounds");
        return ExitCode::from(2);
    };
    measure(rounds);
    ExitCode::SUCCESS
}

/// The process that is traced: a ring of two fibers that hop by park and unpark.
fn run_target() -> ! {
    let runtime = daiko::Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(|| {
        let peers: [Arc<OnceLock<daiko::Fiber>>; 2] = Default::default();
        for own in 0..2 {
            let peer = Arc::clone(&peers[1 - own]);
            // SAFETY: the fibers use no thread-local.
            let kind = unsafe { daiko::Builder::new().borrowed() };
            let hop = move || {
                loop {
                    daiko::park();
                    HOPS.store(HOPS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    peer.get().expect("both are there").unpark();
                }
            };
            let fiber = kind.spawn(hop).expect("there is memory for it");
            peers[own].set(fiber.fiber().clone()).expect("set once");
        }
        peers[0].get().expect("set above").unpark();
        answer()
    })
}

/// Returns the nanoseconds of a hop.
fn hop_ns(target: &mut Target) -> f64 {
    thread::sleep(SETTLE);
    let (begin, before) = (Instant::now(), target.hops());
    thread::sleep(WINDOW);
    let hops = target.hops() - before;
    begin.elapsed().as_nanos() as f64 / hops as f64
}

fn measure(rounds: usize) {
    let mut target = Target::start(&[]);
    let process = target.process();
    let subject = Subject::process(process).expect("the child can be read");
    let readers = subject.readers().expect("the child has a runtime");
    let worker = readers[0].runtimes()[0].workers[0].id;
    let recorder = || readers[0].recorder(worker).expect("it can be read");
    let row = recorder();
    // SAFETY: the two words are those that readers write.
    let write = |address, word| unsafe { write_word(process, address, word) }.expect("as above");
    write(row.reader_at, u64::from(std::process::id()));
    let (mut off, mut on, mut events, mut readings) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        write(row.credit_end_at, 0);
        off.push(hop_ns(&mut target));
        write(row.credit_end_at, u64::MAX);
        let (recorded, hops) = (recorder().recorded, target.hops());
        on.push(hop_ns(&mut target));
        let recorded = recorder().recorded - recorded;
        events.push(recorded as f64 / (target.hops() - hops) as f64);
        readings.push(reading_ns());
    }
    let more: Vec<_> = on.iter().zip(&off).map(|(on, off)| on - off).collect();
    row_of("a hop, not traced", off);
    row_of("a hop, traced", on);
    row_of("difference", more);
    row_of("a reading of the time stamp counter", readings);
    println!("{:.2} events in a hop", events.iter().sum::<f64>() / events.len() as f64);
}

/// Returns the nanoseconds of a reading of the time stamp counter.
fn reading_ns() -> f64 {
    const READINGS: u32 = 1_000_000;
    let begin = Instant::now();
    for _ in 0..READINGS {
        hint::black_box(clock::ticks());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

fn row_of(name: &str, mut samples: Vec<f64>) {
    samples.sort_unstable_by(f64::total_cmp);
    let [least, median, most] =
        [0, samples.len() / 2, samples.len() - 1].map(|place| samples[place]);
    println!("{name}: {median:.1} ns ({least:.1} to {most:.1})");
}
