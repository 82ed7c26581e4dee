use super::*;

fn runner(value: &u64) -> NonNull<u64> {
    NonNull::from(value)
}

#[test]
fn a_cancel_reaches_the_runner_that_has_begun_and_the_one_that_begins() {
    let value = 7;
    let (begun, early) = (Offered::new(), Offered::new());
    assert_eq!(begun.runner(), None);
    assert_eq!(begun.begin(runner(&value)), Begun::Wanted);
    assert_eq!((begun.cancel(), begun.runner()), (Some(runner(&value)), Some(runner(&value))));
    assert_eq!((early.cancel(), early.cancel(), early.runner()), (None, None, None));
    assert_eq!(early.begin(runner(&value)), Begun::Cancelled);
    assert_eq!(early.runner(), Some(runner(&value)));
}

#[test]
fn the_end_wakes_the_owner_that_waits_and_no_other() {
    let owner = WaiterId::for_test(64);
    let (waited, silent) = (Offered::<u64>::new(), Offered::<u64>::new());
    assert!(waited.wait(owner) && !waited.has_ended());
    // SAFETY: ended once each.
    let ends = [&waited, &silent].map(|work| unsafe { Offered::end(NonNull::from(work)) });
    assert_eq!(ends, [Some(owner), None]);
    assert!(waited.has_ended() && silent.has_ended() && !silent.wait(owner));
}
