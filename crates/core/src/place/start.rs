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

impl Least {
    /// Stands for a worker where no worker accepts fibers: no load exceeds its own.
    pub const NONE: Least = Least { worker: usize::MAX, load: u32::MAX };
}

/// Returns the least loaded worker among `loads`, the indices and loads of the workers that accept
/// fibers: `me` if it is among the least, otherwise the first of them. Returns `None` if no worker
/// accepts fibers.
pub fn least(loads: impl IntoIterator<Item = (usize, u32)>, me: usize) -> Option<Least> {
    let workers = loads.into_iter().map(|(worker, load)| Least { worker, load });
    workers.min_by_key(|least| (least.load, least.worker != me))
}

/// Returns where worker `me`, about to start a fiber, starts it, given the live started fibers of
/// all workers; `None` for a worker that accepts no fibers.
///
/// A worker that accepts none, but is about to start one, keeps it as any other worker does.
///
/// A look at every worker: callers that start often keep the result of [`least`] for a while and
/// ask [`start_against`].
///
/// # Examples
///
/// ```
/// use daiko_core::place::{StartPlace, start};
///
/// assert_eq!(start(64, [Some(64), Some(0)], 0), StartPlace::Here);
/// assert_eq!(start(65, [Some(65), Some(0)], 0), StartPlace::To(1));
/// assert_eq!(start(65, [Some(65), None], 0), StartPlace::Here);
/// assert_eq!(start(1250, [Some(1250), Some(1000)], 0), StartPlace::Here);
/// ```
pub fn start(mine: u32, loads: impl IntoIterator<Item = Option<u32>>, me: usize) -> StartPlace {
    let accepting = |(worker, load): (usize, Option<u32>)| load.map(|load| (worker, load));
    let least = least(loads.into_iter().enumerate().filter_map(accepting), me);
    start_against(mine, least.unwrap_or(Least::NONE))
}

/// Returns where a worker with `mine` live started fibers starts one more, given the least loaded
/// of the workers that accept fibers, or [`Least::NONE`].
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
