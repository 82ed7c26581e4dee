//! Sequences of claims on one thread.

use super::*;

#[test]
fn a_closed_wait_is_not_claimed() {
    let claim = Claim::new();
    assert_eq!(claim.close(), None);
    assert!(!claim.try_claim(0));
    assert_eq!(claim.close(), None);
}

#[test]
fn the_first_claim_is_the_outcome() {
    for outcome in [0, u16::MAX] {
        let claim = Claim::new();
        assert!(claim.try_claim(outcome));
        assert!(!claim.try_claim(1));
        assert_eq!(claim.close(), Some(outcome));
    }
}
