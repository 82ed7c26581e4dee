//! Properties of events and rings.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use proptest::prelude::*;

use super::*;

fn any_event() -> impl Strategy<Value = Event> {
    let address = 0u64..1 << 56;
    let left = prop_oneof![
        Just(Departure::Agent),
        Just(Departure::Yields),
        Just(Departure::Ended),
        (0u8..=252).prop_map(Departure::Waits),
    ];
    prop_oneof![
        (address.clone(), left).prop_map(|(to, left)| Event::Switch { to, left }),
        address.clone().prop_map(Event::Start),
        address.clone().prop_map(Event::SpawnedAt),
        address.clone().prop_map(Event::Wake),
        address.prop_map(Event::Steal),
        any::<[u8; 15]>().prop_map(Event::Name),
        Just(Event::Sleep),
        Just(Event::Awake),
        Just(Event::PollHit),
    ]
}

proptest! {
    #[test]
    fn an_event_comes_back_from_its_form_in_a_ring(event in any_event(), ticks: u64) {
        let (parsed, time) = event.raw(ticks).parse().unwrap();
        prop_assert_eq!(parsed, event);
        if !matches!(event, Event::Name(_)) {
            prop_assert_eq!(time, ticks & ((1 << 56) - 1));
        }
    }

    #[test]
    fn any_words_are_an_event_or_none(words: [u64; 2]) {
        if let Some((event, time)) = RawEvent(words).parse() {
            prop_assert_eq!(event.raw(time).parse().map(|(event, _)| event), Some(event));
        }
    }
}

/// A ring with all zeros, too large for a stack.
struct Zeros(*mut Ring);

impl Zeros {
    fn new() -> Self {
        // SAFETY: the layout has a size.
        let ring = unsafe { alloc_zeroed(Layout::new::<Ring>()) };
        assert!(!ring.is_null());
        Zeros(ring.cast())
    }

    fn event(&self, number: u64) -> u64 {
        // SAFETY: alive; all zeros are a ring.
        unsafe { &*self.0 }.0[number as usize % RING_EVENTS][1].load(Ordering::Relaxed)
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.cast(), Layout::new::<Ring>()) };
    }
}

#[test]
fn events_come_in_their_order_as_far_as_the_credit_lasts() {
    let (recorder, ring) = (Recorder::new(), Zeros::new());
    let record = |number: u64| {
        // SAFETY: the ring is alive, and one thread records.
        unsafe { recorder.record(&[Event::Wake(number).raw(0)]) }
    };
    assert!(!recorder.needs_ring(), "nobody reads");
    recorder.reader.store(1, Ordering::Relaxed);
    assert!(recorder.needs_ring() && !record(0));
    recorder.set_ring(ring.0);
    assert!(!recorder.needs_ring() && !recorder.has_credit() && !record(0));
    let mut cursor = Cursor::new(0);
    let (mut next, mut taken) = (0, 0);
    for _ in 0..3 {
        let recorded = recorder.recorded.load(Ordering::Relaxed);
        let unread = cursor.unread(recorded).unwrap();
        for number in unread.first..unread.first + unread.len {
            assert_eq!(ring.event(number), taken);
            taken += 1;
        }
        recorder.credit_end.store(cursor.take(unread, RING_EVENTS as u64), Ordering::Relaxed);
        assert!(recorder.has_credit() && !cursor.is_exhausted(recorded));
        while record(next) {
            next += 1;
        }
        assert!(cursor.is_exhausted(recorder.recorded.load(Ordering::Relaxed)));
    }
    assert_eq!((next, taken), (3 * RING_EVENTS as u64, 2 * RING_EVENTS as u64));
}

#[test]
fn events_that_belong_together_are_recorded_together_or_not_at_all() {
    let (recorder, ring) = (Recorder::new(), Zeros::new());
    recorder.set_ring(ring.0);
    recorder.credit_end.store(3, Ordering::Relaxed);
    let two = [Event::Start(1).raw(0), Event::SpawnedAt(2).raw(0)];
    // SAFETY: the ring is alive, and one thread records.
    let done = [(), ()].map(|()| unsafe { recorder.record(&two) });
    assert_eq!(done, [true, false]);
    assert_eq!(recorder.recorded.load(Ordering::Relaxed), 2);
}

#[test]
fn a_count_that_the_credit_does_not_allow_is_another_readers() {
    let mut cursor = Cursor::new(10);
    assert_eq!(cursor.unread(11), None, "there was no credit");
    let unread = cursor.unread(10).unwrap();
    assert_eq!(cursor.take(unread, 4), 14);
    assert_eq!(cursor.unread(9), None, "events do not vanish");
    assert_eq!(cursor.unread(13), Some(Unread { first: 10, len: 3 }));
    assert_eq!(cursor.unread(15), None);
}

#[test]
fn no_credit_leads_out_of_the_ring() {
    let (recorder, ring) = (Recorder::new(), Zeros::new());
    recorder.set_ring(ring.0);
    for (recorded, credit_end) in [(u64::MAX - 1, u64::MAX), (7, u64::MAX), (u64::MAX, 0)] {
        recorder.recorded.store(recorded, Ordering::Relaxed);
        recorder.credit_end.store(credit_end, Ordering::Relaxed);
        // SAFETY: the ring is alive, and one thread records.
        let recorded = unsafe { recorder.record(&[Event::Sleep.raw(0)]) };
        assert_eq!(recorded, credit_end == u64::MAX);
    }
}
