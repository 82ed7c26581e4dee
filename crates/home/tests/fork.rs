//! A forked child, in which the kernel threads of homes are missing. A test process of its own, so
//! that no lock is held at the fork.

mod context;

use std::ptr;

use context::Stack;
use daiko_context::seat::Seat;
use daiko_home::BlockKind;

#[test]
fn a_child_counts_the_homes_of_its_parent_as_ended_and_starts_its_own() {
    let mut stack = Stack::new(BlockKind::Home);
    let mut context = stack.start(|me| me.leave());
    let seat = Seat::take(ptr::dangling()).unwrap();
    assert!(!context.resume(seat));
    // SAFETY: the child ends at once, and no other thread of this process holds a lock.
    match unsafe { libc::fork() } {
        0 => {
            context.forget();
            drop(stack);
            Stack::new(BlockKind::Home).run(|_| ());
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = -1;
            // SAFETY: writes to the live local.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert!(context.resume(seat));
    // SAFETY: taken above; the context has been left.
    unsafe { seat.leave() };
}
