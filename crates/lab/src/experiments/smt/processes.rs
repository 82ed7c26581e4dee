//! Set 2 of P4: all tasks are programs. An IO task is started first; it counts from the start of
//! its CPU task until that has ended.

use std::thread;

use super::programs::Work;
use super::run::{Amount, PairDone, StartGate, Stopped, all, bind};
use super::tree::Tree;
use crate::kit::p4::setting::Pair;
use crate::kit::{Failure, Memory};

/// Runs maps with their data in `memory`, and programs that do `work`.
pub(super) fn run(
    pairs: &[Pair],
    memory: &Memory,
    work: &Work,
    amount: Amount,
) -> Result<Vec<PairDone>, Failure> {
    let start = StartGate::of(pairs.len());
    let one = |(seed, pair): (u64, &Pair)| -> Result<PairDone, Stopped> {
        // A program inherits the CPUs of the thread that starts it.
        let (tree, begin) = start.wait(bind(pair.io).and_then(|()| {
            let tree = Tree::start(memory, seed)?;
            bind(pair.cpu).map(|()| tree)
        }))?;
        tree.begin()?;
        let cpu = work.run(begin, amount)?;
        Ok(PairDone { io: tree.end(memory)?, cpu })
    };
    thread::scope(|scope| {
        let tasks: Vec<_> = (0..).zip(pairs).map(|pair| scope.spawn(move || one(pair))).collect();
        all(tasks.into_iter().map(|task| task.join().expect("no pair panics")).collect())
    })
}
