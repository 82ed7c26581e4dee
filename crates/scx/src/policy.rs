//! Which policy decides.

use std::{fmt, str::FromStr};

use crate::Error;

/// How many wake-ups a task stays at most, unless told otherwise; as `daiko_core::place::BOUND`.
pub const DEFAULT_BOUND: u8 = 4;

/// Where a woken task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As kernels have it: on the CPU that wakes it if that is idle, else where it last ran, else on an idle one.
    Existing,
    /// The same, but who has moved stays until a wake-up was processed where it is.
    Follow,
}

/// What the scheduler reads at each wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which policy decides.
    pub policy: Policy,
    /// How many wake-ups a task stays at most that is not followed; 0 holds nobody.
    pub bound: u8,
}

impl Policy {
    /// What `src/bpf/follow.bpf.c` calls it.
    pub fn number(self) -> u32 {
        match self {
            Policy::Existing => 0,
            Policy::Follow => 1,
        }
    }

    /// The policy of that number, of which there may be none.
    pub fn from_number(number: u32) -> Option<Self> {
        [Policy::Existing, Policy::Follow].into_iter().find(|policy| policy.number() == number)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Existing => "existing",
            Policy::Follow => "follow",
        })
    }
}

impl FromStr for Policy {
    type Err = Error;

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
            Policy::Existing => write!(f, "existing"),
            Policy::Follow => write!(f, "follow, at most {} wake-ups", self.bound),
        }
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
        assert_eq!(Policy::from_number(2), None);
    }
}
