//! Many tasks that contend for one lock, with all CPUs allowed.

use std::sync::Arc;

use tokio::sync::{Mutex, RwLock};
use tokio::task::{self, JoinHandle};

use super::runtime::broken;
use crate::experiments::costs::crowd::{self, CrowdRun, Record, WRITES_IN};
use crate::experiments::costs::locks::Pair;
use crate::kit::{Effort, Failure, Sample};

pub(super) async fn mutex(threads: usize, effort: Effort) -> Result<Sample, Failure> {
    let shared = Arc::new((Mutex::new(0), CrowdRun::new(threads, effort)));
    let (counter, run) = &*shared;
    let hold = counter.lock().await;
    let handles = (0..threads).map(|_| task::spawn(count(Arc::clone(&shared)))).collect();
    open(run, hold).await;
    let records = join(handles).await?;
    run.outcome(&records, *counter.lock().await)
}

async fn count(shared: Arc<(Mutex<u64>, CrowdRun)>) -> Result<Record, Failure> {
    let (counter, run) = &*shared;
    let mut record = Record::new(run);
    loop {
        record.ask();
        let visit = crowd::count(&mut *counter.lock().await, run.target);
        if !record.enter(visit, run)? {
            return Ok(record);
        }
    }
}

pub(super) async fn rwlock(threads: usize, effort: Effort) -> Result<Sample, Failure> {
    let shared = Arc::new((RwLock::new(Pair::default()), CrowdRun::new(threads, effort)));
    let (lock, run) = &*shared;
    let hold = lock.write().await;
    let handles =
        (0..threads).map(|index| task::spawn(attend(Arc::clone(&shared), index))).collect();
    open(run, hold).await;
    let records = join(handles).await?;
    run.outcome(&records, lock.read().await[0])
}

async fn attend(shared: Arc<(RwLock<Pair>, CrowdRun)>, index: usize) -> Result<Record, Failure> {
    let (lock, run) = &*shared;
    let mut record = Record::new(run);
    let mut turn = index as u64;
    loop {
        record.ask();
        let visit = match turn.is_multiple_of(WRITES_IN) {
            true => crowd::write(&mut *lock.write().await, run.target),
            false => crowd::read(&*lock.read().await, run.target),
        };
        if !record.enter(visit?, run)? {
            return Ok(record);
        }
        turn += 1;
    }
}

/// Releases the lock once all tasks have asked for it.
async fn open<H>(run: &CrowdRun, hold: H) {
    while !run.assembled() {
        task::yield_now().await;
    }
    run.start();
    drop(hold);
}

async fn join(handles: Vec<JoinHandle<Result<Record, Failure>>>) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::with_capacity(handles.len());
    for task in handles {
        records.push(task.await.map_err(broken)??);
    }
    Ok(records)
}
