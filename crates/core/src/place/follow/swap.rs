//! Migrations that nobody wanted.

/// What is remembered of a task so that its unintended migrations are told from others.
///
/// Such a one, a *swap*, takes a task back to where the wake-up just before has taken it from, since that CPU still processes its wake-ups: the
/// waking CPU and the chosen one change places each time (the paper's figure 2, second wake-up and after).
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
    /// Where the last wake-up has taken it from.
    left: u16,
}

impl Swaps {
    const NOWHERE: u16 = u16::MAX;

    /// Of a task that has not been woken yet.
    pub const fn new() -> Self {
        Swaps { left: Self::NOWHERE }
    }

    /// Takes note that a wake-up on `waker` has put the task, which last ran on `previous`, on `chosen`; whether that is a
    /// swap.
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
