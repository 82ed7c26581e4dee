//! Where the threads of a ring run.

use std::{io, mem};

use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t};

use crate::ring::Cpus;

/// Which CPUs the ring's threads share, and the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) ring: Vec<usize>,
    pub(super) agent: Vec<usize>,
}

impl Places {
    /// Shares out `allowed`; an agent takes the last CPU, if there are two.
    pub(super) fn new(allowed: &[usize], cpus: Cpus, agent: bool) -> Self {
        let (ring, agent) = match (agent, allowed.split_last()) {
            (true, Some((own, rest))) if !rest.is_empty() => (rest, vec![*own]),
            _ => (allowed, Vec::new()),
        };
        let ring = match cpus {
            Cpus::All => ring.to_vec(),
            Cpus::One => ring.iter().take(1).copied().collect(),
        };
        Self { ring, agent }
    }
}

/// The CPUs on which the calling thread may run.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is an array of integers: all zeroes are the empty set.
    let mut set: cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for writes of the size that is passed; 0 is the
    // calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every index is below `CPU_SETSIZE`.
    Ok((0..CPU_SETSIZE as usize).filter(|&cpu| unsafe { CPU_ISSET(cpu, &set) }).collect())
}

/// Binds the calling thread to `cpus`, indices from [`allowed`].
pub(super) fn bind(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: as in `allowed`.
    let mut set: cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: `allowed` returns indices below `CPU_SETSIZE` only.
        unsafe { CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is valid for reads of the size that is passed; 0 is the
    // calling thread.
    if unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), &set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_takes_a_cpu_from_the_ring() {
        let places = Places::new(&[1, 4, 6], Cpus::All, true);
        assert_eq!(places, Places { ring: vec![1, 4], agent: vec![6] });
    }

    #[test]
    fn one_cpu_is_the_first_allowed() {
        let places = Places::new(&[3, 5], Cpus::One, false);
        assert_eq!(places, Places { ring: vec![3], agent: vec![] });
    }
}
