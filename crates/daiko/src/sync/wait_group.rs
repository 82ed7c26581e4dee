//! Waiting for all of a group.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Event;
use daiko_rt::wait::Deadline;

/// A member of a group; who [`wait`](Self::wait)s goes on when all others have left.
///
/// Each clone is a member as well, which leaves when it is dropped or waits itself.
///
/// ```
/// use daiko::sync::WaitGroup;
///
/// daiko::run(|| {
///     let group = WaitGroup::new();
///     for _ in 0..4 {
///         let member = group.clone();
///         daiko::spawn(move || {
///             daiko::yield_now();
///             drop(member);
///         });
///     }
///     group.wait();
/// });
/// ```
#[derive(Clone)]
pub struct WaitGroup {
    members: Arc<Members>,
}

const _: () = assert!(size_of::<WaitGroup>() == size_of::<usize>());

/// What messages call a wait.
const WHAT: &str = "WaitGroup::wait";

/// What the members have together: it is dropped with the last of them.
struct Members {
    left: Arc<Event>,
}

impl Drop for Members {
    fn drop(&mut self) {
        self.left.set();
    }
}

/// Who has left the group to wait for the others.
struct Waiting {
    /// Set when all have left.
    left: Arc<Event>,
    members: Weak<Members>,
}

impl WaitGroup {
    /// A group of one.
    pub fn new() -> Self {
        WaitGroup { members: Arc::new(Members { left: Arc::new(Event::manual()) }) }
    }

    /// Leaves the group and waits until all others have left.
    ///
    /// What they did before happens before the return. A cancel unwinds out of it.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn wait(self) {
        let _ = self.leave().wait_until(|| Deadline::NEVER);
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    ///
    /// ```
    /// # use daiko::sync::WaitGroup;
    /// # use std::time::Duration;
    /// let group = WaitGroup::new();
    /// let member = group.clone();
    /// let group = group.wait_timeout(Duration::ZERO).unwrap_err();
    /// drop(member);
    /// assert!(group.wait_timeout(Duration::ZERO).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// If the time is over: then the caller is a member as before, and the error is its handle.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(self, timeout: impl Into<Deadline>) -> Result<(), WaitGroup> {
        self.leave().wait_until(|| timeout.into())
    }

    fn leave(self) -> Waiting {
        Waiting { left: self.members.left.clone(), members: Arc::downgrade(&self.members) }
    }
}

impl Waiting {
    fn wait_until(self, deadline: impl FnOnce() -> Deadline) -> Result<(), WaitGroup> {
        if self.left.wait_until(WHAT, deadline).is_ok() {
            return Ok(());
        }
        match self.members.upgrade() {
            Some(members) => Err(WaitGroup { members }),
            // The last has left, and is about to say so.
            None => {
                self.left.wait_until(WHAT, || Deadline::NEVER).map_err(|_| unreachable!("never"))
            }
        }
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = Arc::strong_count(&self.members);
        f.debug_struct("WaitGroup").field("members", &members).finish()
    }
}
