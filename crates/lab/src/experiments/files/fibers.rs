//! Fibers that call `daiko::fs`.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use daiko::fs::File;
use daiko::net::Selector;
use daiko::sync::Barrier;
use daiko::{JoinHandle, Runtime};

use super::load::{Load, PAGE, Share, number_of, page_at};
use crate::kit::{Failure, OrFailure};

pub(super) fn run(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    run_in(&Runtime::builder().workers(load.workers).build()?, load)
}

/// Without io_uring, so that the pool makes the calls.
pub(super) fn run_by_pool(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let builder = Runtime::builder().workers(load.workers).selector(Selector::Epoll);
    run_in(&builder.build()?, load)
}

fn run_in(runtime: &Runtime, load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let load = load.clone();
    runtime.spawn(move || all(&load)).join()?
}

fn all(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let file = Arc::new(File::from(load.open()?));
    let start = Arc::new(Barrier::new(load.depth + 1));
    let fiber = |_| {
        let (load, file, start) = (load.clone(), Arc::clone(&file), Arc::clone(&start));
        daiko::spawn(move || {
            start.wait();
            work(&load, &file)
        })
    };
    let fibers: Vec<_> = (0..load.depth).map(fiber).collect();
    start.wait();
    let join = |fiber: JoinHandle<Result<Share, Failure>>| fiber.join()?;
    let shares: Vec<Share> = fibers.into_iter().map(join).collect::<Result<_, _>>()?;
    Ok(Share::all(&shares))
}

fn work(load: &Load, file: &File) -> Result<Share, Failure> {
    let (mut share, mut bytes) = (Share::begin(), [0; PAGE]);
    while let Some(offset) = load.next() {
        if load.operation.is_read() {
            file.read_exact_at(&mut bytes, offset).or_limit("a read fails")?;
            share.sum += number_of(&bytes);
        } else {
            file.write_all_at(&page_at(offset), offset).or_limit("a write fails")?;
            file.sync_data().or_limit("fdatasync fails")?;
        }
    }
    Ok(share.ended())
}
