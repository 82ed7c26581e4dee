//! The policies.

use std::{fmt, str::FromStr};

use crate::Error;

/// Default number of wake-ups for which a task stays at most; the same as
/// `daiko_core::place::BOUND`.
pub const DEFAULT_BOUND: u8 = 4;

/// The placement of woken tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The policy of kernels: the waking CPU if it is idle; else the previous CPU if it is idle;
    /// else an idle CPU.
    Existing,
    /// The same policy, but a moved task stays until its CPU has processed a wake-up.
    Follow,
    /// The existing policy while a CPU is idle. If none is, the task waits for any CPU of its
    /// domain, not for one.
    Shared,
}

/// The tasks that the scheduler gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// All normal tasks of the machine.
    All,
    /// Tasks of the policy `SCHED_EXT`.
    Partial,
}

/// The settings that the scheduler reads at each wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy that decides.
    pub policy: Policy,
    /// Number of wake-ups for which a task stays at most if no interrupt follows; 0 holds no task.
    pub bound: u8,
    /// Whether stalling tasks share cores with computing tasks, by their declared classes.
    pub pair: bool,
}

impl Policy {
    /// The policy's number in `src/bpf/policy.h`.
    pub fn number(self) -> u32 {
        match self {
            Policy::Existing => 0,
            Policy::Follow => 1,
            Policy::Shared => 2,
        }
    }

    /// The policy with that number, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        let all = [Policy::Existing, Policy::Follow, Policy::Shared];
        all.into_iter().find(|policy| policy.number() == number)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Existing => "existing",
            Policy::Follow => "follow",
            Policy::Shared => "shared",
        })
    }
}

impl FromStr for Policy {
    type Err = Error;

    /// One of the policies that `daiko follow` compares.
    fn from_str(name: &str) -> Result<Self, Error> {
        [Policy::Existing, Policy::Follow]
            .into_iter()
            .find(|policy| policy.to_string() == name)
            .ok_or_else(|| {
                Error::new(format!("no policy is named '{name}'; there are: existing, follow"))
            })
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Existing | Policy::Shared => write!(f, "{}", self.policy)?,
            Policy::Follow => write!(f, "follow, at most {} wake-ups", self.bound)?,
        }
        f.write_str(if self.pair { ", pairs" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_name_and_number() {
        for policy in [Policy::Existing, Policy::Follow] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(Policy::from_number(policy.number()), Some(policy));
        }
        assert!("".parse::<Policy>().is_err());
        assert_eq!(Policy::from_number(2), Some(Policy::Shared));
        assert_eq!(Policy::from_number(3), None);
    }
}
