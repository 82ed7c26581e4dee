//! Attaching to segments and leaving them.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use daiko_ipc::{MAX_ATTACHED, MIN_BYTES, Segment, SegmentError};
use daiko_sys::file::Reason;

use crate::child::{Killed, in_child_well, is_child};
use crate::support::{
    Pair, Place, make_object, refused, rest, shared_words, signed_in, theirs, until, word,
};

const LARGE: usize = 1 << 20;

#[test]
fn a_segment_is_left_when_the_last_handle_is_dropped() {
    let place = Place::new();
    let first = place.create();
    let second = place.open().unwrap();
    let holder = second.me();
    let (clone, object) = (second.clone(), shared_words(&second, 1));
    drop(second);
    drop(clone);
    assert!(!first.is_gone(holder), "an object keeps it");
    drop(object);
    assert!(first.is_gone(holder));
    assert_eq!(first.attached(), [std::process::id()]);
    let third = place.open().unwrap();
    assert_eq!(third.me().index(), holder.index());
    assert!(first.is_gone(holder) && !first.is_gone(third.me()));
}

#[test]
fn a_doorbell_keeps_its_segment_but_does_not_use_it() {
    let place = Place::new();
    let first = place.create();
    let second = place.open().unwrap();
    let holder = second.me();
    let bells = [(); 2].map(|()| second.doorbell().unwrap());
    assert!(bells[0].segment().is(&second) && bells[0].segment().is_in_use());
    let object = shared_words(&second, 1);
    drop(second);
    assert!(bells[0].segment().is_in_use());
    drop(object);
    assert!(!bells[0].segment().is_in_use());
    assert!(!first.is_gone(holder));
    drop(bells);
    assert!(first.is_gone(holder));
}

/// Other threads take and return doorbells meanwhile. A thread that wrongly saw the segment unused
/// would give up a doorbell that is slept on.
#[test]
fn a_segment_in_use_is_seen_so_with_any_doorbells() {
    let segment = Segment::anonymous(MIN_BYTES).unwrap();
    let bell = segment.doorbell().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| (0..20_000).for_each(|_| drop(segment.doorbell().unwrap())));
        (0..100_000).for_each(|_| assert!(bell.segment().is_in_use()));
    });
}

#[test]
fn a_removed_segment_makes_room_for_another() {
    let place = Place::new();
    let old = place.create();
    assert!(!old.is_removed().unwrap());
    old.remove().unwrap();
    assert!(old.is_removed().unwrap());
    old.remove().unwrap();
    let new = place.create();
    assert!(old.is_removed().unwrap() && !new.is_removed().unwrap(), "the name is the successor's");
    old.remove().unwrap();
    assert!(place.path().exists(), "the name is the successor's");
    shared_words(&old, 1);
    assert!(new.objects().is_empty());
    new.remove().unwrap();
    assert!(!Segment::anonymous(MIN_BYTES).unwrap().is_removed().unwrap());
}

const FULL: &str = "attach::a_full_table_takes_no_process";

/// One process alone cannot map the segment so many times.
#[test]
fn a_full_table_takes_no_process() {
    if is_child() {
        let all: Vec<_> = (0..MAX_ATTACHED / 2).map(|_| Segment::open(theirs())).collect();
        let refused: Vec<_> = all.iter().filter_map(|opened| opened.as_ref().err()).collect();
        assert!(refused.len() <= 1, "{refused:?}");
        rest();
    }
    let place = Place::new();
    let segment = place.create();
    let mut children: Vec<_> = (0..2).map(|_| place.child(FULL)).collect();
    until("256 attachments", || segment.attached().len() == MAX_ATTACHED);
    let error = refused(place.open(), "256 attached processes: end one of them");
    assert!(matches!(error, SegmentError::Full { .. }));
    children.pop();
    let opened = place.open().unwrap();
    assert!(opened.attached().len() <= MAX_ATTACHED / 2 + 2, "and the dead are attached no more");
}

/// Leaves a segment of `bytes` bytes with killed processes.
fn stale(place: &Place, test: &str, bytes: usize) {
    let mut child = place.command(test);
    let _killed = Killed(child.env("DAIKO_TEST_BYTES", bytes.to_string()).spawn().unwrap());
    until("a segment", || {
        let Ok(segment) = place.open() else { return false };
        // Waits until the creation is complete.
        let others = segment.attached().iter().any(|&pid| pid != std::process::id());
        others && !segment.objects().is_empty()
    });
}

/// Creates the segment that is to be left. Runs in a child.
fn create_theirs() -> ! {
    let bytes = std::env::var("DAIKO_TEST_BYTES").unwrap().parse().unwrap();
    let segment = Segment::create(theirs(), bytes).unwrap();
    // Complete with its sign: the process is killed once the object is there.
    let _words = make_object(&segment, "words", crate::support::words(1), |words| {
        word(words, 0).store(segment.me().bits(), Ordering::SeqCst);
    })
    .unwrap();
    rest();
}

#[test]
fn a_stale_segment_is_opened_without_its_dead() {
    const NAME: &str = "attach::a_stale_segment_is_opened_without_its_dead";
    if is_child() {
        create_theirs();
    }
    let place = Place::new();
    stale(&place, NAME, LARGE);
    let segment = Segment::open_or_create(place.path(), LARGE).unwrap();
    assert_eq!(segment.attached(), [std::process::id()]);
    let dead = signed_in(&shared_words(&segment, 1), 0);
    assert!(segment.is_gone(dead));
}

#[test]
fn a_smaller_segment_is_replaced_unless_a_process_is_attached() {
    const NAME: &str = "attach::a_smaller_segment_is_replaced_unless_a_process_is_attached";
    if is_child() {
        create_theirs();
    }
    let place = Place::new();
    stale(&place, NAME, MIN_BYTES);
    let small = place.open().unwrap();
    let error = refused(Segment::open_or_create(place.path(), LARGE), "end its users");
    let sizes = matches!(error, SegmentError::Smaller { asked: LARGE, has: MIN_BYTES, .. });
    assert!(sizes, "{error}");
    drop(small);
    let large = Segment::open_or_create(place.path(), LARGE).unwrap();
    assert!(large.bytes() == LARGE && large.objects().is_empty());
    // A larger segment is accepted.
    assert_eq!(Segment::open_or_create(place.path(), MIN_BYTES).unwrap().bytes(), LARGE);
}

const AT_ONCE: usize = 20;

/// Attaches once its standard input is closed, and waits until all other children have attached.
/// Runs in a child.
fn come_at_once() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let segment = Segment::open_or_create(theirs(), LARGE).unwrap();
    let words = shared_words(&segment, 1);
    word(&words, 0).fetch_add(1, Ordering::SeqCst);
    until("the other processes", || word(&words, 0).load(Ordering::SeqCst) == AT_ONCE as u64);
    std::process::exit(0);
}

/// Lets all children attach at once; all must get the same segment.
fn all_come(place: &Place, test: &str) {
    let spawn = |_| Killed(place.command(test).stdin(Stdio::piped()).spawn().unwrap());
    let mut children: Vec<_> = (0..AT_ONCE).map(spawn).collect();
    children.iter_mut().for_each(|child| drop(child.0.stdin.take()));
    for child in &mut children {
        child.ends_well();
    }
}

#[test]
fn processes_that_come_at_once_get_one_segment() {
    const NAME: &str = "attach::processes_that_come_at_once_get_one_segment";
    if is_child() {
        come_at_once();
    }
    all_come(&Place::new(), NAME);
}

#[test]
fn processes_that_come_at_once_to_a_stale_segment_get_that_segment() {
    const NAME: &str = "attach::processes_that_come_at_once_to_a_stale_segment_get_that_segment";
    if is_child() && std::env::var_os("DAIKO_TEST_BYTES").is_some() {
        let segment = Segment::create(theirs(), LARGE).unwrap();
        let _mark = make_object(&segment, "mark", crate::support::words(1), |_| ()).unwrap();
        rest();
    }
    if is_child() {
        come_at_once();
    }
    let place = Place::new();
    stale(&place, NAME, LARGE);
    all_come(&place, NAME);
    assert_eq!(place.open().unwrap().objects(), ["mark", "words"]);
}

#[test]
fn processes_that_come_at_once_to_a_stale_smaller_segment_get_a_larger() {
    const NAME: &str =
        "attach::processes_that_come_at_once_to_a_stale_smaller_segment_get_a_larger";
    if is_child() && std::env::var_os("DAIKO_TEST_BYTES").is_some() {
        create_theirs();
    }
    if is_child() {
        come_at_once();
    }
    let place = Place::new();
    stale(&place, NAME, MIN_BYTES);
    all_come(&place, NAME);
    assert_eq!(place.open().unwrap().bytes(), LARGE);
}

/// Other processes create and remove the segment all the time: an attached segment has its name.
#[test]
fn no_process_attaches_to_a_segment_that_is_removed_meanwhile() {
    let place = Place::new();
    let come_and_go = || {
        for _ in 0..200 {
            match Segment::open_or_create(place.path(), MIN_BYTES) {
                Ok(segment) => segment.remove().unwrap(),
                Err(SegmentError::File(error)) => {
                    assert!(matches!(error.reason(), Reason::Missing | Reason::Taken), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|s| _ = [(); 3].map(|()| s.spawn(come_and_go)));
    assert!(!place.path().exists());
}

/// A process that attaches and leaves keeps no descriptor of the processes it has watched.
#[test]
fn watching_costs_no_descriptor_once_the_segment_is_left() {
    const NAME: &str = "attach::watching_costs_no_descriptor_once_the_segment_is_left";
    in_child_well(NAME, || {
        let Pair { place, segment, other, child: _child } = Pair::of(NAME);
        segment.watch(other);
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for _ in 0..20 {
            place.open().unwrap().watch(other);
        }
        assert_eq!(descriptors(), before);
        let second = place.open().unwrap();
        second.watch(other);
        assert!(descriptors() > before, "it costs some as long as it is watched");
    });
}
