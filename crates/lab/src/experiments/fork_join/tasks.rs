//! Tasks of tokio. A recursive `async fn` returns a boxed future, which tokio's documentation asks
//! for.

use std::pin::Pin;

use tokio::runtime::Runtime;
use tokio::task;

use super::clock::WorkClock;
use super::work::{LEAF, Task, Work, checksum, merge, plain_fib};
use crate::kit::tasks::{TokioKind, broken};
use crate::kit::{Failure, OrFailure};

pub(super) fn run_multi_thread(
    work: Work,
    workers: usize,
    clock: &mut WorkClock,
) -> Result<(), Failure> {
    run(TokioKind::MultiThread, work, workers, clock)
}

pub(super) fn run_current_thread(
    work: Work,
    workers: usize,
    clock: &mut WorkClock,
) -> Result<(), Failure> {
    run(TokioKind::CurrentThread, work, workers, clock)
}

fn run(kind: TokioKind, work: Work, workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    let runtime: Runtime =
        kind.builder(workers).build().or_limit("tokio's runtime did not start")?;
    let task = work.task();
    loop {
        let result = runtime.block_on(runtime.spawn(compute(task))).map_err(broken)?;
        if !clock.is_due(work, result)? {
            return Ok(());
        }
    }
}

async fn compute(task: Task) -> u64 {
    match task {
        Task::Fib(number, leaf) => fib(number, leaf).await,
        Task::Tree(values) => tree(values, 0).await,
        Task::Sort(numbers) => checksum(&sort(numbers.to_vec()).await),
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn fib(number: u64, leaf: u64) -> Boxed<u64> {
    Box::pin(async move {
        if number < leaf.max(2) {
            return plain_fib(number);
        }
        let one = task::spawn(fib(number - 1, leaf));
        let other = fib(number - 2, leaf).await;
        one.await.expect("the branch returns") + other
    })
}

fn tree(values: &'static [u64], node: usize) -> Boxed<u64> {
    Box::pin(async move {
        let Some(value) = values.get(node) else { return 0 };
        if 2 * node + 1 >= values.len() {
            return *value;
        }
        let one = task::spawn(tree(values, 2 * node + 1));
        let other = tree(values, 2 * node + 2).await;
        value.wrapping_add(one.await.expect("the branch returns")).wrapping_add(other)
    })
}

fn sort(mut low: Vec<u64>) -> Boxed<Vec<u64>> {
    Box::pin(async move {
        if low.len() <= LEAF {
            low.sort_unstable();
            return low;
        }
        let high = low.split_off(low.len() / 2);
        let low = task::spawn(sort(low));
        let high = sort(high).await;
        merge(&low.await.expect("the branch returns"), &high)
    })
}
