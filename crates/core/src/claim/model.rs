//! Two objects and a timeout that end a wait.

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
        let objects = [0, 1].map(|object| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (claim, notes) = &*shared;
                // SAFETY: the waiter touches it only after the claim, which comes later.
                notes[usize::from(object)].with_mut(|note| unsafe { *note = 5 });
                claim.try_claim(object)
            })
        });
        let outcome = claim.close();
        if let Some(object) = outcome {
            // SAFETY: the claimant has written it before.
            assert_eq!(notes[usize::from(object)].with(|note| unsafe { *note }), 5);
        }
        let won = objects.map(|object| object.join().unwrap());
        assert_eq!(won, [outcome == Some(0), outcome == Some(1)]);
    });
}
