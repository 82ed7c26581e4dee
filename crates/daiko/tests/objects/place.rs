//! A segment, and the processes that a test attaches to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use daiko::shm::{Event, Segment};
use daiko_ipc::Object;

use crate::support::child::{Killed, command};
use crate::support::segments::segment_name;
use crate::support::until;

/// A timeout of a wait that has to end before: far above every bound.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A timeout of a wait that ends by it.
pub(crate) const SHORT: Duration = Duration::from_millis(20);
const SEGMENT: &str = "DAIKO_TEST_SEGMENT";
/// The part that a child plays, if a test has several kinds.
const ROLE: &str = "DAIKO_TEST_ROLE";

/// A segment, removed at the end.
pub(crate) struct Place {
    pub(crate) segment: Segment,
}

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = segment_name(format_args!("{number}-{name}"));
        Place { segment: Segment::create(name, 4 << 20).unwrap() }
    }

    /// Runs the test of this `name` in a child, which finds the segment by [`theirs`].
    pub(crate) fn child(&self, name: &str) -> Killed {
        self.child_as(name, "")
    }

    /// Runs a child as [`child`](Self::child) does, with this [`role`].
    pub(crate) fn child_as(&self, name: &str, role: &str) -> Killed {
        child_at(self.segment.path(), name, role)
    }

    /// Returns an event by which a child tells how far it is.
    pub(crate) fn event(&self, name: &str) -> Event {
        Event::open_or_create(&self.segment, name).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.segment.remove().unwrap();
    }
}

/// Runs the test of this `name` in a child, which finds the segment by [`their_path`].
pub(crate) fn child_at(path: &Path, name: &str, role: &str) -> Killed {
    let mut command = command(name);
    command.env(SEGMENT, path).env(ROLE, role);
    Killed(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Returns the path of the parent's segment, in a child.
pub(crate) fn their_path() -> PathBuf {
    std::env::var_os(SEGMENT).unwrap().into()
}

/// Returns the segment of the parent, in a child.
pub(crate) fn theirs() -> Segment {
    Segment::open(their_path()).unwrap()
}

/// Returns the part that the child plays.
pub(crate) fn role() -> String {
    std::env::var(ROLE).unwrap()
}

/// Sets the event `at` in a child, and waits there until the child is killed.
pub(crate) fn rest(segment: &Segment, at: &str) -> ! {
    Event::open_or_create(segment, at).unwrap().set();
    loop {
        std::thread::park();
    }
}

/// The memory of the object of this name, as a peer process may access it.
pub(crate) fn raw_object(segment: &Segment, name: &str) -> Object {
    // SAFETY: the words that tests access there are accessed as such by the object's type as well;
    // or the test stands for a process that does harm, and accepts it.
    unsafe { segment.object(name, "anything", |_| Ok(())) }.unwrap()
}

/// Waits until a waiter has registered at the object of this name. Its listeners lie at the offset
/// `at`.
pub(crate) fn until_a_waiter_listens(segment: &Segment, name: &str, at: usize) {
    let object = raw_object(segment, name);
    until("there is a waiter", || object.at::<AtomicU64>(at).load(Ordering::Relaxed) != 0);
    let_them_sleep();
}

/// Gives waiters time to sleep. If they do not sleep yet, a test sees less than it could, and
/// passes.
pub(crate) fn let_them_sleep() {
    std::thread::sleep(SHORT);
}
