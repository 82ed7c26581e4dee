//! `std` is the oracle: random programs do the same with its objects as with Daiko's.
//!
//! The programs are one text, `programs`, which is compiled twice: against `std` and its threads
//! (`theirs`), and against Daiko, its fibers and any threads (`ours`). Their steps are drawn from
//! `plan`. A failure prints its plan; proptest keeps the seed. `PROPTEST_CASES` asks for more.
//!
//! To add an object: put its name into `theirs` and `ours` (an object that `std` lacks is built
//! from parts of `std` in `theirs`), its steps into `plan`, and a file into `programs`.

mod ours;
mod plan;
#[path = "../support/mod.rs"]
mod support;
mod theirs;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

/// A program that has not ended after this time never will.
const LOST: Duration = Duration::from_secs(120);

/// Checks that each step, by a thread and by a fiber, has the result that `std` has.
fn assert_same_steps<S, R>(steps: Vec<S>, theirs: fn(&[S]) -> R, ours: fn(&[S]) -> R)
where
    S: Send + 'static,
    R: Debug + PartialEq + Send + 'static,
{
    let expected = theirs(&steps);
    assert_eq!(ours(&steps), expected, "by a thread");
    assert_eq!(daiko::run(move || ours(&steps)), expected, "by a fiber");
}

/// Checks that the end is as with `std`, in whichever order the tasks run.
fn assert_same_end<P, R>(plan: P, theirs: fn(&P) -> R, ours: fn(&P) -> R)
where
    P: Debug + Send + Sync + 'static,
    R: Debug + PartialEq + Send + 'static,
{
    let plan = Arc::new(plan);
    assert_eq!(end(&plan, ours), end(&plan, theirs));
}

/// Returns the end of a program, which has to come.
fn end<P, R>(plan: &Arc<P>, program: fn(&P) -> R) -> R
where
    P: Debug + Send + Sync + 'static,
    R: Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let theirs = plan.clone();
    let runs = thread::spawn(move || sender.send(program(&theirs)));
    match receiver.recv_timeout(LOST) {
        Ok(end) => end,
        Err(RecvTimeoutError::Timeout) => panic!("never ends: {plan:?}"),
        Err(RecvTimeoutError::Disconnected) => match runs.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(_) => unreachable!("it sends its result"),
        },
    }
}

/// The configuration for programs of many threads. They take longer, and a shrunk program is a
/// different program.
fn concurrent() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases / 4, max_shrink_iters: 0, ..config }
}

proptest! {
    #[test]
    fn locks_step_by_step(steps in plan::steps(plan::lock_step())) {
        assert_same_steps(steps, theirs::programs::lock::run, ours::programs::lock::run);
    }

    #[test]
    fn permits_step_by_step(steps in plan::steps(plan::permit_step())) {
        assert_same_steps(steps, theirs::programs::permits::run, ours::programs::permits::run);
    }

    #[test]
    fn readers_and_writers_step_by_step(steps in plan::steps(plan::rw_step())) {
        assert_same_steps(steps, theirs::programs::rwlock::run, ours::programs::rwlock::run);
    }

    #[test]
    fn channels_step_by_step(room in plan::room(), steps in plan::steps(plan::channel_step())) {
        let (theirs, ours) = (theirs::programs::channel::run, ours::programs::channel::run);
        let plan = (room, steps);
        let expected = theirs(&plan);
        prop_assert_eq!(&ours(&plan), &expected, "by a thread");
        prop_assert_eq!(daiko::run(move || ours(&plan)), expected, "by a fiber");
    }

    #[test]
    fn once_step_by_step(steps in plan::steps(plan::once_step())) {
        assert_same_steps(steps, theirs::programs::once::run, ours::programs::once::run);
    }
}

proptest! {
    #![proptest_config(concurrent())]

    #[test]
    fn a_crowd_leaves_the_same_behind(crowd in plan::crowd()) {
        assert_same_end(crowd, theirs::programs::crowd::run, ours::programs::crowd::run);
    }

    #[test]
    fn all_that_flows_arrives(flow in plan::flow()) {
        assert_same_end(flow, theirs::programs::flow::run, ours::programs::flow::run);
    }

    #[test]
    fn all_that_is_sent_is_received_in_order(stream in plan::stream()) {
        assert_same_end(stream, theirs::programs::stream::run, ours::programs::stream::run);
    }

    #[test]
    fn parties_leave_a_barrier_together(meeting in plan::meeting()) {
        assert_same_end(meeting, theirs::programs::meeting::run, ours::programs::meeting::run);
    }
}
