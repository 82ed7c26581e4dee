//! Fibers, workers and senders as the runtime puts them together from the types of this folder.

use std::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;
use crate::barrier::Fences;
use crate::idle::IdleSet;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, fence};

/// What the words of a fiber guard, and the words.
#[repr(align(64))]
struct Fiber {
    owner: OwnerWord<u32>,
    state: RunState,
    mail: Mail,
    mail_link: AtomicPtr<Fiber>,
    completion: Completion,
    /// Belongs to whoever runs the fiber.
    stack: UnsafeCell<u32>,
    /// What two senders write before they send.
    sent: [UnsafeCell<u32>; 2],
}

// SAFETY: the cells are touched by whoever the protocols give them to; that is what is checked.
unsafe impl Sync for Fiber {}
// SAFETY: as for Sync.
unsafe impl Send for Fiber {}

// SAFETY: the one field, that only the inbox writes.
unsafe impl Addressee for Fiber {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &this.as_ref().mail_link }
    }
}

const LETTERS: [Letters; 2] = [Letters::WAKE, Letters::UNPARK];

impl Fiber {
    fn new() -> Self {
        Fiber {
            owner: OwnerWord::new(),
            state: RunState::new(),
            mail: Mail::new(),
            mail_link: AtomicPtr::new(ptr::null_mut()),
            completion: Completion::new(),
            stack: UnsafeCell::new(0),
            sent: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    /// Runs for a while: only whoever has the stack may.
    fn run(&self) {
        // SAFETY: loom checks that nobody else is at it.
        self.stack.with_mut(|stack| unsafe { *stack += 1 });
    }

    fn write(&self, sender: usize) {
        // SAFETY: nobody reads it before it is sent.
        self.sent[sender].with_mut(|sent| unsafe { *sent = 5 });
    }

    fn read(&self, sender: usize) {
        // SAFETY: as above, the other way round.
        assert_eq!(self.sent[sender].with(|sent| unsafe { *sent }), 5);
    }

    /// What any thread does with a mover; true if the fiber is now the caller's to queue.
    fn deliver(&self, event: Event) -> bool {
        let enqueue = self.state.apply::<Shared>(event) == Effect::Enqueue;
        if enqueue {
            self.run();
        }
        enqueue
    }

    /// From any thread, before or after the start; true if the fiber is now the caller's to queue.
    fn unpark(&self) -> bool {
        loop {
            match self.owner.load() {
                Owner::Unstarted if self.owner.unpark_unstarted() => return false,
                Owner::Unstarted => {}
                _started => return self.deliver(Event::Unpark),
            }
        }
    }

    /// What a worker does with an unstarted mover.
    fn start(&self) {
        static WORKER: u32 = 0;
        self.state.reset();
        if self.owner.start(&WORKER) {
            let _ = self.state.apply::<Shared>(Event::Unpark);
        }
    }

    /// What is done for a mover that has left its stack; true if it goes on at once.
    fn settle(&self, event: Event) -> bool {
        let effect = self.state.apply::<Shared>(event);
        if effect == Effect::Proceed {
            self.run();
        }
        effect == Effect::Proceed
    }
}

fn spawn<T: Sync + Send + 'static, R: 'static>(
    shared: &Arc<T>,
    run: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

#[test]
fn a_mover_is_resumed_once_after_it_has_left_its_stack() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let waker = spawn(&fiber, |fiber| {
            fiber.write(0);
            fiber.deliver(Event::Unpark)
        });
        fiber.run();
        let proceeds = fiber.settle(Event::Park);
        if proceeds {
            fiber.read(0);
        }
        assert!(waker.join().unwrap() != proceeds, "resumed once");
    });
}

#[test]
fn of_wake_and_cancel_one_ends_a_movers_wait() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let waker = spawn(&fiber, |fiber| fiber.deliver(Event::Wake));
        let canceller = spawn(&fiber, |fiber| fiber.deliver(Event::Cancel));
        fiber.run();
        let ends = [fiber.settle(Event::Wait), waker.join().unwrap(), canceller.join().unwrap()];
        assert_eq!(ends.into_iter().filter(|&end| end).count(), 1, "resumed once");
    });
}

#[test]
fn an_unpark_meets_the_start() {
    loom::model(|| {
        let fiber = Arc::new(Fiber::new());
        let unparker = spawn(&fiber, |fiber| {
            fiber.write(0);
            fiber.unpark()
        });
        fiber.start();
        fiber.run();
        let proceeds = fiber.settle(Event::Park);
        if proceeds {
            fiber.read(0);
        }
        assert!(unparker.join().unwrap() != proceeds, "unparked once");
    });
}

#[test]
fn what_came_before_each_of_two_early_unparks_is_seen() {
    loom::model(|| {
        let come = [AtomicBool::new(false), AtomicBool::new(false)];
        let shared = Arc::new((Fiber::new(), come));
        let unparkers = [0, 1].map(|unparker| {
            spawn(&shared, move |(fiber, come)| {
                come[unparker].store(true, Ordering::Relaxed);
                fiber.unpark()
            })
        });
        let (fiber, come) = &*shared;
        fiber.start();
        let mut suspended = false;
        while !suspended && !come.iter().all(|come| come.load(Ordering::Relaxed)) {
            suspended = !fiber.settle(Event::Park);
        }
        let resumed = unparkers.map(|unparker| usize::from(unparker.join().unwrap()));
        assert_eq!(resumed.iter().sum::<usize>(), usize::from(suspended), "suspended for ever");
    });
}

/// The parts of a worker that others reach, and what its kernel thread sleeps on.
struct Worker {
    inbox: Inbox<Fiber>,
    idle: IdleSet,
    /// Stands for the queues that anyone may fill.
    work: AtomicBool,
    /// 1 when an unpark has come.
    unparked: AtomicU32,
    fibers: [Fiber; 2],
}

impl Worker {
    fn new() -> Arc<Self> {
        Arc::new(Worker {
            inbox: Inbox::new(),
            idle: IdleSet::new(1),
            work: AtomicBool::new(false),
            unparked: AtomicU32::new(0),
            fibers: [Fiber::new(), Fiber::new()],
        })
    }

    /// Sends the letter of `sender` to fiber `to`.
    fn send(&self, sender: usize, to: usize) {
        let fiber = &self.fibers[to];
        fiber.write(sender);
        if fiber.mail.post(LETTERS[sender]) == Posted::Push {
            self.deliver(fiber);
        }
    }

    /// The same by a postcard, if there is no mail.
    fn send_postcard(&self, sender: usize, to: usize) {
        let fiber = &self.fibers[to];
        fiber.write(sender);
        // SAFETY: the fibers outlive the inbox.
        match unsafe { self.inbox.push_postcard(NonNull::from(fiber), LETTERS[sender]) } {
            Some(Pushed::OwnerParked) => self.unpark_thread(),
            Some(_) => {}
            None if fiber.mail.post(LETTERS[sender]) == Posted::Push => self.deliver(fiber),
            None => {}
        }
    }

    fn deliver(&self, fiber: &Fiber) {
        // SAFETY: its mail was empty, or it was just taken out; it outlives the inbox.
        match unsafe { self.inbox.push(NonNull::from(fiber)) } {
            Pushed::OwnerParked => self.unpark_thread(),
            Pushed::Delivered => {}
            Pushed::Closed => {
                self.read_letters(fiber, fiber.mail.collect());
            }
        }
    }

    fn make_work(&self) {
        self.work.store(true, Ordering::Relaxed);
        if self.idle.pick_one(&Fences).is_some() && self.inbox.unpark() {
            self.unpark_thread();
        }
    }

    fn unpark_thread(&self) {
        // Release pairs with the Acquire in `park`.
        self.unparked.store(1, Ordering::Release);
    }

    /// Takes the mail; how many letters there were.
    fn read_mail(&self) -> usize {
        let mail = self.inbox.take().map(|(fiber, postcard)| {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            if postcard.is_some() {
                fiber.in_use();
            }
            self.read_letters(fiber, postcard.unwrap_or_else(|| fiber.mail.collect()))
        });
        mail.sum()
    }

    /// How many senders' letters there were.
    fn read_letters(&self, fiber: &Fiber, letters: Letters) -> usize {
        if letters.contains(Letters::FREE) {
            match self.inbox.is_in_hand() {
                true => self.free_behind_postcards(fiber),
                false => fiber.free_behind_mail(),
            }
        }
        let known = (0..2).filter(|&sender| letters.contains(LETTERS[sender]));
        known.inspect(|&sender| fiber.read(sender)).count()
    }

    /// The last handle is dropped, of a fiber to which postcards were sent.
    fn free_behind_postcards(&self, fiber: &Fiber) {
        if self.inbox.is_settled() {
            fiber.free_behind_mail();
        } else if fiber.mail.post(Letters::FREE) == Posted::Push {
            self.deliver(fiber);
        }
    }

    /// What the monitor does in the owner's stead: keeps fibers that have a letter of sender 1, and
    /// gives the others back. How many letters it has read.
    fn rescue(&self) -> usize {
        self.sort(self.inbox.take_from())
    }

    fn sort(&self, in_hand: InHand<'_, Fiber>) -> usize {
        let mut read = 0;
        for (fiber, postcard) in in_hand {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            if let Some(letters) = postcard {
                fiber.in_use();
                if fiber.mail.post(letters) == Posted::Push {
                    self.deliver(fiber);
                }
            } else if fiber.mail.peek().contains(LETTERS[1]) {
                fiber.read(1);
                read += self.read_letters(fiber, fiber.mail.collect());
            } else {
                self.deliver(fiber);
            }
        }
        read
    }

    /// Reads all mail, once nobody else is at it, and says how often fiber 0 was freed.
    fn frees_at_last(&self) -> u32 {
        while self.inbox.has_mail() {
            self.read_mail();
        }
        // SAFETY: the other threads have ended.
        self.fibers[0].stack.with(|stack| unsafe { *stack })
    }

    fn take_work(&self) -> usize {
        // Looked at first, as a queue is: a store of nothing would race with that of the maker.
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
        // Acquire pairs with the Release in `unpark_thread`.
        while self.unparked.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }

    /// Works and parks until `all` letters and pieces of work have come.
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
    /// The last handle is dropped, or the letter that says so was read.
    fn free_behind_mail(&self) {
        if self.mail.is_empty() || self.mail.post(Letters::FREE) == Posted::Push {
            self.free();
        }
    }

    /// The memory becomes another fiber's.
    fn free(&self) {
        self.run();
    }

    /// Somebody relies on the memory not becoming another fiber's at the same time, nor before.
    fn in_use(&self) {
        // SAFETY: loom checks that nobody else is at it.
        assert_eq!(self.stack.with(|stack| unsafe { *stack }), 0);
    }
}

#[test]
fn letters_to_one_fiber_arrive_with_what_their_senders_wrote() {
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
        // Not joined yet: what is in the inbox is seen by way of the inbox alone.
        let late = worker.read_mail();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(early + late + worker.read_mail(), 2);
    });
}

/// Sender 0 has a postcard, if it comes first.
fn a_postcard_and_a_letter_arrive(to: [usize; 2]) {
    loom::model(move || {
        let worker = Worker::new();
        let first = spawn(&worker, move |worker| worker.send_postcard(0, to[0]));
        let second = spawn(&worker, move |worker| worker.send(1, to[1]));
        let early = worker.read_mail();
        // Not joined yet: what is in the inbox is seen by way of the inbox alone.
        let late = worker.read_mail();
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(early + late + worker.read_mail(), 2);
    });
}

#[test]
fn a_postcard_and_a_letter_to_one_fiber_arrive() {
    a_postcard_and_a_letter_arrive([0, 0]);
}

#[test]
fn a_postcard_and_a_letter_to_another_fiber_arrive() {
    a_postcard_and_a_letter_arrive([0, 1]);
}

#[test]
fn a_worker_parks_while_postcards_come() {
    loom::model(|| {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send_postcard(sender, 0)));
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
fn mail_to_a_closed_inbox_is_read_by_who_closed_it_or_by_its_sender() {
    loom::model(|| {
        let worker = Worker::new();
        let sender = spawn(&worker, |worker| worker.send(0, 0));
        for (fiber, _) in worker.inbox.close() {
            // SAFETY: the fibers outlive the inbox.
            let fiber = unsafe { fiber.as_ref() };
            worker.read_letters(fiber, fiber.mail.collect());
        }
        sender.join().unwrap();
        assert!(worker.fibers[0].mail.is_empty(), "a letter lies in a closed inbox");
    });
}

/// Both letters are read once, by the rescuer or the owner, whichever fibers they are for.
fn mail_is_rescued(to: [usize; 2]) {
    loom::model(move || {
        let worker = Worker::new();
        let senders =
            [0, 1].map(|sender| spawn(&worker, move |worker| worker.send(sender, to[sender])));
        // Not joined yet: what is in the inbox is seen by way of the inbox alone.
        let rescued = worker.rescue();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(rescued + worker.read_mail(), 2);
    });
}

#[test]
fn letters_to_one_fiber_are_rescued_together_or_left() {
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
fn a_fiber_is_freed_once_behind_a_postcard() {
    loom::model(|| {
        let worker = Worker::new();
        let dropper = spawn(&worker, |worker| {
            worker.send_postcard(0, 0);
            worker.free_behind_postcards(&worker.fibers[0]);
        });
        let _ = worker.read_mail();
        let _ = worker.inbox.park();
        dropper.join().unwrap();
        let _ = worker.inbox.unpark();
        assert_eq!(worker.frees_at_last(), 1);
    });
}

#[test]
fn a_fiber_is_freed_once_its_postcard_was_given_back() {
    loom::model(|| {
        let worker = Worker::new();
        worker.send_postcard(0, 0);
        let in_hand = worker.inbox.take_from();
        let owner = spawn(&worker, |worker| {
            worker.free_behind_postcards(&worker.fibers[0]);
            worker.read_mail()
        });
        assert_eq!(worker.sort(in_hand), 0);
        owner.join().unwrap();
        assert_eq!(worker.frees_at_last(), 1);
    });
}

#[test]
fn a_fiber_is_freed_once_its_postcard_is_in_nobodys_hands() {
    loom::model(|| {
        let worker = Worker::new();
        worker.send_postcard(0, 0);
        let rescuer = spawn(&worker, Worker::rescue);
        worker.free_behind_postcards(&worker.fibers[0]);
        let _ = worker.read_mail();
        assert_eq!(rescuer.join().unwrap(), 0);
        assert_eq!(worker.frees_at_last(), 1);
    });
}

/// A next slot and two fibers that pass through it.
struct Slot {
    next: NextSlot<Fiber>,
    fibers: [Fiber; 2],
}

impl Slot {
    fn new(access: Access) -> Arc<Self> {
        Arc::new(Slot { next: NextSlot::new(access), fibers: [Fiber::new(), Fiber::new()] })
    }

    fn put(&self, index: usize) -> usize {
        let fiber = &self.fibers[index];
        fiber.run();
        self.got(self.next.put(Entry { fiber: NonNull::from(fiber), stealable: true }))
    }

    fn take(&self) -> usize {
        self.got(self.next.take())
    }

    fn steal(&self) -> usize {
        let stolen = self.next.steal(|| fence(Ordering::SeqCst));
        self.got(stolen.map(|fiber| Entry { fiber, stealable: true }))
    }

    /// Runs what came out; how many that was.
    fn got(&self, entry: Option<Entry<Fiber>>) -> usize {
        // SAFETY: the fibers outlive the slot.
        entry.inspect(|entry| unsafe { entry.fiber.as_ref() }.run()).iter().count()
    }
}

fn thief_and_owner(access: Access) {
    loom::model(move || {
        let slot = Slot::new(access);
        assert_eq!(slot.put(0), 0);
        let thief = spawn(&slot, Slot::steal);
        let kept = slot.put(1) + slot.take();
        assert_eq!(kept + thief.join().unwrap(), 2, "each fiber runs once");
        assert_eq!(slot.take(), 0);
    });
}

fn two_thieves_and_owner(access: Access) {
    loom::model(move || {
        let slot = Slot::new(access);
        assert_eq!(slot.put(0), 0);
        // A thief is the thread that runs at first: so two preemptions make it the slow one.
        let owner = spawn(&slot, Slot::take);
        let thief = spawn(&slot, Slot::steal);
        let stolen = slot.steal() + thief.join().unwrap();
        assert_eq!(owner.join().unwrap() + stolen, 1, "the fiber runs once");
        assert_eq!(slot.take(), 0);
    });
}

#[test]
fn a_thief_meets_an_owner_with_plain_access() {
    thief_and_owner(Access::Plain);
}

#[test]
fn a_thief_meets_an_owner_that_exchanges() {
    thief_and_owner(Access::Exchange);
}

#[test]
fn a_slow_thief_does_not_take_what_the_next_one_froze() {
    two_thieves_and_owner(Access::Plain);
}

#[test]
fn two_thieves_exchange() {
    two_thieves_and_owner(Access::Exchange);
}

/// The joiner; its frame is the fiber's `sent[1]`, the result `sent[0]`.
const JOINER: WaiterId = WaiterId(64);

/// Ends the fiber: writes the result, and claims the joiner if one waits.
fn finish(fiber: &Fiber) -> Finish {
    fiber.write(0);
    let finish = fiber.completion.finish();
    match finish {
        Finish::Wake(JOINER) => fiber.read(1),
        Finish::Wake(_) => unreachable!("nobody else waits"),
        Finish::Detached => fiber.read(0),
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
            assert!(fiber.completion.is_done());
            fiber.read(0);
        }
        assert_eq!(end.join().unwrap() == Finish::Wake(JOINER), waits);
    });
}

#[test]
fn the_end_meets_a_joiner_who_leaves() {
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
