//! Tasks of tokio, by `tokio::fs` and by `spawn_blocking`.

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::sync::Barrier;
use tokio::task;

use super::load::{Load, PAGE, Share, number_of, page_at};
use super::threads::operate;
use crate::kit::tasks::{TokioKind, broken};
use crate::kit::{Failure, OrFailure};

pub(super) fn run_fs(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    run(load, |load| async move {
        // Each task seeks, so each has a position.
        let mut file = File::from_std(load.open()?);
        let mut share = Share::begin();
        while let Some(offset) = load.next() {
            file.seek(SeekFrom::Start(offset)).await.or_limit("a seek fails")?;
            if load.operation.is_read() {
                let mut bytes = [0; PAGE];
                file.read_exact(&mut bytes).await.or_limit("a read fails")?;
                share.sum += number_of(&bytes);
            } else {
                file.write_all(&page_at(offset)).await.or_limit("a write fails")?;
                file.flush().await.or_limit("a write fails")?;
                file.sync_data().await.or_limit("fdatasync fails")?;
            }
        }
        Ok(share.ended())
    })
}

pub(super) fn run_blocking(load: &Load) -> Result<(Option<u64>, Duration), Failure> {
    let file = Arc::new(load.open()?);
    run(load, move |load| {
        let file = Arc::clone(&file);
        async move {
            let mut share = Share::begin();
            while let Some(offset) = load.next() {
                let (load, file) = (load.clone(), Arc::clone(&file));
                let call = task::spawn_blocking(move || operate(&load, &file, offset));
                share.sum += call.await.map_err(broken)??;
            }
            Ok(share.ended())
        }
    })
}

fn run<W, F>(load: &Load, work: W) -> Result<(Option<u64>, Duration), Failure>
where
    W: Fn(Load) -> F + Send + 'static,
    F: Future<Output = Result<Share, Failure>> + Send + 'static,
{
    let load = load.clone();
    TokioKind::MultiThread.run(load.workers, async move {
        let start = Arc::new(Barrier::new(load.depth + 1));
        let task = |_| {
            let (work, start) = (work(load.clone()), Arc::clone(&start));
            task::spawn(async move {
                start.wait().await;
                work.await
            })
        };
        let tasks: Vec<_> = (0..load.depth).map(task).collect();
        start.wait().await;
        let mut shares = Vec::new();
        for task in tasks {
            shares.push(task.await.map_err(broken)??);
        }
        Ok(Share::all(&shares))
    })
}
