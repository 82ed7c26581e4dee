//! The stages of a worker that is a process, as its successor reads them.

/// The kind of sleep of a worker that has nothing in hand.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rest {
    /// It does not idle.
    No = 0,
    /// Until another thread unparks it; the monitor does not count it.
    Parked = 1,
    /// Between two polls.
    Sampling = 2,
}

/// The way in which a process comes to be a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// A process is this worker.
    No = 0,
    /// The process begins with the runtime.
    First = 1,
    /// After another process; it begins anew with the agent of that process.
    Anew = 2,
    /// After another process; it is given the registers of that process.
    GoesOn = 3,
}
