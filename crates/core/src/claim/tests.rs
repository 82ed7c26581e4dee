//! Which claims win, one thread at a time.

use super::*;

#[test]
fn nobody_claims_a_wait_that_was_closed() {
    let claim = Claim::new();
    let wait = claim.begin();
    assert_eq!(claim.finish(), None);
    assert!(!claim.try_claim(wait, 0));
    assert_eq!(claim.outcome(), None);
}

#[test]
fn a_stale_generation_leaves_the_next_wait_alone() {
    let claim = Claim::new();
    let stale = claim.begin();
    assert_eq!(claim.finish(), None);
    let wait = claim.begin();
    assert_ne!(stale, wait);
    assert!(!claim.try_claim(stale, 1));
    assert!(claim.try_claim(wait, MAX_OUTCOME));
    assert_eq!(claim.outcome(), Some(MAX_OUTCOME));
    assert_eq!(claim.finish(), Some(MAX_OUTCOME));
}

#[test]
#[should_panic(expected = "at most")]
fn an_outcome_that_does_not_fit_is_refused() {
    let claim = Claim::new();
    let wait = claim.begin();
    let _ = claim.try_claim(wait, MAX_OUTCOME + 1);
}
