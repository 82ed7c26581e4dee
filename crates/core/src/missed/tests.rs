use std::cell::Cell;

use super::*;

#[test]
fn a_signal_between_two_parts_of_a_wait_ends_it() {
    let missed = MissedSignals::new();
    let (wakes, waits) = (Cell::new(0), Cell::new(0));
    let signal = || {
        missed.signal_one(|| {
            wakes.set(wakes.get() + 1);
            false
        });
        wakes.take()
    };
    assert_eq!(signal(), 1, "without an interrupt there is no waiter outside the queue");
    let is_over = missed.wait(
        || missed.mark().set_before(|| false),
        |&is_over| !is_over,
        |missing| {
            waits.set(waits.get() + 1);
            match waits.get() {
                1 => assert!(missing.none(), "the signal was before the wait"),
                _ => assert_eq!(signal(), 2),
            }
            !missing.none()
        },
    );
    assert!(is_over);
    assert_eq!(waits.get(), 2);
}

#[test]
fn a_wait_without_an_interrupt_does_not_go_on() {
    let missed = MissedSignals::new();
    missed.wait(|| (), |()| true, |_| panic!("it has left the queue by itself"));
}
