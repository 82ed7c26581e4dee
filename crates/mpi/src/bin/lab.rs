//! A rank of the lab's experiment `mpi`: fibers that exchange messages with those of the other
//! rank.
//!
//! Arguments: the preset (`latency`, `balanced`), the number of fibers, the bytes of a message, the
//! number of rounds. In a round each fiber of rank 0 sends a message and receives the answer, the
//! first word of which is 1 more. Rank 0 prints the nanoseconds, and the sum of these words.

use std::error::Error;
use std::time::Instant;
use std::{env, process};

use daiko::{Preset, Runtime};
use daiko_mpi::{Comm, MpiError};

struct Task {
    preset: Preset,
    fibers: u64,
    words: usize,
    rounds: u64,
}

fn main() {
    if let Err(line) = run() {
        eprintln!("{line}");
        process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let task = Task::of(env::args().skip(1).collect())?;
    let runtime = Runtime::builder().workers(1).preset(task.preset).build()?;
    let mut mpi = daiko_mpi::init_in(&runtime)?;
    let world = mpi.world().clone();
    if world.size() != 2 {
        return Err("run two ranks, by the mpirun of this MPI library".into());
    }
    let (elapsed, sum) = runtime.run(move || exchange(&world, &task))?;
    if mpi.world().rank() == 0 {
        println!("{elapsed} {sum}");
    }
    mpi.finalize()?;
    Ok(())
}

impl Task {
    fn of(arguments: Vec<String>) -> Result<Self, Box<dyn Error>> {
        let [preset, fibers, bytes, rounds] = &arguments[..] else {
            return Err("arguments: preset fibers bytes rounds".into());
        };
        let preset = match preset.as_str() {
            "latency" => Preset::Latency,
            "balanced" => Preset::Balanced,
            other => return Err(format!("no preset {other}: name latency or balanced").into()),
        };
        let words = (bytes.parse::<usize>()? / 8).max(1);
        Ok(Task { preset, fibers: fibers.parse()?, words, rounds: rounds.parse()? })
    }
}

/// Exchanges all messages, once to warm up, then with a time.
fn exchange(world: &Comm, task: &Task) -> Result<(u128, u64), MpiError> {
    all_fibers(world, task, task.rounds.min(10))?;
    world.barrier()?;
    let start = Instant::now();
    let sum = all_fibers(world, task, task.rounds)?;
    Ok((start.elapsed().as_nanos(), sum))
}

fn all_fibers(world: &Comm, task: &Task, rounds: u64) -> Result<u64, MpiError> {
    let words = task.words;
    let fiber = |number| {
        let world = world.clone();
        daiko::spawn(move || match world.rank() {
            0 => ask(&world, number, words, rounds),
            _ => answer(&world, number, words, rounds),
        })
    };
    let fibers: Vec<_> = (0..task.fibers).map(fiber).collect();
    let sums = fibers.into_iter().map(|fiber| fiber.join().expect("no fiber panics"));
    sums.sum::<Result<u64, MpiError>>()
}

fn ask(world: &Comm, number: u64, words: usize, rounds: u64) -> Result<u64, MpiError> {
    let (mut data, mut sum, tag) = (vec![number; words], 0u64, number as i32);
    for _ in 0..rounds {
        data[0] = number;
        world.send(&data, 1, tag)?;
        world.recv(&mut data, 1, tag)?;
        sum += data[0];
    }
    Ok(sum)
}

fn answer(world: &Comm, number: u64, words: usize, rounds: u64) -> Result<u64, MpiError> {
    let (mut data, tag) = (vec![0u64; words], number as i32);
    for _ in 0..rounds {
        world.recv(&mut data, 0, tag)?;
        data[0] += 1;
        world.send(&data, 0, tag)?;
    }
    Ok(0)
}
