//! One step after the other.

use super::*;

#[test]
fn a_source_is_rung_before_the_token_comes() {
    let bed = WorkerBed::new();
    for source in [None, Some(0), Some(6)] {
        assert_eq!(bed.lie_down(source, || bed.source()), source, "chosen before the mark");
        assert!(!bed.has_token());
        let rung = bed.wake(|rung| {
            assert!(!bed.has_token() && !bed.is_woken());
            rung
        });
        assert_eq!(rung, source);
        assert!(bed.has_token() && bed.is_woken());
        bed.rise();
        assert!(!bed.has_token() && bed.source().is_none());
    }
}

#[test]
fn an_owner_that_wakes_by_itself_has_no_token() {
    let bed = WorkerBed::new();
    bed.lie_down(Some(3), || ());
    bed.rise();
    assert!(bed.source().is_none() && !bed.has_token());
}

#[test]
fn a_presumed_token_ends_one_sleep() {
    let bed = WorkerBed::new();
    bed.presume_token();
    bed.lie_down(None, || ());
    assert!(bed.has_token());
    bed.rise();
    assert!(!bed.has_token());
}

#[test]
fn the_word_tells_of_the_token() {
    let bed = WorkerBed::new();
    assert_eq!(bed.word().load(Ordering::Relaxed), WorkerBed::NO_TOKEN);
    bed.wake(|_| ());
    assert_ne!(bed.word().load(Ordering::Relaxed), WorkerBed::NO_TOKEN);
}

/// The other thread uses the owner's data until it gives the token.
#[test]
fn the_owner_has_its_data_alone_once_the_token_has_come() {
    use crate::atomic::{AtomicBool, UnsafeCell};
    use crate::testing::scaled;

    struct Owner {
        bed: WorkerBed,
        parked: AtomicBool,
        data: UnsafeCell<u64>,
    }
    // SAFETY: the cell belongs to the owner, or to the thread that has taken its mark.
    unsafe impl Sync for Owner {}

    let rounds = scaled(10_000);
    let owner =
        Owner { bed: WorkerBed::new(), parked: AtomicBool::new(false), data: UnsafeCell::new(0) };
    let other = &owner;
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for _ in 0..rounds {
                while !other.parked.swap(false, Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // SAFETY: the mark was taken, and the token is not given.
                other.bed.wake(|_| other.data.with_mut(|data| unsafe { *data += 1 }));
            }
        });
        for round in 0..rounds {
            // SAFETY: the owner is up.
            assert_eq!(owner.data.with(|data| unsafe { *data }), round as u64);
            owner.bed.lie_down(Some(1), || owner.parked.store(true, Ordering::Release));
            while !owner.bed.has_token() {
                std::thread::yield_now();
            }
            owner.bed.rise();
        }
    });
}
