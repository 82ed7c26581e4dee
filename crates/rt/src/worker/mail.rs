//! Mail between workers: what a wake costs when the fiber is not the waker's own.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use daiko_context::prefetch_write;
use daiko_core::barrier::Barrier;
use daiko_core::fiber::{Early, Effect, Event, Letters, Owner, Posted, Pushed};

use super::Worker;
use crate::fiber::ControlBlock;
use crate::process;
use crate::runtime::kernel::ThisThread;

/// What somebody wants of a fiber: the event, and how it is told to a worker or left for a start.
#[derive(Clone, Copy)]
pub struct Wish {
    pub(crate) event: Event,
    pub(crate) letter: Letters,
    early: Early,
}

impl Wish {
    pub(crate) const UNPARK: Wish =
        Wish { event: Event::Unpark, letter: Letters::UNPARK, early: Early::UNPARK };
    /// Never before the start: only who runs can wait.
    pub(crate) const WAKE: Wish =
        Wish { event: Event::Wake, letter: Letters::WAKE, early: Early::NONE };
    pub(crate) const CANCEL: Wish =
        Wish { event: Event::Cancel, letter: Letters::CANCEL, early: Early::CANCEL };
    /// Never before the start: only who runs can be in a scope.
    pub const INTERRUPT: Wish =
        Wish { event: Event::Interrupt, letter: Letters::INTERRUPT, early: Early::NONE };
}

/// Delivers `wish` to a fiber that is not this worker's, or from a thread that is no worker.
///
/// Returns the fiber's worker if it is pinned there.
#[inline(never)]
pub fn send<'f>(from: Option<&Worker>, fiber: &'f ControlBlock, wish: Wish) -> Option<&'f Worker> {
    process::assert_in_call();
    loop {
        match fiber.owner.load() {
            Owner::Finished(_) => return None,
            Owner::Unstarted if fiber.owner.leave_early(wish.early) => return None,
            Owner::Unstarted => {}
            Owner::Worker(owner) => {
                if fiber.is_mover() {
                    send_mover(from, fiber, wish.event);
                    return None;
                }
                // SAFETY: workers live as long as their runtime, and that as long as its fibers.
                let owner = unsafe { &*owner };
                if wish.letter.fit_a_postcard() {
                    mail_pinned(from, owner, fiber, wish.letter);
                } else {
                    mail_letter(from, owner, fiber, wish.letter);
                }
                return Some(owner);
            }
        }
    }
}

/// Sends a letter to a fiber that is pinned to `owner`.
///
/// Budget: one RMW, on the inbox of its worker; if there is mail, one more on the fiber's line, and
/// unless it has letters a second one on the inbox. Both lines come from there.
#[inline(never)]
pub fn mail_pinned(from: Option<&Worker>, owner: &Worker, fiber: &ControlBlock, letter: Letters) {
    process::assert_in_call();
    // SAFETY: a fiber that is owed a wake waits for it; one that may get an unpark from a handle
    // that knows its worker is freed behind that. The worker outlives its fibers, and does not
    // end before the token that is owed to it is stored.
    if let Some(pushed) = unsafe { owner.inbox.push_postcard(NonNull::from(fiber), letter) } {
        return owner.has_got(from, pushed);
    }
    mail_letter(from, owner, fiber, letter);
}

/// As [`mail_pinned`], by the fiber's own mail: one RMW on its line, and unless it has letters one on the inbox.
#[inline]
fn mail_letter(from: Option<&Worker>, owner: &Worker, fiber: &ControlBlock, letter: Letters) {
    // The fiber's line travels while earlier stores, of what the letter announces, still do. Not
    // so the inbox's: its owner, who polls it, would have it back before the push.
    prefetch_write(ptr::from_ref(fiber).cast());
    if fiber.mail.post(letter) == Posted::Push {
        owner.deliver(from, fiber);
    }
}

fn send_mover(from: Option<&Worker>, fiber: &ControlBlock, event: Event) {
    if fiber.apply(event) == Effect::Enqueue {
        put_mover(from, fiber);
    }
}

/// Ends the wait of a mover, which the caller has claimed, and puts it on the worker that `place` chooses, given where it ran last.
pub fn wake_mover(from: &Worker, fiber: &ControlBlock, place: impl FnOnce(u16) -> u16) {
    if fiber.apply(Event::Wake) != Effect::Enqueue {
        return;
    }
    let (runtime, owner) = (from.runtime(), home(fiber));
    let is_placed = owner.is_of(runtime) && (owner.index as usize) < runtime.worker_count();
    if !is_placed || !fiber.may_move() || owner.stuck.load(Ordering::Relaxed) {
        return put_mover(Some(from), fiber);
    }
    let target = &runtime.workers()[usize::from(place(owner.index as u16))];
    if ptr::eq(target, from) {
        from.make_next(fiber);
    } else {
        let _ = fiber.mail.post(Letters::RUN);
        target.deliver(Some(from), fiber);
    }
}

/// Puts a mover, which the caller has made active, where it goes by default.
fn put_mover(from: Option<&Worker>, fiber: &ControlBlock) {
    // Whoever made it active has it alone, so its mail is free.
    let owner = home(fiber);
    match from.filter(|from| from.runtime == owner.runtime) {
        Some(from) if from.will_suspend() && fiber.may_move() => from.make_next(fiber),
        _ if fiber.may_move() && owner.stuck.load(Ordering::Relaxed) => {
            owner.runtime().inject_one(fiber);
        }
        from => {
            let _ = fiber.mail.post(Letters::RUN);
            owner.deliver(from, fiber);
        }
    }
}

/// Where `fiber` belongs, a mover that the caller has made active: asked before, it might have gone on since.
fn home(fiber: &ControlBlock) -> &Worker {
    let Owner::Worker(home) = fiber.owner.load() else { unreachable!("it was suspended") };
    // SAFETY: workers live as long as their runtime, and that as long as its fibers.
    unsafe { &*home }
}

impl Worker {
    /// Sends a fiber that this worker has made active to where it has to stay, if that is elsewhere.
    ///
    /// It was this worker's when that was asked for; a mover may have gone on before it was made active, and
    /// have begun to unwind.
    #[inline]
    pub(crate) fn sent_home(&self, fiber: &ControlBlock) -> bool {
        fiber.is_mover() && !fiber.may_move() && self.sent_home_slow(fiber)
    }

    #[cold]
    fn sent_home_slow(&self, fiber: &ControlBlock) -> bool {
        let home = home(fiber);
        let elsewhere = !ptr::eq(home, self);
        if elsewhere {
            let _ = fiber.mail.post(Letters::RUN);
            home.deliver(Some(self), fiber);
        }
        elsewhere
    }

    /// Puts a fiber with letters into this worker's inbox, and unparks the worker if need be.
    pub(crate) fn deliver(&self, from: Option<&Worker>, fiber: &ControlBlock) {
        // SAFETY: the caller posted the first letter, or took the fiber out of the inbox and left
        // its letters alone; they keep it in use.
        match unsafe { self.inbox.push(NonNull::from(fiber)) } {
            Pushed::Closed => self.discard_letters(fiber),
            pushed => self.has_got(from, pushed),
        }
    }

    fn has_got(&self, from: Option<&Worker>, pushed: Pushed) {
        if let Some(from) = from {
            from.counters.mails_sent.add(1);
        }
        if pushed == Pushed::OwnerParked {
            self.unpark_thread(from);
        }
    }

    /// Throws away the letters to a fiber of this worker, which has ended.
    pub(super) fn discard_letters(&self, fiber: &ControlBlock) {
        if fiber.mail.collect().contains(Letters::FREE) {
            fiber.free_now();
        }
    }

    /// Whether who wakes a fiber here leaves the worker to it: agents do.
    pub fn will_suspend(&self) -> bool {
        self.running().is_none()
    }

    /// Takes all mail and does what it says.
    pub(crate) fn read_mail(&self) {
        for (fiber, postcard) in self.inbox.take() {
            self.counters.mails_received.add(1);
            // SAFETY: letters keep the fiber in use; one with a postcard waits, or is freed behind.
            let fiber = unsafe { fiber.as_ref() };
            self.read_letters(fiber, postcard.unwrap_or_else(|| fiber.mail.collect()));
        }
    }

    /// Takes the movers out of the next slot and the mail of this worker, which is stuck, for
    /// others to run; how much mail was given back. By the monitor, which and the owner, if that
    /// goes on at this moment, get different fibers.
    pub(crate) fn rescue_movers(&self) -> u32 {
        let mut given_back = 0;
        // A thief that polls seldom may never see the slot unchanged twice.
        if self.next.peek().is_some()
            && let Some(fiber) = self.next.steal(&ThisThread, || self.runtime().barriers.heavy())
        {
            // SAFETY: a queued fiber is in use.
            self.runtime().inject_one(unsafe { fiber.as_ref() });
        }
        for (fiber, postcard) in self.inbox.take_from() {
            // SAFETY: letters keep the fiber in use; one with a postcard, that mail is in hand.
            let fiber = unsafe { fiber.as_ref() };
            if let Some(letters) = postcard {
                // As mail, so that who frees the fiber sees it.
                if fiber.mail.post(letters) == Posted::Push {
                    self.deliver(None, fiber);
                }
            } else if fiber.mail.peek().contains(Letters::RUN) && fiber.may_move() {
                let _ = fiber.mail.collect();
                self.runtime().inject_one(fiber);
            } else {
                // With its letters, which keep it in use: it may end, and be freed, right now.
                self.deliver(None, fiber);
                given_back += 1;
            }
        }
        given_back
    }

    /// Has this worker, where the fiber ended, free it, behind all postcards to it.
    pub(crate) fn free_behind_postcards(&self, fiber: &ControlBlock) {
        if self.inbox.is_settled() {
            fiber.free_behind_mail();
        } else if fiber.mail.post(Letters::FREE) == Posted::Push {
            self.deliver(None, fiber);
        }
    }

    fn read_letters(&self, fiber: &ControlBlock, letters: Letters) {
        if letters.contains(Letters::FREE) {
            if !self.inbox.is_in_hand() {
                return fiber.free_behind_mail();
            }
            // Once more: a postcard to it may be about to come back, if the monitor can run.
            std::thread::yield_now();
            return self.free_behind_postcards(fiber);
        }
        if letters.contains(Letters::START) {
            // SAFETY: an unstarted fiber is in no other list, and in use until it has run.
            return unsafe { self.pinned().push(NonNull::from(fiber)) };
        }
        if letters.contains(Letters::RUN) {
            return self.enqueue(fiber);
        }
        if !fiber.owner.is(self) {
            return; // It has finished.
        }
        let mut runnable = false;
        for Wish { event, letter, .. } in [Wish::WAKE, Wish::UNPARK, Wish::CANCEL, Wish::INTERRUPT]
        {
            runnable |= letters.contains(letter) && fiber.apply(event) == Effect::Enqueue;
        }
        if runnable {
            self.enqueue(fiber);
        }
    }
}
