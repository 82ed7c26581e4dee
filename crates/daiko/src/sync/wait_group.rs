//! Waiting for all members of a group.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Event;
use daiko_rt::Deadline;

/// A member of a group; [`wait`](Self::wait) returns when all other members have left.
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

/// Name of a wait in messages.
const WAIT_KIND: &str = "WaitGroup::wait";

/// State that the members share; it is dropped with the last of them.
struct Members {
    left: Arc<Event>,
}

impl Drop for Members {
    fn drop(&mut self) {
        self.left.set();
    }
}

/// A member that has left the group to wait for the rest.
struct Waiting {
    /// Set when all members have left.
    left: Arc<Event>,
    members: Weak<Members>,
}

impl WaitGroup {
    /// Creates a group of one member.
    pub fn new() -> Self {
        WaitGroup { members: Arc::new(Members { left: Arc::new(Event::manual()) }) }
    }

    /// Leaves the group and waits until all other members have left.
    ///
    /// Their actions before happen before the return. A cancel unwinds out of the wait.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn wait(self) {
        let _ = self.leave().wait_until(|| Deadline::NEVER);
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
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
    /// If the time is over. Then the caller is a member as before, and the error is its handle.
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
        if self.left.wait_until(WAIT_KIND, deadline).is_ok() {
            return Ok(());
        }
        match self.members.upgrade() {
            Some(members) => Err(WaitGroup { members }),
            // The last member has left, and is about to set the event.
            None => self
                .left
                .wait_until(WAIT_KIND, || Deadline::NEVER)
                .map_err(|_| unreachable!("never")),
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
