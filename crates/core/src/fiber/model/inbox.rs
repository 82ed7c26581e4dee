//! A worker that parks while other threads send it mail, and take mail on its behalf.

use loom::thread;

use super::*;
use crate::atomic::AtomicU32;
use crate::barrier::Fences;
use crate::idle::IdleSet;

const MESSAGES: [Messages; 2] = [Messages::WAKE, Messages::UNPARK];

/// The parts of a worker that other threads reach, and the token on which its kernel thread sleeps.
pub(super) struct Worker {
    inbox: Inbox<Fiber>,
    idle: IdleSet,
    /// Stands for the queues that any thread may fill.
    work: AtomicBool,
    /// 1 once an unpark has come.
    unparked: AtomicU32,
    pub(super) fibers: [Fiber; 2],
}

impl Worker {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Worker {
            inbox: Inbox::new(),
            idle: IdleSet::new(1),
            work: AtomicBool::new(false),
            unparked: AtomicU32::new(0),
            fibers: [Fiber::new(), Fiber::new()],
        })
    }

    fn send(&self, sender: usize, to: usize) {
        let fiber = &self.fibers[to];
        fiber.write(sender);
        if fiber.mail.post(MESSAGES[sender]) == Posted::Push {
            self.deliver(fiber);
        }
    }

    /// Sends the same message inline, if there is no mail.
    pub(super) fn send_inline(&self, sender: usize, to: usize) {
        let fiber = &self.fibers[to];
        fiber.write(sender);
        // SAFETY: the fibers outlive the inbox.
        match unsafe { self.inbox.push_inline(NonNull::from(fiber), MESSAGES[sender]) } {
            Some(Pushed::OwnerParked) => self.unpark_thread(),
            Some(_) => {}
            None if fiber.mail.post(MESSAGES[sender]) == Posted::Push => self.deliver(fiber),
            None => {}
        }
    }

    fn deliver(&self, fiber: &Fiber) {
        // SAFETY: its message word was empty, or it was just taken out; it outlives the inbox.
        match unsafe { self.inbox.push(NonNull::from(fiber)) } {
            Pushed::OwnerParked => self.unpark_thread(),
            Pushed::Delivered => {}
            Pushed::Closed => {
                self.read_messages(fiber, fiber.mail.collect());
            }
        }
    }

    fn make_work(&self) {
        self.work.store(true, Ordering::Relaxed);
        if self.idle.pick_one(&Fences, |_| true).is_some() && self.inbox.unpark() {
            self.unpark_thread();
        }
    }

    fn unpark_thread(&self) {
        // Release: pairs with the Acquire in `sleep`.
        self.unparked.store(1, Ordering::Release);
    }

    /// Takes the mail, and returns the number of senders' messages in it.
    pub(super) fn read_mail(&self) -> usize {
        let mail = self.inbox.take().map(|(fiber, inline)| {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            if inline.is_some() {
                fiber.in_use();
            }
            self.read_messages(fiber, inline.unwrap_or_else(|| fiber.mail.collect()))
        });
        mail.sum()
    }

    /// Acts on `messages`, and returns the number of senders' messages among them.
    fn read_messages(&self, fiber: &Fiber, messages: Messages) -> usize {
        if messages.contains(Messages::FREE) {
            match self.inbox.is_in_hand() {
                true => self.free_after_inline(fiber),
                false => fiber.free_behind_mail(),
            }
        }
        let known = (0..2).filter(|&sender| messages.contains(MESSAGES[sender]));
        known.inspect(|&sender| fiber.read(sender)).count()
    }

    /// Drops the last handle of a fiber to which inline messages were sent.
    pub(super) fn free_after_inline(&self, fiber: &Fiber) {
        if self.inbox.is_settled() {
            fiber.free_behind_mail();
        } else if fiber.mail.post(Messages::FREE) == Posted::Push {
            self.deliver(fiber);
        }
    }

    /// Takes the mail as the monitor thread does: keeps fibers that have a message of sender 1, and
    /// gives the rest back. Returns the number of messages that it has read.
    fn rescue(&self) -> usize {
        self.sort(self.inbox.take_from())
    }

    fn sort(&self, in_hand: InHand<'_, Fiber>) -> usize {
        let mut read = 0;
        for (fiber, inline) in in_hand {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            if let Some(messages) = inline {
                fiber.in_use();
                if fiber.mail.post(messages) == Posted::Push {
                    self.deliver(fiber);
                }
            } else if fiber.mail.peek().contains(MESSAGES[1]) {
                fiber.read(1);
                read += self.read_messages(fiber, fiber.mail.collect());
            } else {
                self.deliver(fiber);
            }
        }
        read
    }

    /// Reads all mail, once all other threads are done, and returns how often fiber 0 was freed.
    pub(super) fn frees_at_last(&self) -> u32 {
        while self.inbox.has_mail() {
            self.read_mail();
        }
        // SAFETY: the other threads have ended.
        self.fibers[0].stack.with(|stack| unsafe { *stack })
    }

    fn take_work(&self) -> usize {
        // Looked at first, as a queue is: a store of `false` would race with that of the maker.
        let come = self.work.load(Ordering::Relaxed);
        usize::from(come && self.work.swap(false, Ordering::Relaxed))
    }

    fn park(&self) {
        if !self.inbox.park() {
            return;
        }
        self.idle.announce(0, &Fences);
        if !self.work.load(Ordering::Relaxed) {
            self.sleep();
        }
        let _ = self.idle.retract(0);
        if !self.inbox.unpark() {
            self.sleep();
        }
        self.unparked.store(0, Ordering::Relaxed);
    }

    fn sleep(&self) {
        // Acquire: pairs with the Release in `unpark_thread`.
        while self.unparked.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }

    /// Works and parks until `all` messages and pieces of work have come.
    fn run(&self, all: usize) {
        let mut found = 0;
        loop {
            found += self.read_mail() + self.take_work();
            if found == all {
                return;
            }
            self.park();
        }
    }
}

impl Fiber {
    /// Frees the fiber as its last handle, or the reader of FREE, does.
    pub(super) fn free_behind_mail(&self) {
        if self.mail.is_empty() || self.mail.post(Messages::FREE) == Posted::Push {
            self.free();
        }
    }

    /// Stands for the reuse of the memory by another fiber.
    fn free(&self) {
        self.run();
    }

    /// Asserts that the memory has not become another fiber's, and does not at the same time.
    fn in_use(&self) {
        // SAFETY: loom checks that no other thread writes it.
        assert_eq!(self.stack.with(|stack| unsafe { *stack }), 0);
    }
}

#[test]
fn messages_to_one_fiber_arrive_with_the_writes_of_their_senders() {
    loom::model(|| {
        let worker = Worker::new();
        let senders = [0, 1].map(|sender| spawn(&worker, move |worker| worker.send(sender, 0)));
        let early = worker.read_mail();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(early + worker.read_mail(), 2);
    });
}

#[test]
fn fibers_of_two_senders_leave_the_inbox() {
    loom::model(|| {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send(sender, sender)));
        let early = worker.read_mail();
        // Not joined yet: the inbox is the only way by which its contents are seen.
        let late = worker.read_mail();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(early + late + worker.read_mail(), 2);
    });
}

#[test]
fn two_fibers_of_one_sender_leave_the_inbox_in_their_order() {
    loom::model(|| {
        let worker = Worker::new();
        let sender = spawn(&worker, |worker| [0, 1].map(|fiber| worker.send(fiber, fiber)));
        let take = || worker.inbox.take().map(|(fiber, _)| fiber).collect::<Vec<_>>();
        let early = take();
        // Not joined yet: the owner sees the mail through the inbox alone.
        let late = take();
        sender.join().unwrap();
        let taken = [early, late, take()].concat();
        assert_eq!(taken, worker.fibers.each_ref().map(NonNull::from));
    });
}

/// Checks that both messages arrive; that of sender 0 is inline if it comes first.
fn an_inline_message_and_a_listed_one_arrive(to: [usize; 2]) {
    loom::model(move || {
        let worker = Worker::new();
        let first = spawn(&worker, move |worker| worker.send_inline(0, to[0]));
        let second = spawn(&worker, move |worker| worker.send(1, to[1]));
        let early = worker.read_mail();
        // Not joined yet: the inbox is the only way by which its contents are seen.
        let late = worker.read_mail();
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(early + late + worker.read_mail(), 2);
    });
}

#[test]
fn an_inline_message_and_a_listed_one_to_one_fiber_arrive() {
    an_inline_message_and_a_listed_one_arrive([0, 0]);
}

#[test]
fn an_inline_message_and_a_listed_one_to_another_fiber_arrive() {
    an_inline_message_and_a_listed_one_arrive([0, 1]);
}

#[test]
fn a_worker_parks_while_inline_messages_come() {
    loom::model(|| {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send_inline(sender, 0)));
        worker.run(2);
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_worker_parks_while_mail_comes_twice() {
    loom::model(|| {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send(sender, sender)));
        worker.run(2);
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_worker_parks_while_mail_and_work_come() {
    loom::model(|| {
        let worker = Worker::new();
        let sender = spawn(&worker, |worker| worker.send(0, 0));
        let maker = spawn(&worker, Worker::make_work);
        worker.run(2);
        sender.join().unwrap();
        maker.join().unwrap();
    });
}

#[test]
fn a_message_to_a_closed_inbox_is_read_by_the_closer_or_the_sender() {
    loom::model(|| {
        let worker = Worker::new();
        let sender = spawn(&worker, |worker| worker.send(0, 0));
        for (fiber, _) in worker.inbox.close() {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            worker.read_messages(fiber, fiber.mail.collect());
        }
        sender.join().unwrap();
        assert!(worker.fibers[0].mail.is_empty(), "a message lies in a closed inbox");
    });
}

/// Checks that both messages are read once, by the rescuer or the owner.
fn mail_is_rescued(to: [usize; 2]) {
    loom::model(move || {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send(sender, to[sender])));
        // Not joined yet: the inbox is the only way by which its contents are seen.
        let rescued = worker.rescue();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(rescued + worker.read_mail(), 2);
    });
}

#[test]
fn messages_to_one_fiber_are_rescued_together_or_left() {
    mail_is_rescued([0, 0]);
}

#[test]
fn of_two_fibers_in_an_inbox_one_is_rescued() {
    mail_is_rescued([0, 1]);
}

#[test]
fn a_worker_parks_while_its_mail_is_taken_and_given_back() {
    loom::model(|| {
        let worker = Worker::new();
        let sender = spawn(&worker, |worker| worker.send(0, 0));
        let rescuer = spawn(&worker, Worker::rescue);
        worker.run(1);
        sender.join().unwrap();
        assert_eq!(rescuer.join().unwrap(), 0);
    });
}

#[test]
fn a_fiber_is_freed_once_it_is_in_no_inbox_and_in_nobodys_hands() {
    loom::model(|| {
        let worker = Worker::new();
        worker.send(0, 0);
        let rescuer = spawn(&worker, Worker::rescue);
        let owner = spawn(&worker, Worker::read_mail);
        worker.fibers[0].free_behind_mail();
        assert_eq!(rescuer.join().unwrap(), 0);
        owner.join().unwrap();
        assert_eq!(worker.frees_at_last(), 1);
    });
}

#[test]
fn a_fiber_is_freed_once_behind_an_inline_message() {
    loom::model(|| {
        let worker = Worker::new();
        let dropper = spawn(&worker, |worker| {
            worker.send_inline(0, 0);
            worker.free_after_inline(&worker.fibers[0]);
        });
        let _ = worker.read_mail();
        let _ = worker.inbox.park();
        dropper.join().unwrap();
        let _ = worker.inbox.unpark();
        assert_eq!(worker.frees_at_last(), 1);
    });
}

#[test]
fn a_fiber_is_freed_once_its_inline_message_was_given_back() {
    loom::model(|| {
        let worker = Worker::new();
        worker.send_inline(0, 0);
        let in_hand = worker.inbox.take_from();
        let owner = spawn(&worker, |worker| {
            worker.free_after_inline(&worker.fibers[0]);
            worker.read_mail()
        });
        assert_eq!(worker.sort(in_hand), 0);
        owner.join().unwrap();
        assert_eq!(worker.frees_at_last(), 1);
    });
}

#[test]
fn a_fiber_is_freed_once_its_inline_message_has_no_owner() {
    loom::model(|| {
        let worker = Worker::new();
        worker.send_inline(0, 0);
        let rescuer = spawn(&worker, Worker::rescue);
        worker.free_after_inline(&worker.fibers[0]);
        let _ = worker.read_mail();
        assert_eq!(rescuer.join().unwrap(), 0);
        assert_eq!(worker.frees_at_last(), 1);
    });
}
