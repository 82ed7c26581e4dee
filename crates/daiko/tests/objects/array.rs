use std::thread;

use daiko::shm::{Array, Segment, SegmentError};

use crate::place::{Place, rest, theirs};
use crate::support::assert_names;
use crate::support::child::is_child;

type Row = [u64; 3];

#[test]
fn values_are_those_that_another_process_has_written() {
    const NAME: &str = "array::values_are_those_that_another_process_has_written";
    if is_child() {
        let segment = theirs();
        let rows = Array::<Row>::open(&segment, "rows").unwrap();
        (0..rows.len()).for_each(|index| rows.set(index, &[index as u64; 3]));
        rest(&segment, "written");
    }
    let place = Place::new("array");
    let rows = Array::<Row>::create(&place.segment, "rows", 100).unwrap();
    let written = place.event("written");
    assert!((0..100).all(|index| rows.get(index) == [0; 3]));
    let _child = place.child(NAME);
    written.wait();
    assert!((0..100).all(|index| rows.get(index) == [index as u64; 3]));
}

#[test]
fn an_array_has_one_type_and_the_length_of_its_maker() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let rows = Array::<Row>::create(&segment, "rows", 7).unwrap();
    rows.set(6, &[1, 2, 3]);
    let again = Array::<Row>::open(&segment, "rows").unwrap();
    assert_eq!((again.len(), again.get(6), again.get(5)), (7, [1, 2, 3], [0; 3]));
    let error = Array::<[u32; 6]>::open(&segment, "rows").unwrap_err();
    assert_names(&error, "use the same types and sizes");
    let taken = Array::<Row>::create(&segment, "rows", 7).unwrap_err();
    assert!(matches!(taken, SegmentError::ObjectTaken { .. }), "{taken}");
    assert!(Array::<Row>::open(&segment, "others").is_err());
}

#[test]
fn impossible_lengths_are_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for len in [0, usize::MAX, usize::MAX / size_of::<Row>() + 1] {
        let error = Array::<Row>::create(&segment, "rows", len).unwrap_err();
        assert!(matches!(error, SegmentError::Impossible { .. }), "{len}: {error}");
    }
    assert!(Array::<()>::create(&segment, "units", 5).is_err());
    let large = Array::<Row>::create(&segment, "rows", 1 << 40).unwrap_err();
    assert!(matches!(large, SegmentError::NoRoom { .. }), "{large}");
}

#[test]
fn an_index_beyond_the_end_panics() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let rows = Array::<Row>::create(&segment, "rows", 7).unwrap();
    for index in [7, usize::MAX, usize::MAX / size_of::<Row>() + 1] {
        let outcomes = thread::scope(|scope| {
            let (get, set) =
                (scope.spawn(|| rows.get(index)), scope.spawn(|| rows.set(index, &[0; 3])));
            (get.join().is_err(), set.join().is_err())
        });
        assert_eq!(outcomes, (true, true), "{index}");
    }
}
