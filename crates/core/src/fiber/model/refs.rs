//! Handles of one fiber that are dropped at the same time, with and without inline messages.

use super::inbox::Worker;
use super::*;

/// A fiber with two references, and the worker to which it is pinned.
struct Held {
    refs: Refs,
    worker: Arc<Worker>,
}

impl Held {
    fn new() -> Arc<Self> {
        let held = Held { refs: Refs::new(), worker: Worker::new() };
        held.refs.begin();
        Arc::new(held)
    }

    fn fiber(&self) -> &Fiber {
        &self.worker.fibers[0]
    }

    /// Unparks the fiber as `Fiber::unpark` does, by an inline message.
    fn unpark_inline(&self, home: &HomeHint<Worker>) {
        home.remember(Arc::as_ptr(&self.worker));
        self.worker.send_inline(0, 0);
    }

    /// Drops the reference that has this hint.
    fn drop_handle(&self, home: &mut HomeHint<Worker>) {
        let released = match home.is_known() {
            true => self.refs.release_after_inline(),
            false => self.refs.release(),
        };
        match released {
            Released::Kept => {}
            Released::Last => self.fiber().free_behind_mail(),
            Released::LastAfterInline => self.worker.free_after_inline(self.fiber()),
        }
    }
}

fn too_many() -> ! {
    unreachable!("three references at most")
}

#[test]
fn the_last_of_two_references_is_dropped_after_the_uses_of_both() {
    loom::model(|| {
        let held = Held::new();
        let drops = |user: usize| {
            move |held: &Held| {
                held.fiber().write(user);
                held.refs.release() == Released::Last && {
                    // The memory is reused.
                    (0..2).for_each(|sender| held.fiber().write(sender));
                    true
                }
            }
        };
        let other = spawn(&held, drops(1));
        let last = drops(0)(&held);
        assert!(other.join().unwrap() != last, "freed once");
    });
}

#[test]
fn a_handle_is_cloned_while_its_fiber_leaves() {
    loom::model(|| {
        let held = Held::new();
        let fiber = spawn(&held, |held| held.refs.release() == Released::Last);
        held.refs.retain(too_many);
        assert_eq!(held.refs.release(), Released::Kept);
        let last = held.refs.release() == Released::Last;
        assert!(fiber.join().unwrap() != last, "freed once");
        assert!(!held.refs.is_used());
    });
}

#[test]
fn a_fiber_is_freed_once_after_the_inline_message_of_either_handle() {
    loom::model(|| {
        let held = Held::new();
        let sender = spawn(&held, |held| {
            let mut home = HomeHint::new();
            held.unpark_inline(&home);
            held.drop_handle(&mut home);
        });
        held.drop_handle(&mut HomeHint::new());
        let _ = held.worker.read_mail();
        sender.join().unwrap();
        assert_eq!(held.worker.frees_at_last(), 1);
    });
}

#[test]
fn a_handle_that_two_threads_used_is_dropped_after_their_inline_messages() {
    loom::model(|| {
        let held = Held::new();
        assert_eq!(held.refs.release(), Released::Kept);
        let mut handle = Arc::new((held.clone(), HomeHint::<Worker>::new()));
        let other = spawn(&handle, |(held, home)| {
            if !home.get().is_null() {
                held.worker.send_inline(1, 0);
            }
        });
        held.unpark_inline(&handle.1);
        other.join().unwrap();
        let (_, home) = Arc::get_mut(&mut handle).expect("the other thread has ended");
        held.drop_handle(home);
        let _ = held.worker.read_mail();
        assert_eq!(held.worker.frees_at_last(), 1);
    });
}

#[test]
fn a_reader_that_sees_the_references_sees_the_words_of_the_new_fiber() {
    static WORKER: u32 = 0;
    loom::model(|| {
        let shared = Arc::new((Refs::new(), OwnerWord::<u32>::new()));
        let (refs, owner) = &*shared;
        owner.finish(&WORKER);
        let reader = spawn(&shared, |(refs, owner)| {
            !refs.is_used() || !matches!(owner.load(), Owner::Finished(_))
        });
        owner.reset();
        refs.begin();
        assert!(reader.join().unwrap(), "the owner word of the fiber before");
    });
}
