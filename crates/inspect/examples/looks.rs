//! Measures looks at a process with many fibers from outside: the time to list them, the time for
//! their stacks with symbols, and the rate of a ring in that process with and without the looks.
//!
//! `looks [FIBERS] [ROUNDS]`, 100,000 fibers and 15 rounds by default.

mod target;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, thread};

use daiko_inspect::{Backtracer, Stack, Subject, Symbols, group, stack_of};
use target::{HOPS, Target, answer, is_target};

/// Duration of one measurement of the ring.
const WINDOW: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1).map(|word| word.parse::<usize>());
    let (fibers, rounds) = (arguments.next(), arguments.next());
    let Ok(fibers) = fibers.unwrap_or(Ok(100_000)) else {
        eprintln!("looks: give a number of fibers, and a number of rounds");
        return ExitCode::from(2);
    };
    match is_target() {
        true => run_target(fibers),
        false => measure(fibers, rounds.and_then(Result::ok).unwrap_or(15)),
    }
    ExitCode::SUCCESS
}

/// The process that is looked at: fibers that wait in three ways, and a ring of two that hop.
fn run_target(fibers: usize) {
    let runtime = daiko::Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(move || {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let held = lock.lock();
        let (sender, receiver) = daiko::sync::channel::bounded::<u64>(1);
        for index in 0..fibers {
            let (lock, receiver) = (Arc::clone(&lock), receiver.clone());
            let fiber = daiko::Builder::new().name(format!("waiter-{index}"));
            let body = move || match index % 3 {
                0 => daiko::park(),
                1 => drop(lock.lock()),
                _ => drop(receiver.recv()),
            };
            drop(fiber.spawn(body).expect("there is memory for so many"));
        }
        let (to, from) = daiko::sync::channel::bounded::<u64>(1);
        let (back_to, back) = daiko::sync::channel::bounded::<u64>(1);
        drop(daiko::spawn(move || {
            while let Ok(hop) = from.recv() {
                HOPS.fetch_add(1, Ordering::Relaxed);
                if back_to.send(hop).is_err() {
                    break;
                }
            }
        }));
        drop(daiko::spawn(move || {
            while to.send(1).is_ok() && back.recv().is_ok() {
                daiko::yield_now();
            }
        }));
        let _waited_for = (held, sender);
        answer();
    });
}

/// Returns the hops per second while `meanwhile` runs again and again.
fn rate(target: &mut Target, mut meanwhile: impl FnMut()) -> f64 {
    let (begin, before) = (Instant::now(), target.hops());
    while begin.elapsed() < WINDOW {
        meanwhile();
    }
    let hops = target.hops() - before;
    hops as f64 / begin.elapsed().as_secs_f64()
}

fn measure(fibers: usize, rounds: usize) {
    let mut target = Target::start(&[fibers.to_string()]);
    let process = target.process();
    let (mut list, mut stacks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = (0, 0, 0);
    for _ in 0..rounds {
        let begin = Instant::now();
        let subject = Subject::process(process).expect("the child can be read");
        let readers = subject.readers().expect("the child has a runtime");
        let (runtimes, mut rows) = readers[0].all();
        list.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let mut backtracer = Backtracer::new(&subject);
        let traces: Vec<_> = rows
            .iter_mut()
            .map(|row| stack_of(&readers[0], &runtimes, &mut backtracer, row))
            .collect();
        let groups = group(&rows, &traces);
        let mut symbols = Symbols::new(&subject);
        let mut frames = 0;
        for trace in &traces {
            if let Stack::Frames(addresses) = trace {
                frames += addresses.len();
                addresses.iter().for_each(|&address| _ = symbols.frames(address, true));
            }
        }
        stacks.push(begin.elapsed().as_secs_f64());
        found = (rows.len(), frames, groups.len());
        let alone = rate(&mut target, || thread::sleep(Duration::from_millis(10)));
        let looked_at = rate(&mut target, || drop(readers[0].all()));
        ratios.push(looked_at / alone);
    }
    println!("{} fibers, {} frames, {} groups; {rounds} rounds", found.0, found.1, found.2);
    for (name, values) in [
        ("seconds to list", &mut list),
        ("seconds for stacks with symbols", &mut stacks),
        ("rate of the ring meanwhile / alone", &mut ratios),
    ] {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        println!("{name}: median {:.3} ({least:.3} to {most:.3})", values[values.len() / 2]);
    }
}
