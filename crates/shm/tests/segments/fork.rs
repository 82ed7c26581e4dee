//! What a process inherits of a segment from the one that forked it.

use daiko_shm::SegmentError;

use crate::child::in_child_well;
use crate::support::{Pair, Place, in_fork, refused, until, words};

#[test]
fn what_is_inherited_is_refused_and_does_no_harm_when_dropped() {
    in_child_well("fork::what_is_inherited_is_refused_and_does_no_harm_when_dropped", || {
        let place = Place::new();
        let segment = place.create();
        let bell = segment.doorbell().unwrap();
        let (me, number) = (segment.me(), bell.number());
        let mut mine = Some((segment, bell));
        in_fork(|| {
            let (segment, bell) = mine.take().unwrap();
            let is_inherited = |error| matches!(error, SegmentError::Inherited { .. });
            assert!(is_inherited(refused(segment.doorbell(), "open it here")));
            let made = segment.make_object("x", words(1), |_| ());
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

/// The thread that watched for deaths is the parent's.
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
            // Its own watch alone rings for it.
            until("a ring", || !bell.doorbell().is_parked());
            assert!(own.is_gone(other));
        });
        until("the parent's own", || segment.is_gone(other));
    });
}
