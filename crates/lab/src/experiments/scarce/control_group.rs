//! A control group with a quota of CPU time, for the time of a sample.

use daiko_sys::cgroup::{GroupLimit, MadeGroup};

use super::quota::{Limit, PERIOD, Quota, Way};
use crate::kit::{Failure, OrFailure, Skip};

/// Chooses the way to `quota` on this machine, or returns the reason why there is none.
pub(super) fn choose(quota: Quota) -> (Limit, Result<(), Skip>) {
    let by = |way| Limit { quota, way };
    match (with_quota(quota), quota) {
        (Ok(_), _) => (by(Way::ControlGroup), Ok(())),
        (Err(_), Quota::Half) => (by(Way::Stops), Ok(())),
        (Err(skip), _) => (by(Way::ControlGroup), Err(skip)),
    }
}

/// Makes a group with `quota` where this process may make one.
pub(super) fn with_quota(quota: Quota) -> Result<MadeGroup, Skip> {
    let limit = GroupLimit::Cpu { time: quota.time(), period: PERIOD };
    MadeGroup::new(limit).map_err(|error| Skip::new(error.to_string()))
}

/// Moves the calling process into the group, if there is one.
pub(super) fn enter(group: Option<&MadeGroup>) -> Result<(), Failure> {
    let entered = group.map_or(Ok(()), MadeGroup::enter);
    entered.or_unavailable("the process under test cannot enter a control group")
}
