//! The placement of a new fiber; for a pinned one it is for life.

/// Difference in live started fibers up to which a fiber is never sent away.
pub const IMBALANCE_FLOOR: u32 = 64;

/// The place where a fiber starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StartPlace {
    /// The worker that asks.
    Here,
    /// Another worker, by its inbox.
    To(usize),
}

/// The worker with the fewest live started fibers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Its index.
    pub worker: usize,
    /// Number of its live started fibers.
    pub load: u32,
}

/// Returns the least loaded worker: `me` if it is among the least, otherwise the first of them.
///
/// # Panics
///
/// If there is no worker.
pub fn least(loads: impl IntoIterator<Item = u32>, me: usize) -> Least {
    let workers = loads.into_iter().enumerate().map(|(worker, load)| Least { worker, load });
    let least = workers.min_by_key(|least| (least.load, least.worker != me));
    least.expect("at least one worker")
}

/// Returns where worker `me`, about to start a fiber, starts it, given the live started fibers of
/// all workers.
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
/// use daiko_core::place::{StartPlace, start};
///
/// assert_eq!(start(&[64, 0], 0), StartPlace::Here);
/// assert_eq!(start(&[65, 0], 0), StartPlace::To(1));
/// assert_eq!(start(&[1250, 1000], 0), StartPlace::Here);
/// ```
pub fn start(loads: &[u32], me: usize) -> StartPlace {
    start_against(loads[me], least(loads.iter().copied(), me))
}

/// Returns where a worker with `mine` live started fibers starts one more.
///
/// Here, as long as `mine` exceeds the least load by at most [`IMBALANCE_FLOOR`] or by a quarter of
/// that load, whichever is more. The slack keeps related fibers together: a wake between workers
/// costs ten times a context switch within one.
pub fn start_against(mine: u32, least: Least) -> StartPlace {
    let slack = IMBALANCE_FLOOR.max(least.load / 4);
    if mine.saturating_sub(least.load) <= slack {
        StartPlace::Here
    } else {
        StartPlace::To(least.worker)
    }
}
