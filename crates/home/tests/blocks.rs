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
