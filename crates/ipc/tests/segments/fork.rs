//! Segments inherited from a parent process or from the previous program.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use daiko_ipc::{Barrier, BarrierError, Channel, ConnectError, MpmcChannel, SegmentError};

use crate::child::{command, in_child_well, is_child};
use crate::support::{
    Pair, Place, in_fork, make_object, refused, rest, shared_words, sign_in, signed_in, theirs,
    until, words,
};

#[test]
fn inherited_segments_are_refused_and_do_no_harm_when_dropped() {
    in_child_well("fork::inherited_segments_are_refused_and_do_no_harm_when_dropped", || {
        let place = Place::new();
        let segment = place.create();
        let bell = segment.doorbell().unwrap();
        let (me, number) = (segment.me(), bell.number());
        let mut mine = Some((segment, bell));
        in_fork(|| {
            let (segment, bell) = mine.take().unwrap();
            let is_inherited = |error| matches!(error, SegmentError::Inherited { .. });
            assert!(is_inherited(refused(segment.doorbell(), "open it here")));
            let made = make_object(&segment, "x", words(1), |_| ());
            assert!(is_inherited(refused(made, "open it here")));
            assert!(is_inherited(refused(segment.remove(), "open it here")));
            drop((segment, bell));
            let own = place.open().unwrap();
            assert!(!own.is_gone(me) && own.me() != me);
            assert_ne!(own.doorbell().unwrap().number(), number);
        });
        let (segment, _bell) = mine.take().unwrap();
        assert!(!segment.is_gone(me));
        assert_ne!(segment.doorbell().unwrap().number(), number);
    });
}

#[test]
fn ends_that_a_child_has_inherited_stay_with_its_parent() {
    in_child_well("fork::ends_that_a_child_has_inherited_stay_with_its_parent", || {
        let place = Place::new();
        let segment = place.create();
        let channel = Channel::<u64>::create(&segment, "one", Channel::options()).unwrap();
        let options = MpmcChannel::options().senders(1).receivers(1);
        let many = MpmcChannel::<u64>::create(&segment, "many", options).unwrap();
        let barrier = Barrier::create(&segment, "barrier", 1).unwrap();
        let mut ends = Some((
            (channel.sender().unwrap(), channel.receiver().unwrap()),
            (many.sender().unwrap(), many.receiver().unwrap()),
            barrier.party().unwrap(),
        ));
        in_fork(|| {
            drop(ends.take());
            let own = place.open().unwrap();
            let channel = Channel::<u64>::open(&own, "one").unwrap();
            assert_eq!(channel.sender().map(drop), Err(ConnectError::Taken));
            assert_eq!(channel.receiver().map(drop), Err(ConnectError::Taken));
            let many = MpmcChannel::<u64>::open(&own, "many").unwrap();
            assert_eq!(many.sender().map(drop), Err(ConnectError::Taken));
            assert_eq!(many.receiver().map(drop), Err(ConnectError::Taken));
            let barrier = Barrier::open(&own, "barrier").unwrap();
            assert_eq!(barrier.party().map(drop), Err(BarrierError::Taken));
        });
        let (_, (sender, receiver), mut party) = ends.take().unwrap();
        sender.send(5).unwrap();
        assert_eq!(receiver.recv(), Ok(5));
        assert!(party.wait().unwrap().is_leader());
    });
}

/// The thread that watches for deaths belongs to the parent.
#[test]
fn a_forked_process_watches_for_deaths_itself() {
    const NAME: &str = "fork::a_forked_process_watches_for_deaths_itself";
    in_child_well(NAME, || {
        let Pair { place, segment, child, other } = Pair::of(NAME);
        segment.watch(other);
        in_fork(|| {
            let own = place.open().unwrap();
            own.watch(other);
            let bell = own.doorbell().unwrap();
            bell.doorbell().park();
            // SAFETY: takes plain integers.
            assert_eq!(unsafe { libc::kill(child.0.id() as i32, libc::SIGKILL) }, 0);
            // Only its own watch rings for it.
            until("a ring", || !bell.doorbell().is_parked());
            assert!(own.is_gone(other));
        });
        until("the parent's own", || segment.is_gone(other));
    });
}

/// Marks a child that has become another program already.
const AGAIN: &str = "DAIKO_TEST_AGAIN";

/// Attaches, signs in, and becomes another program: this program again, or `other`.
fn become_another(place: &Path, test: &str, other: Option<&str>) -> ! {
    let _segment = sign_in(2);
    let mut command = other.map_or_else(|| command(test), Command::new);
    let error = command.arg("1000").env(AGAIN, place).exec();
    panic!("{error}");
}

/// Otherwise a restarted server with the same process id would find itself serving.
#[test]
fn a_process_that_becomes_another_program_has_left_when_that_comes() {
    const NAME: &str = "fork::a_process_that_becomes_another_program_has_left_when_that_comes";
    if is_child() && std::env::var_os(AGAIN).is_some() {
        let _segment = sign_in(2);
        rest();
    }
    if is_child() {
        become_another(&theirs(), NAME, None);
    }
    let place = Place::new();
    let segment = place.create();
    let words = shared_words(&segment, 2);
    let child = place.child(NAME);
    let [before, after] = [0, 1].map(|at| signed_in(&words, at));
    assert!(segment.is_gone(before) && !segment.is_gone(after));
    assert_eq!(segment.attached(), [std::process::id(), child.0.id()]);
}

#[test]
fn a_process_that_becomes_a_stranger_is_found_gone() {
    const NAME: &str = "fork::a_process_that_becomes_a_stranger_is_found_gone";
    if is_child() {
        become_another(&theirs(), NAME, Some("sleep"));
    }
    let place = Place::new();
    let segment = place.create();
    let mut child = place.child(NAME);
    let other = signed_in(&shared_words(&segment, 2), 0);
    until("it is found gone", || segment.has_gone(other));
    assert!(child.lives());
}
