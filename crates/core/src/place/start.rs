//! Starting a fiber, which for a pinned one is its placement for life.

/// The difference in live started fibers that is never worth sending a fiber away for.
pub const IMBALANCE_FLOOR: u32 = 64;

/// Where a fiber starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Start {
    /// On the worker that asks.
    Here,
    /// On this worker, by its inbox.
    To(usize),
}

/// The worker with the fewest live started fibers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Its index.
    pub worker: usize,
    /// How many live started fibers it has.
    pub load: u32,
}

/// The least loaded worker, `me` if it is among the least, otherwise the first of them.
///
/// # Panics
///
/// If there is no worker.
pub fn least(loads: impl IntoIterator<Item = u32>, me: usize) -> Least {
    let workers = loads.into_iter().enumerate().map(|(worker, load)| Least { worker, load });
    let least = workers.min_by_key(|least| (least.load, least.worker != me));
    least.expect("at least one worker")
}

/// Where worker `me`, about to start a fiber, starts it, given everybody's live started fibers.
///
/// A look at every worker: callers that start often keep the result of [`least`] for a while and
/// ask [`start_against`].
///
/// # Panics
///
/// If `me` is not an index of `loads`.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Start, start};
///
/// assert_eq!(start(&[64, 0], 0), Start::Here);
/// assert_eq!(start(&[65, 0], 0), Start::To(1));
/// assert_eq!(start(&[1250, 1000], 0), Start::Here);
/// ```
pub fn start(loads: &[u32], me: usize) -> Start {
    start_against(loads[me], least(loads.iter().copied(), me))
}

/// Where a worker with `mine` live started fibers starts one more.
///
/// Here, as long as `mine` exceeds the least load by at most [`IMBALANCE_FLOOR`] or by a quarter of
/// that load, whichever is more. The slack keeps related fibers together: a hop between workers
/// costs ten times one within.
pub fn start_against(mine: u32, least: Least) -> Start {
    let slack = IMBALANCE_FLOOR.max(least.load / 4);
    if mine.saturating_sub(least.load) <= slack { Start::Here } else { Start::To(least.worker) }
}
