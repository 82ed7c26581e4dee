//! A tree of processes over a segment without a name. The parent dies.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::Stdio;

use daiko::shm::{Cause, Event, Mutex, Segment, TimedLockError};

use crate::place::{LONG, Place, rest, role, theirs};
use crate::support::child::{command, is_child};

const NAME: &str = "tree::the_rest_of_a_tree_goes_on_where_its_parent_dies";
/// The descriptor of the segment that a child inherits.
const FD: &str = "DAIKO_TEST_FD";

/// Makes the segment, locks its mutex, and starts a child of its own.
fn parent() -> ! {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let mutex = Mutex::create(&segment, "mutex", 1u64).unwrap();
    let mut locked = mutex.lock().unwrap();
    *locked = 2;
    segment.as_fd(|fd| {
        // SAFETY: takes plain integers. The copy is inherited, as it is not closed where a program
        // begins.
        let inherited = unsafe { libc::dup(fd.as_raw_fd()) };
        let mut child = command(NAME);
        child.envs([("DAIKO_TEST_ROLE", "child".into()), (FD, inherited.to_string())]);
        drop(child.stdout(Stdio::null()).spawn().unwrap());
    });
    rest(&theirs(), "parent");
}

/// Waits for the mutex that its parent holds, and then uses the segment.
fn child() {
    let inherited = std::env::var(FD).unwrap().parse().unwrap();
    // SAFETY: it was inherited, and is not closed.
    let inherited = unsafe { BorrowedFd::borrow_raw(inherited) };
    let segment = Segment::from_fd(inherited).unwrap();
    let mutex = Mutex::<u64>::open(&segment, "mutex").unwrap();
    assert!(mutex.try_lock().is_err(), "its parent lives");
    Event::open_or_create(&theirs(), "child").unwrap().set();
    let Err(TimedLockError::Poisoned(error)) = mutex.lock_timeout(LONG) else {
        panic!("the death of the parent was not reported")
    };
    assert_eq!(error.cause(), Cause::OwnerDied);
    assert_eq!(*error.into_inner(), 1, "it has not written back");
    Event::create(&segment, "more").unwrap().set();
    let other = Segment::from_fd(inherited).unwrap();
    assert!(Event::open(&other, "more").unwrap().is_set());
    Event::open_or_create(&theirs(), "done").unwrap().set();
}

#[test]
fn the_rest_of_a_tree_goes_on_where_its_parent_dies() {
    if is_child() {
        return match &*role() {
            "child" => child(),
            _ => parent(),
        };
    }
    let place = Place::new("tree");
    let done = place.event("done");
    let parent = place.child(NAME);
    [place.event("parent"), place.event("child")].iter().for_each(Event::wait);
    parent.kill();
    assert_eq!(done.wait_timeout(LONG), Ok(()));
}
