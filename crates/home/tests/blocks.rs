//! A block that is used again is like a new one, and no other context sees its values.

mod context;

use std::cell::Cell;
use std::ptr;

use context::Home;
use daiko_context::FpControl;
use daiko_context::seat::Seat;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
}

#[test]
fn a_context_has_thread_locals_of_its_own() {
    NUMBER.set(1);
    let mut home = Home::new();
    home.run(|me| {
        assert_eq!(NUMBER.get(), 7);
        NUMBER.set(2);
        me.leave();
        assert_eq!(NUMBER.get(), 2);
    });
    assert_eq!(NUMBER.get(), 1);
}

#[test]
fn two_contexts_alternate() {
    let (mut one, mut two) = (Home::new(), Home::new());
    let body = |value| {
        move |me: &context::Inside| {
            for _ in 0..10 {
                NUMBER.set(NUMBER.get() + value);
                me.leave();
            }
            assert_eq!(NUMBER.get(), 7 + 10 * value);
        }
    };
    let (mut one, mut two) = (one.start(body(1)), two.start(body(100)));
    let seat = Seat::take(ptr::dangling()).unwrap();
    loop {
        let ends = [one.resume(seat), two.resume(seat)];
        if ends == [true; 2] {
            break;
        }
    }
    // SAFETY: taken above; the context has been left.
    unsafe { seat.leave() };
}

/// The caches of `malloc` would be lost with each block.
#[test]
fn blocks_that_are_built_and_destroyed_leak_no_memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let allocate = || {
        Home::new().run(|_| {
            for bytes in (16..1024).step_by(16) {
                drop(std::hint::black_box(vec![1u8; bytes]));
            }
        });
    };
    (0..50).for_each(|_| allocate());
    let before = resident();
    (0..500).for_each(|_| allocate());
    let after = resident();
    assert!(after < before + 500, "{before} pages have become {after}: one for each block");
}

unsafe extern "C" {
    /// Sets both control words.
    fn fesetround(mode: i32) -> i32;
}

/// `FE_UPWARD`.
const UPWARD: i32 = 0x800;

fn round_up() {
    let before = FpControl::current();
    // SAFETY: changes the rounding of this test, which computes nothing until it is restored.
    assert_eq!(unsafe { fesetround(UPWARD) }, 0);
    assert_ne!(FpControl::current(), before);
}

#[test]
fn the_rounding_mode_ends_with_the_context() {
    let before = FpControl::current();
    let mut home = Home::new();
    home.run(|_| round_up());
    assert_eq!(FpControl::current(), before, "left to the resumer");
    home.run(move |_| assert_eq!(FpControl::current(), before));
}

#[test]
fn the_rounding_mode_of_a_suspended_context_does_not_reach_a_new_one() {
    let before = FpControl::current();
    let (mut one, mut two) = (Home::new(), Home::new());
    let mut rounds = one.start(|me| {
        round_up();
        me.leave();
    });
    let mut begins = two.start(move |_| assert_eq!(FpControl::current(), before));
    let seat = Seat::take(ptr::dangling()).unwrap();
    assert!(!rounds.resume(seat));
    assert_ne!(FpControl::current(), before, "a suspension leaves the control words");
    assert!(begins.resume(seat));
    assert!(rounds.resume(seat));
    // SAFETY: taken above; the contexts have been left.
    unsafe { seat.leave() };
    assert_eq!(FpControl::current(), before);
}
