//! A block that is used again is like a new one, and no other context sees its values.

mod context;

use std::cell::Cell;
use std::ptr;

use context::Home;
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
