//! Files truncated below the processes that use them. Each case runs in a child process, which a
//! signal would end.

use daiko_core::doorbell::Listeners;
use daiko_ipc::{MIN_BYTES, Segment, SegmentError};

use crate::child::in_child_well;
use crate::support::{Place, make_object, object, refused, shared_words, words};

/// A segment with an object and a file truncated to `bytes` bytes.
fn cut(bytes: u64) -> (Place, Segment) {
    let place = Place::new();
    let segment = place.create();
    shared_words(&segment, 100);
    place.file().set_len(bytes).unwrap();
    (place, segment)
}

#[track_caller]
fn is_truncated<T>(result: Result<T, SegmentError>) {
    let error = refused(result, "end all its users, remove it");
    assert!(matches!(error, SegmentError::Truncated { .. }), "{error}");
}

#[test]
fn any_request_to_a_truncated_segment_is_refused() {
    in_child_well("truncated::any_request_to_a_truncated_segment_is_refused", || {
        let ask: [fn(&Segment); 3] = [
            |segment| is_truncated(segment.doorbell()),
            |segment| is_truncated(object(segment, "words", "words", |_| Ok(()))),
            |segment| is_truncated(make_object(segment, "more", words(1), |_| ())),
        ];
        for first in 0..ask.len() {
            let (_place, segment) = cut(0);
            assert!(!segment.is_truncated(), "it was not touched");
            ask[first](&segment);
            ask.iter().for_each(|ask| ask(&segment));
            assert!(segment.is_truncated());
        }
    });
}

#[test]
fn a_segment_cut_anywhere_ends_no_process() {
    in_child_well("truncated::a_segment_cut_anywhere_ends_no_process", || {
        for pages in 0..(MIN_BYTES / 4096) as u64 {
            let (place, segment) = cut(4096 * pages);
            let bell = segment.doorbell();
            let _ = object(&segment, "words", "words", |_| Ok(()));
            is_truncated(make_object(&segment, "more", words(1), |_| ()));
            segment.watch_all();
            segment.ring(&Listeners::new(), None);
            segment.ring_bell(5, None);
            let _ = (segment.attached(), segment.objects(), segment.free_bytes());
            if let Ok(bell) = bell {
                bell.doorbell().park();
                bell.seat(3).take(bell.number());
                let _ = bell.company(Some(1));
            }
            assert!(place.open().is_err(), "no other process comes");
            segment.remove().unwrap();
        }
    });
}
