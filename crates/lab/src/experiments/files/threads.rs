//! Kernel threads that call `std::fs`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::load::{Load, PAGE, Share, number_of, page_at};
use crate::kit::{Failure, OrFailure};

pub(super) fn run(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let (file, start) = (load.open()?, Barrier::new(load.depth + 1));
    let body = || {
        start.wait();
        work(load, &file)
    };
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body);
        let threads: Result<Vec<_>, _> = (0..load.depth).map(spawn).collect();
        // No thread passes the barrier without the rest, so the process cannot go on.
        let threads = threads.unwrap_or_else(|error| {
            eprintln!("no thread can be started: {error}");
            std::process::exit(1)
        });
        start.wait();
        let join = |thread: ScopedJoinHandle<'_, Result<Share, Failure>>| {
            thread.join().map_err(|_| Failure::Broken("a thread panicked".into()))?
        };
        let shares: Vec<Share> = threads.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok(Share::all(&shares))
    })
}

fn work(load: &Load, file: &File) -> Result<Share, Failure> {
    let mut share = Share::begin();
    while let Some(offset) = load.next() {
        share.sum += operate(load, file, offset)?;
    }
    Ok(share.ended())
}

/// Does one operation, and returns the number of the page if it was read.
pub(super) fn operate(load: &Load, file: &File, offset: u64) -> Result<u64, Failure> {
    if load.operation.is_read() {
        let mut bytes = [0; PAGE];
        file.read_exact_at(&mut bytes, offset).or_limit("a read fails")?;
        return Ok(number_of(&bytes));
    }
    file.write_all_at(&page_at(offset), offset).or_limit("a write fails")?;
    file.sync_data().or_limit("fdatasync fails")?;
    Ok(0)
}
