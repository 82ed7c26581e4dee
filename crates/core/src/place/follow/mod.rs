//! Wake-ups that wait for their interrupt: the placement of a task while the interrupts that wake
//! it follow it.
//!
//! From Goda and Tago, "Improvement of load balancing at process wake-up that considers interrupts
//! which follow the process" (P3 in docs/papers.md). A task is a process if a kernel or the
//! simulator asks, a fiber if the runtime does; there a CPU is a worker.

mod swap;

pub use swap::Swaps;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Largest number of wake-ups for which a task stays if its interrupt does not follow it.
pub const BOUND: u8 = 4;

/// Returns where a kernel puts a woken task: on the CPU that wakes it if that is idle, else on the
/// one where it last ran, else on the idle one next after the waker, counted round; on the waker's
/// if none is idle.
///
/// `idle` has a bit for each of the at most 128 CPUs.
///
/// # Examples
///
/// ```
/// use daiko_core::place::existing;
///
/// assert_eq!(existing(0, 1, 0b011), 0);
/// assert_eq!(existing(0, 1, 0b110), 1);
/// assert_eq!(existing(0, 1, 0b100), 2);
/// assert_eq!(existing(0, 1, 0b000), 0);
/// ```
#[inline]
pub fn existing(waker: u16, previous: u16, idle: u128) -> u16 {
    let is_idle = |cpu: u16| idle >> cpu & 1 != 0;
    if is_idle(waker) || idle == 0 {
        waker
    } else if is_idle(previous) {
        previous
    } else {
        // No shift by 128: the waker is not idle, so it is not found behind itself.
        let after = idle & (u128::MAX << waker);
        (if after != 0 { after } else { idle }).trailing_zeros() as u16
    }
}

/// The state of a task that waits for its interrupt.
///
/// After it has moved, by a wake-up or otherwise, it stays until a wake-up is processed on the CPU
/// where it is, *that one included*: if it were released at that wake-up, the policy of before
/// would send it on as ever. A task that is woken from elsewhere, maybe for ever, is held for a
/// bounded number of wake-ups.
///
/// # Examples
///
/// The sequence of the paper's figure 2. CPU 0 is busy at first, so the task moves, and by the
/// policy of kernels it changes CPU at each wake-up from then on:
///
/// ```
/// use daiko_core::place::{BOUND, Follow, existing};
///
/// let (mut task, mut runs_on) = (Follow::new(), 0);
/// for (waker, idle, chosen) in [(0, 0b10, 1), (0, 0b11, 1), (1, 0b11, 1), (1, 0b11, 1)] {
///     runs_on = task.place(waker, runs_on, BOUND, || existing(waker, runs_on, idle));
///     assert_eq!(runs_on, chosen);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The CPU where it was put last.
    home: u16,
    /// Largest number of further wake-ups for which it stays.
    held: u8,
}

impl Follow {
    const NOWHERE: u16 = u16::MAX;

    /// Creates the state of a task that has not been woken yet.
    pub const fn new() -> Self {
        Follow { home: Self::NOWHERE, held: 0 }
    }

    /// Returns where to put the task, which last ran on `previous`, at a wake-up that `waker`
    /// processes; `otherwise` says where it goes if nothing holds it. It is held for at most
    /// `bound` wake-ups after a move; 0 holds no task.
    #[inline]
    pub fn place(
        &mut self,
        waker: u16,
        previous: u16,
        bound: u8,
        otherwise: impl FnOnce() -> u16,
    ) -> u16 {
        if self.home != previous && self.home != Self::NOWHERE {
            // A balancer or a thief has moved it.
            self.held = bound;
        }
        self.home = previous;
        if self.held > 0 {
            self.held = if waker == previous { 0 } else { self.held - 1 };
            return previous;
        }
        self.home = otherwise();
        if self.home != previous {
            self.held = bound;
        }
        self.home
    }

    /// Returns true if it stays at the next wake-up in any case.
    pub fn is_held(&self) -> bool {
        self.held > 0
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}
