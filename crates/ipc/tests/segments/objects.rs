//! Objects by name, and refusals.

use daiko_ipc::{MAX_NAME, MAX_OBJECTS, MIN_BYTES, ObjectSpec, Segment, SegmentError};

use crate::support::{make_object, object, refused, words};

fn segment() -> Segment {
    Segment::anonymous(MIN_BYTES).unwrap()
}

#[test]
fn a_name_that_is_none_is_refused_to_maker_and_user() {
    let segment = segment();
    let _a = make_object(&segment, "a", words(1), |_| ()).unwrap();
    let long = "x".repeat(MAX_NAME + 1);
    for name in ["", "a\0", &long, &"x".repeat(1000)] {
        let made = make_object(&segment, name, words(1), |_| ());
        for asked in [made, object(&segment, name, "words", |_| Ok(()))] {
            let error = refused(asked, "a name has 1 to 63 bytes");
            assert!(matches!(error, SegmentError::Name { name: told } if told == name));
        }
    }
    make_object(&segment, &long[1..], words(1), |_| ()).unwrap();
}

#[test]
fn an_object_is_made_once() {
    let segment = segment();
    let _first = make_object(&segment, "x", words(1), |_| ()).unwrap();
    let error = refused(make_object(&segment, "x", words(2), |_| ()), "open it instead");
    assert!(matches!(error, SegmentError::ObjectTaken { name } if name == "x"));
    let error = refused(
        object(&segment, "y", "words", |_| Ok(())),
        "start the program that creates it first",
    );
    assert!(matches!(error, SegmentError::NoObject { name } if name == "y"));
    assert_eq!(segment.objects(), ["x"]);
}

#[test]
fn an_object_of_another_kind_or_size_is_refused_by_the_difference() {
    let segment = segment();
    make_object(&segment, "x", words(3), |_| ()).unwrap();
    let fits = |kind, bytes| {
        move |spec: &ObjectSpec| match () {
            () if spec.kind != kind => Err("kind"),
            () if spec.bytes != bytes => Err("size"),
            () => Ok(()),
        }
    };
    for (kind, bytes, other) in [(78, 24, "another kind"), (77, 16, "another size")] {
        let error = refused(object(&segment, "x", "a list", fits(kind, bytes)), other);
        assert!(matches!(error, SegmentError::Other { asked: "a list", .. }));
    }
    assert_eq!(object(&segment, "x", "a list", fits(77, 24)).unwrap().spec(), &words(3));
}

#[test]
fn a_full_segment_says_how_much_is_left() {
    let segment = segment();
    let bytes = segment.free_bytes();
    let error =
        refused(make_object(&segment, "x", words(bytes / 8 + 1), |_| ()), "create it larger");
    assert!(matches!(error, SegmentError::NoRoom { free, .. } if free == bytes));
    let _all = make_object(&segment, "x", words(bytes / 8), |_| ()).unwrap();
    let error = refused(make_object(&segment, "y", words(1), |_| ()), "create it larger");
    assert!(matches!(error, SegmentError::NoRoom { free: 0, .. }));
    refused(make_object(&segment, "z", words(usize::MAX / 8), |_| ()), "create it larger");
}

#[test]
fn a_segment_with_all_its_objects_takes_no_more() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for at in 0..MAX_OBJECTS {
        make_object(&segment, &format!("o{at}"), words(1), |_| ()).unwrap();
    }
    let error = refused(make_object(&segment, "one more", words(1), |_| ()), "another segment");
    assert!(matches!(error, SegmentError::Full { .. }));
    assert_eq!(segment.objects().len(), MAX_OBJECTS);
}

/// The previous creator has left data there.
#[test]
fn an_object_is_zeroed_and_complete_before_it_is_found() {
    let segment = segment();
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        make_object(&segment, "x", words(8), |object| {
            object.bytes(0, 64).write(&[0xA5; 64]);
            panic!("half done");
        })
    }));
    assert!(again.is_err() && segment.objects().is_empty(), "an unfinished object does not exist");
    let other = segment.clone();
    let made = make_object(&segment, "x", words(8), |object| {
        assert_eq!(object.bytes(0, 64).to_vec(), [0; 64]);
        assert!(other.objects().is_empty());
        object.bytes(0, 64).write(&[1; 64]);
    });
    drop(made.unwrap());
    let found = object(&segment, "x", "words", |_| Ok(())).unwrap();
    assert_eq!(found.bytes(0, 64).to_vec(), [1; 64]);
}

#[test]
#[should_panic(expected = "the content of an object lies within it")]
fn accesses_behind_an_object_panic() {
    let segment = segment();
    let object = make_object(&segment, "x", words(1), |_| ()).unwrap();
    object.bytes(1, 8);
}
