//! Two objects and a timeout that end a wait, and one of them comes too late.

use loom::sync::Arc;
use loom::thread;

use super::*;

#[test]
fn one_of_two_objects_and_a_timeout_ends_the_wait() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        let wait = claim.begin();
        let objects = [0, 1].map(|object| {
            let claim = claim.clone();
            thread::spawn(move || claim.try_claim(wait, object))
        });
        let outcome = claim.finish();
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
