//! A fiber that ends, and its joiner.

use super::*;

/// The joiner; its frame is the fiber's `sent[1]`, the result `sent[0]`.
const JOINER: WaiterId = WaiterId::for_test(64);

/// Ends the fiber: writes the result, and claims the joiner if there is one.
fn finish(fiber: &Fiber) -> Finish {
    fiber.write(0);
    let finish = fiber.completion.finish();
    match finish {
        Finish::Wake(JOINER) => fiber.read(1),
        Finish::Wake(_) => unreachable!("there is no other waiter"),
        Finish::Detached => {
            fiber.read(0);
            fiber.read(1);
        }
        Finish::Unobserved => {}
    }
    finish
}

#[test]
fn the_end_meets_a_join() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, finish);
        fiber.write(1);
        let waits = fiber.completion.wait(JOINER);
        if !waits {
            // Before the next look, which would acquire as well.
            fiber.read(0);
            assert!(fiber.completion.is_done());
        }
        assert_eq!(end.join().unwrap() == Finish::Wake(JOINER), waits);
    });
}

#[test]
fn a_thread_that_sees_the_end_may_take_the_result() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, finish);
        if fiber.completion.is_done() {
            fiber.read(0);
        }
        assert_eq!(end.join().unwrap(), Finish::Unobserved);
    });
}

#[test]
fn the_end_meets_a_joiner_that_leaves() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        fiber.write(1);
        assert!(fiber.completion.wait(JOINER));
        let end = spawn(&fiber, finish);
        let left = fiber.completion.leave(JOINER);
        if !left {
            fiber.read(0);
        }
        assert_eq!(end.join().unwrap() == Finish::Wake(JOINER), !left);
    });
}

#[test]
fn the_result_is_dropped_once() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, finish);
        // The handle's last use of the block.
        fiber.write(1);
        let mine = fiber.completion.detach();
        if mine {
            // SAFETY: the result is the handle's.
            fiber.sent[0].with_mut(|_| ());
        }
        assert_eq!(end.join().unwrap() == Finish::Detached, !mine);
    });
}

#[test]
fn an_abandoned_joiner_is_woken_once() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, finish);
        fiber.write(1);
        let waits = fiber.completion.wait(JOINER);
        let abandoned = fiber.completion.abandon().is_some();
        let ended = end.join().unwrap() == Finish::Wake(JOINER);
        assert_eq!(usize::from(abandoned) + usize::from(ended), usize::from(waits));
    });
}

#[test]
fn the_frame_of_a_joiner_is_that_of_the_thread_that_abandons_its_fiber() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let abandons = spawn(&fiber, |fiber| {
            let waiter = fiber.completion.abandon();
            if waiter == Some(JOINER) {
                fiber.read(1);
            }
            waiter.is_some()
        });
        fiber.write(1);
        let waits = fiber.completion.wait(JOINER);
        assert_eq!(abandons.join().unwrap(), waits);
    });
}

/// Ends the fiber without a result, on behalf of its worker, which has died. Returns true if a
/// joiner waited.
fn die(fiber: &Fiber) -> bool {
    let waiter = fiber.completion.die();
    if waiter == Some(JOINER) {
        fiber.read(1);
    }
    waiter.is_some()
}

#[test]
fn the_end_with_the_worker_meets_a_join() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, die);
        fiber.write(1);
        let waits = fiber.completion.wait(JOINER);
        assert!(waits || fiber.completion.is_dead());
        assert_eq!(end.join().unwrap(), waits);
        assert!(fiber.completion.is_dead());
    });
}

#[test]
fn the_end_with_the_worker_meets_a_joiner_that_leaves() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        fiber.write(1);
        assert!(fiber.completion.wait(JOINER));
        let end = spawn(&fiber, die);
        let left = fiber.completion.leave(JOINER);
        assert_eq!(end.join().unwrap(), !left);
    });
}

#[test]
fn the_end_with_the_worker_leaves_no_result_to_drop() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let end = spawn(&fiber, die);
        assert!(!fiber.completion.detach());
        assert!(!end.join().unwrap());
    });
}
