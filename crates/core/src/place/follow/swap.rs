//! Unintended migrations.

/// The state of a task by which its unintended migrations are told from other migrations.
///
/// An unintended migration, a *swap*, takes a task back to where the wake-up just before has taken
/// it from, since that CPU still processes its wake-ups: the waking CPU and the chosen one change
/// places each time (the paper's figure 2, second wake-up and after).
///
/// # Examples
///
/// ```
/// use daiko_core::place::Swaps;
///
/// let mut task = Swaps::new();
/// assert!(!task.is_swap(0, 0, 1));
/// assert!(task.is_swap(0, 1, 0));
/// assert!(task.is_swap(1, 0, 1));
/// assert!(!task.is_swap(1, 1, 1));
/// assert!(!task.is_swap(0, 1, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swaps {
    /// The CPU from which the last wake-up has taken it.
    left: u16,
}

impl Swaps {
    const NOWHERE: u16 = u16::MAX;

    /// Creates the state of a task that has not been woken yet.
    pub const fn new() -> Self {
        Swaps { left: Self::NOWHERE }
    }

    /// Records that a wake-up on `waker` has put the task, which last ran on `previous`, on
    /// `chosen`. Returns true if that is a swap.
    #[inline]
    pub fn is_swap(&mut self, waker: u16, previous: u16, chosen: u16) -> bool {
        let moves = chosen != previous;
        let swaps = moves && chosen == waker && chosen == self.left;
        self.left = if moves { previous } else { Self::NOWHERE };
        swaps
    }
}

impl Default for Swaps {
    fn default() -> Self {
        Self::new()
    }
}
