//! The travelling salesman of P2 (docs/papers.md) over ranks: fibers of all ranks search, and ask
//! rank 0 for work by messages.
//!
//! ```sh
//! mpirun -n 4 target/release/examples/salesman 11
//! ```
//!
//! There is a piece of work for each pair of cities that a tour can visit first. The answer to a
//! request has the length of the best tour so far, so that a rank rules paths out by the finds of
//! other ranks. Rank 0 compares the best tour with the result of another algorithm.

mod cities;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use cities::Cities;
use daiko_mpi::{Comm, MpiError};

/// The tag of requests for work, to rank 0. An answer's tag is `WORK` plus the fiber's number.
const ASK: i32 = 1;
const WORK: i32 = 2;
const FIBERS: u32 = 8;

fn main() {
    if let Err(line) = run() {
        eprintln!("salesman: {line}");
        process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let count = env::args().nth(1).map_or(Ok(11), |count| count.parse())?;
    let cities = Arc::new(Cities::new(count)?);
    let mut mpi = daiko_mpi::init()?;
    let world = mpi.world().clone();
    let own = cities.clone();
    let best = daiko::run(move || search(&world, &own))?;
    if mpi.world().rank() == 0 {
        let shortest = cities.shortest();
        if best != shortest {
            return Err(format!("found a tour of {best}, where the shortest has {shortest}").into());
        }
        println!("{count} cities, {} ranks: the shortest tour is {best}", mpi.world().size());
    }
    mpi.finalize()?;
    Ok(())
}

/// Finds the length of the shortest tour, at all ranks.
fn search(world: &Comm, cities: &Arc<Cities>) -> Result<u32, MpiError> {
    let best = Arc::new(AtomicU32::new(u32::MAX));
    let divider = (world.rank() == 0).then(|| {
        let (world, cities) = (world.clone(), cities.clone());
        daiko::spawn(move || divide(&world, &cities))
    });
    let searcher = |number| {
        let (world, cities, best) = (world.clone(), cities.clone(), best.clone());
        daiko::spawn(move || work(&world, &cities, number, &best))
    };
    let searchers: Vec<_> = (0..FIBERS).map(searcher).collect();
    for searcher in searchers {
        searcher.join().expect("no searcher panics")?;
    }
    if let Some(divider) = divider {
        divider.join().expect("no divider panics")?;
    }
    // Relaxed: the joins order it.
    let shortest = world.allreduce(&[best.load(Ordering::Relaxed)], daiko_mpi::ReduceOp::Min)?;
    Ok(shortest[0])
}

/// Hands the work out, until each searcher has been told that there is no more.
fn divide(world: &Comm, cities: &Cities) -> Result<(), MpiError> {
    let mut starts = cities.starts();
    let mut best = u32::MAX;
    for _ in 0..cities.starts().count() + FIBERS as usize * world.size() {
        let mut request = [0u32; 2];
        let envelope = world.recv(&mut request, None, ASK)?;
        let [number, found] = request;
        best = best.min(found);
        // City 0 is where tours begin, so it is no second city.
        let (first, second) = starts.next().unwrap_or((0, 0));
        world.send(&[first, second, best], envelope.source, WORK + number as i32)?;
    }
    Ok(())
}

/// Asks for work and does it, until there is none.
fn work(world: &Comm, cities: &Cities, number: u32, best: &AtomicU32) -> Result<(), MpiError> {
    loop {
        world.send(&[number, best.load(Ordering::Relaxed)], 0, ASK)?;
        let mut answer = [0u32; 3];
        world.recv(&mut answer, 0, WORK + number as i32)?;
        let [first, second, bound] = answer;
        if second == 0 {
            return Ok(());
        }
        best.fetch_min(bound, Ordering::Relaxed);
        cities.extend(&mut vec![0, first, second], best);
        // A neighbour may have its answer by now.
        daiko::yield_now();
    }
}
