//! Waiting for all members of a group.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::members::Members;
use daiko_core::wait::Node;

use super::Event;
use super::event::WaitEvent;
use crate::select::{Look, Selectable, Selected};
use daiko_rt::Deadline;
use daiko_rt::call::InCall;

/// A member of a group; [`wait`](Self::wait) returns when all other members have left.
///
/// Each clone is a member as well, which leaves when it is dropped or waits itself. A
/// [`select!`](crate::select!) can wait for them, too, and leaves the caller its membership
/// if another operation comes first.
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
pub struct WaitGroup {
    group: Arc<Group>,
}

const _: () = assert!(size_of::<WaitGroup>() == size_of::<usize>());

/// Name of a wait in messages.
const WAIT_KIND: &str = "WaitGroup::wait";

/// State that the members share.
struct Group {
    members: Members,
    /// Set once all members have left.
    ended: Event,
}

impl Group {
    fn of_one() -> Arc<Self> {
        Arc::new(Group { members: Members::of_one(), ended: Event::manual() })
    }

    /// Leaves the group, of which the caller is a member.
    fn leave(&self) {
        if self.members.leave() {
            self.ended.set();
        }
    }

    /// Leaves the group and returns true if the caller is its only member.
    fn leave_alone(&self) -> bool {
        let is_last = self.members.leave_alone();
        if is_last {
            self.ended.set();
        }
        is_last
    }
}

impl WaitGroup {
    /// Creates a group of one member.
    pub fn new() -> Self {
        WaitGroup { group: Group::of_one() }
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
        let group = self.leave();
        let _ = group.ended.wait_until(WAIT_KIND, || Deadline::NEVER);
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
        let group = self.leave();
        let ended = group.ended.wait_until(WAIT_KIND, || timeout.into());
        if ended.is_err() && group.members.come_back() {
            return Err(WaitGroup { group });
        }
        Ok(())
    }

    /// Leaves the group, by the drop of the handle.
    fn leave(self) -> Arc<Group> {
        self.group.clone()
    }
}

impl Clone for WaitGroup {
    fn clone(&self) -> Self {
        self.group.members.join();
        WaitGroup { group: self.group.clone() }
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        self.group.leave();
    }
}

/// A wait for the other members in a select. It has left the group while the select waits.
struct WaitOthers<'g> {
    member: &'g mut WaitGroup,
    has_left: Cell<bool>,
}

impl WaitGroup {
    /// Creates a wait for `select!`.
    #[doc(hidden)]
    pub fn select_wait(&mut self) -> Selected<impl Selectable<Output = ()>> {
        Selected::new(WaitOthers { member: self, has_left: Cell::new(false) })
    }
}

impl WaitOthers<'_> {
    fn ended(&self) -> WaitEvent<'_> {
        WaitEvent(&self.member.group.ended)
    }
}

impl Drop for WaitOthers<'_> {
    fn drop(&mut self) {
        if self.has_left.get() && !self.member.group.members.come_back() {
            // Not a member of a group that has ended: it would leave again.
            self.member.group = Group::of_one();
        }
    }
}

impl Selectable for WaitOthers<'_> {
    type Node = Node<WaiterId>;
    type Output = ();

    fn attempt(&self, call: InCall<'_>, look: Look) -> Option<()> {
        if self.has_left.get() {
            return self.ended().attempt(call, look);
        }
        self.has_left.set(self.member.group.leave_alone());
        self.has_left.get().then_some(())
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        // SAFETY: passed on to the caller.
        unsafe { self.ended().node(ticket) }
    }

    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool {
        if !self.has_left.replace(true) {
            self.member.group.leave();
        }
        // SAFETY: passed on to the caller.
        unsafe { self.ended().enqueue(call, node) }
    }

    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.ended().leave(call, node) }
    }

    fn claimed(&self, node: &Self::Node) -> Option<()> {
        self.ended().claimed(node)
    }

    fn order(&self) -> usize {
        self.ended().order()
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("members", &self.group.members.count()).finish()
    }
}
