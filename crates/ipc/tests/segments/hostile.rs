//! Peers that write arbitrary values to arbitrary places.

use std::sync::atomic::{AtomicU64, Ordering};

use daiko_core::doorbell::Listeners;
use daiko_core::robust::Holder;
use daiko_ipc::{MIN_BYTES, Segment};
use daiko_sys::file::{Populate, SharedFile};
use daiko_sys::memory::Mapping;
use proptest::prelude::*;

use crate::support::{Place, make_object, object, words};

/// Offsets of the tables: header, attached, doorbells, owners, seats, names, objects. See
/// `layout.rs`.
const TABLES: [usize; 8] =
    [0, 4 << 10, 20 << 10, 84 << 10, 92 << 10, 108 << 10, 172 << 10, MIN_BYTES];

/// A word written by a peer.
#[derive(Clone, Copy, Debug)]
struct Scribble {
    at: usize,
    word: u64,
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let word = prop_oneof![
        any::<u64>(),
        0u64..4,
        Just(u64::MAX),
        // Values that resemble a generation with an index, sizes and offsets.
        (0u64..3, 0u64..300).prop_map(|(generation, index)| generation << 32 | index << 16 | 1),
        (0u64..64).prop_map(|shift| 1 << shift),
        (0..MIN_BYTES as u64 / 128).prop_map(|lines| lines * 128),
    ];
    let at = (0..TABLES.len() - 1).prop_flat_map(|table| {
        // The beginning of each table is read first.
        let (from, to) = (TABLES[table] / 8, TABLES[table + 1] / 8);
        prop_oneof![from..to, from..(from + 64).min(to)]
    });
    (at, word).prop_map(|(at, word)| Scribble { at, word })
}

fn write(mapping: &Mapping, scribble: Scribble) {
    assert!(8 * scribble.at < mapping.len());
    // SAFETY: an aligned word of a live mapping that is accessed by atomics only.
    let word = unsafe { mapping.start().cast::<AtomicU64>().add(scribble.at).as_ref() };
    word.store(scribble.word, Ordering::Relaxed);
}

/// Calls all methods of a segment that do not wait.
fn use_all(segment: &Segment, number: usize) {
    let bell = segment.doorbell();
    if let Ok(bell) = &bell {
        bell.doorbell().park();
        let _ = bell.company(bell.doorbell().cpu());
        bell.seat(number as u32).take(bell.number());
    }
    let listeners = Listeners::new();
    (0..64).for_each(|bit| listeners.listen(bit));
    segment.ring(&listeners, None);
    segment.ring_bell(number * 97, None);
    segment.watch_all();
    let stranger = Holder::of(u64::MAX - number as u64).unwrap();
    segment.watch(stranger);
    let _ = (segment.is_gone(stranger), segment.attached(), segment.free_bytes());
    let name = format!("made {}", number % 4);
    let _ = make_object(segment, &name, words(1 + number % 100), |_| ());
    for name in segment.objects() {
        // An invalid name is refused like any other.
        let Ok(object) = object(segment, &name, "words", |_| Ok(())) else { continue };
        let bytes = object.spec().bytes;
        assert!(bytes <= segment.bytes());
        let all = object.bytes(0, bytes).to_vec();
        assert_eq!(all.len(), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_caller_panics_or_looks_outside_with_any_tables(
        scribbles in prop::collection::vec(scribble(), 1..60),
    ) {
        let place = Place::new();
        let segment = place.create();
        let theirs = SharedFile::open(place.path()).unwrap().map(Populate::OnUse).unwrap();
        for (number, scribble) in scribbles.into_iter().enumerate() {
            write(&theirs, scribble);
            use_all(&segment, number);
            if let Ok(other) = place.open() {
                use_all(&other, number + 1);
            }
            let _ = Segment::open_or_create(place.path(), 2 * MIN_BYTES).map(|larger| {
                assert!(larger.bytes() >= 2 * MIN_BYTES);
            });
        }
    }

    /// The stores happen at the same time.
    #[test]
    fn no_caller_panics_or_looks_outside_with_any_writes_meanwhile(
        scribbles in prop::collection::vec(scribble(), 100),
    ) {
        use std::sync::atomic::AtomicBool;
        let place = Place::new();
        let segment = place.create();
        let theirs = SharedFile::open(place.path()).unwrap().map(Populate::OnUse).unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    scribbles.iter().for_each(|&scribble| write(&theirs, scribble));
                }
            });
            (0..10).for_each(|number| use_all(&segment, number));
            ends.store(true, Ordering::Relaxed);
        });
    }
}
