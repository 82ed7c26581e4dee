//! Objects by name, and refusals.

use daiko_shm::{MAX_NAME, MAX_OBJECTS, MIN_BYTES, Segment, SegmentError, Spec};

use crate::support::{refused, words};

fn segment() -> Segment {
    Segment::anonymous(MIN_BYTES).unwrap()
}

#[test]
fn a_name_that_is_none_is_refused_to_maker_and_user() {
    let segment = segment();
    let _a = segment.make_object("a", words(1), |_| ()).unwrap();
    let long = "x".repeat(MAX_NAME + 1);
    for name in ["", "a\0", &long, &"x".repeat(1000)] {
        let made = segment.make_object(name, words(1), |_| ());
        for asked in [made, segment.object(name, "words", |_| Ok(()))] {
            let error = refused(asked, "a name has 1 to 63 bytes");
            assert!(matches!(error, SegmentError::Name { name: told } if told == name));
        }
    }
    segment.make_object(&long[1..], words(1), |_| ()).unwrap();
}

#[test]
fn an_object_is_made_once() {
    let segment = segment();
    let _first = segment.make_object("x", words(1), |_| ()).unwrap();
    let error = refused(segment.make_object("x", words(2), |_| ()), "open it instead");
    assert!(matches!(error, SegmentError::ObjectTaken { name } if name == "x"));
    let error = refused(segment.object("y", "words", |_| Ok(())), "start first who creates it");
    assert!(matches!(error, SegmentError::NoObject { name } if name == "y"));
    assert_eq!(segment.objects(), ["x"]);
}

#[test]
fn an_object_of_another_kind_or_size_is_refused_by_what_differs() {
    let segment = segment();
    segment.make_object("x", words(3), |_| ()).unwrap();
    let fits = |kind, bytes| {
        move |spec: &Spec| match () {
            () if spec.kind != kind => Err("kind"),
            () if spec.bytes != bytes => Err("size"),
            () => Ok(()),
        }
    };
    for (kind, bytes, other) in [(78, 24, "another kind"), (77, 16, "another size")] {
        let error = refused(segment.object("x", "a list", fits(kind, bytes)), other);
        assert!(matches!(error, SegmentError::Other { asked: "a list", .. }));
    }
    assert_eq!(segment.object("x", "a list", fits(77, 24)).unwrap().spec(), &words(3));
}

#[test]
fn a_full_segment_says_how_much_is_left() {
    let segment = segment();
    let bytes = segment.free_bytes();
    let error = refused(segment.make_object("x", words(bytes / 8 + 1), |_| ()), "create it larger");
    assert!(matches!(error, SegmentError::NoRoom { free, .. } if free == bytes));
    let _all = segment.make_object("x", words(bytes / 8), |_| ()).unwrap();
    let error = refused(segment.make_object("y", words(1), |_| ()), "create it larger");
    assert!(matches!(error, SegmentError::NoRoom { free: 0, .. }));
    refused(segment.make_object("z", words(usize::MAX / 8), |_| ()), "create it larger");
}

#[test]
fn a_segment_with_all_its_objects_takes_no_more() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for at in 0..MAX_OBJECTS {
        segment.make_object(&format!("o{at}"), words(1), |_| ()).unwrap();
    }
    let error = refused(segment.make_object("one more", words(1), |_| ()), "another segment");
    assert!(matches!(error, SegmentError::Full { .. }));
    assert_eq!(segment.objects().len(), MAX_OBJECTS);
}

/// The previous creator has left data there.
#[test]
fn an_object_is_zeroed_and_complete_before_it_is_found() {
    let segment = segment();
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        segment.make_object("x", words(8), |object| {
            object.bytes(0, 64).write(&[0xA5; 64]);
            panic!("half done");
        })
    }));
    assert!(again.is_err() && segment.objects().is_empty(), "who does not finish has made none");
    let other = segment.clone();
    let made = segment.make_object("x", words(8), |object| {
        assert_eq!(object.bytes(0, 64).to_vec(), [0; 64]);
        assert!(other.objects().is_empty());
        object.bytes(0, 64).write(&[1; 64]);
    });
    drop(made.unwrap());
    let found = segment.object("x", "words", |_| Ok(())).unwrap();
    assert_eq!(found.bytes(0, 64).to_vec(), [1; 64]);
}

#[test]
#[should_panic(expected = "what lies in an object is within it")]
fn nobody_looks_behind_an_object() {
    let segment = segment();
    let object = segment.make_object("x", words(1), |_| ()).unwrap();
    object.bytes(1, 8);
}
