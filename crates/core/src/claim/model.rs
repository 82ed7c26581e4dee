//! Two objects and a timeout that end a wait, and one of them comes too late.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

#[test]
fn one_of_two_objects_and_a_timeout_ends_the_wait() {
    loom::model(|| {
        let notes = [UnsafeCell::new(0), UnsafeCell::new(0)];
        let shared = Arc::new((Claim::new(), notes));
        let (claim, notes) = &*shared;
        let wait = claim.begin();
        let objects = [0, 1].map(|object| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (claim, notes) = &*shared;
                // SAFETY: the waiter's once it was claimed, which comes later.
                notes[usize::from(object)].with_mut(|note| unsafe { *note = 5 });
                claim.try_claim(wait, object)
            })
        });
        let outcome = claim.finish();
        if let Some(object) = outcome {
            // SAFETY: whoever claimed it has written it before.
            assert_eq!(notes[usize::from(object)].with(|note| unsafe { *note }), 5);
        }
        let won = objects.map(|object| object.join().unwrap());
        assert_eq!(won, [outcome == Some(0), outcome == Some(1)]);
    });
}

#[test]
fn a_late_claim_does_not_end_the_next_wait() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        let first = claim.begin();
        let late = {
            let claim = claim.clone();
            thread::spawn(move || claim.try_claim(first, 0))
        };
        let outcome = claim.finish();
        claim.begin();
        assert_eq!(claim.outcome(), None);
        assert_eq!(late.join().unwrap(), outcome.is_some());
        assert_eq!(claim.finish(), None);
    });
}
