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
    let (counter, course) = &*shared;
    let hold = counter.lock().await;
    let crew = (0..threads).map(|_| task::spawn(count(Arc::clone(&shared)))).collect();
    open(course, hold).await;
    let records = join(crew).await?;
    course.outcome(&records, *counter.lock().await)
}

async fn count(shared: Arc<(Mutex<u64>, CrowdRun)>) -> Result<Record, Failure> {
    let (counter, course) = &*shared;
    let mut record = Record::new(course);
    loop {
        record.ask();
        let visit = crowd::count(&mut *counter.lock().await, course.target);
        if !record.enter(visit, course)? {
            return Ok(record);
        }
    }
}

pub(super) async fn rwlock(threads: usize, effort: Effort) -> Result<Sample, Failure> {
    let shared = Arc::new((RwLock::new(Pair::default()), CrowdRun::new(threads, effort)));
    let (ledger, course) = &*shared;
    let hold = ledger.write().await;
    let crew = (0..threads).map(|index| task::spawn(attend(Arc::clone(&shared), index))).collect();
    open(course, hold).await;
    let records = join(crew).await?;
    course.outcome(&records, ledger.read().await[0])
}

async fn attend(shared: Arc<(RwLock<Pair>, CrowdRun)>, index: usize) -> Result<Record, Failure> {
    let (ledger, course) = &*shared;
    let mut record = Record::new(course);
    let mut turn = index as u64;
    loop {
        record.ask();
        let visit = match turn.is_multiple_of(WRITES_IN) {
            true => crowd::write(&mut *ledger.write().await, course.target),
            false => crowd::read(&*ledger.read().await, course.target),
        };
        if !record.enter(visit?, course)? {
            return Ok(record);
        }
        turn += 1;
    }
}

/// Releases the lock once all tasks have asked for it.
async fn open<H>(course: &CrowdRun, hold: H) {
    while !course.assembled() {
        task::yield_now().await;
    }
    course.start();
    drop(hold);
}

async fn join(crew: Vec<JoinHandle<Result<Record, Failure>>>) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::with_capacity(crew.len());
    for task in crew {
        records.push(task.await.map_err(broken)??);
    }
    Ok(records)
}
