//! Quotas of CPU time.

use std::time::Duration;

use crate::kit::{Choice, Params};

/// Period of a quota.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// The CPUs that a process may use on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quota {
    Half,
    One,
    OneAndHalf,
}

impl Choice for Quota {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Half, "0.5"), (Self::One, "1"), (Self::OneAndHalf, "1.5")];
}

impl Quota {
    /// CPU time in each [`PERIOD`].
    pub(super) fn time(self) -> Duration {
        PERIOD / 2
            * match self {
                Self::Half => 1,
                Self::One => 2,
                Self::OneAndHalf => 3,
            }
    }
}

/// The way to limit a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A control group of its own.
    ControlGroup,
    /// Stops, for a half of each period.
    Stops,
}

impl Choice for Way {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::ControlGroup, "control-group"), (Self::Stops, "stops")];
}

/// A quota, and the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) quota: Quota,
    pub(super) way: Way,
}

impl Limit {
    /// Adds a limit to the parameters of a point.
    pub(super) fn with(limit: Option<Self>, params: Params) -> Params {
        let (quota, way) = limit.map(|limit| (limit.quota, limit.way)).unzip();
        params.with_some("quota", quota).with_some("quota-by", way)
    }

    /// Returns the limit of a point, or `None` if its parameters are wrong.
    pub(super) fn from_params(params: &Params) -> Option<Option<Self>> {
        if params.get("quota").is_none() {
            return Some(None);
        }
        Some(Some(Self { quota: params.choice("quota")?, way: params.choice("quota-by")? }))
    }
}
