//! A worker that records, and a reader that empties its ring of two events.

use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, spawn};

/// Number of events: each slot is used twice.
const EVENTS: u64 = 4;

struct Shared {
    recorder: Recorder,
    ring: Box<Ring>,
}

/// Returns the event with this number: both of its words tell.
fn event(number: u64) -> RawEvent {
    RawEvent([number + 1, 10 * (number + 1)])
}

impl Shared {
    fn new() -> Arc<Self> {
        let slot = |_| [AtomicU64::new(0), AtomicU64::new(0)];
        let ring = Box::new(Ring(std::array::from_fn(slot)));
        let recorder = Recorder::new();
        recorder.set_ring(ptr::from_ref(&*ring).cast_mut());
        Arc::new(Shared { recorder, ring })
    }

    fn read(&self, number: u64) -> RawEvent {
        let slot = &self.ring.0[number as usize % RING_EVENTS];
        RawEvent([0, 1].map(|word: usize| slot[word].load(Ordering::Relaxed)))
    }

    /// Takes the events that are there; returns the number of events.
    fn take(&self, cursor: &mut Cursor) -> u64 {
        // Acquire and Release in place of the reader's system calls.
        let recorded = self.recorder.recorded.load(Ordering::Acquire);
        let unread = cursor.unread(recorded).expect("there is one reader");
        let mut credit = || {
            let end = cursor.take(unread, RING_EVENTS as u64);
            self.recorder.credit_end.store(end, Ordering::Release);
        };
        if cfg!(weaken = "trace-credit") {
            credit();
        }
        for number in unread.first..unread.first + unread.len {
            assert_eq!(self.read(number), event(number), "event {number} is torn");
        }
        if !cfg!(weaken = "trace-credit") {
            credit();
        }
        unread.len
    }
}

#[test]
fn no_event_is_torn_or_lost() {
    bounded(3, || {
        let shared = Shared::new();
        let mut cursor = Cursor::new(0);
        assert_eq!(shared.take(&mut cursor), 0);
        let worker = spawn(&shared, |shared| {
            let mut recorded = 0;
            // A few tries more than needed, as the reader may come late.
            for _ in 0..EVENTS + 1 {
                // SAFETY: the ring is alive, and this thread alone records.
                if recorded < EVENTS && unsafe { shared.recorder.record(&[event(recorded)]) } {
                    recorded += 1;
                }
            }
            recorded
        });
        let taken = shared.take(&mut cursor) + shared.take(&mut cursor);
        let recorded = worker.join().unwrap();
        assert_eq!(taken + shared.take(&mut cursor), recorded);
    });
}
