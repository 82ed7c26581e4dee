//! Placement of a ring's threads.

use daiko_sys::cpu::CpuSet;

use crate::experiments::ring::Cpus;

/// The CPUs that the ring's threads share, and the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) ring: CpuSet,
    pub(super) agent: CpuSet,
}

impl Places {
    /// Divides the `allowed` CPUs. An agent takes the last one, if there are two.
    pub(super) fn new(allowed: &CpuSet, cpus: Cpus, agent: bool) -> Self {
        let own = allowed.iter().last().filter(|_| agent && allowed.len() > 1);
        let rest = allowed.iter().filter(|&cpu| Some(cpu) != own);
        let most = match cpus {
            Cpus::All => usize::MAX,
            Cpus::One => 1,
        };
        Self { ring: rest.take(most).collect(), agent: own.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(allowed: &[usize], cpus: Cpus, agent: bool) -> [String; 2] {
        let allowed = allowed.iter().copied().collect();
        let Places { ring, agent } = Places::new(&allowed, cpus, agent);
        [ring.to_string(), agent.to_string()]
    }

    #[test]
    fn an_agent_takes_a_cpu_from_the_ring() {
        assert_eq!(places(&[1, 4, 6], Cpus::All, true), ["1,4", "6"]);
    }

    #[test]
    fn without_an_agent_the_ring_has_all() {
        assert_eq!(places(&[1, 4, 6], Cpus::All, false), ["1,4,6", ""]);
    }

    #[test]
    fn one_cpu_is_the_first_allowed() {
        assert_eq!(places(&[3, 5], Cpus::One, false), ["3", ""]);
    }
}
