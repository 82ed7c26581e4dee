//! What a worker's process leaves when it is killed, and how another takes its place.
//!
//! README of `process` has the argument. Only while no process is this worker.

use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use daiko_context::stack::StackError;

use super::Worker;
use crate::fiber::ControlBlock;

/// How a worker rests: a kind of sleep, once it has nothing in hand.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rest {
    /// It does not.
    No = 0,
    /// Until somebody unparks it; the monitor does not count it.
    Parked = 1,
    /// Between two samples.
    Sampling = 2,
}

/// Why nobody can say what a dead process has left half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear(pub(crate) u32);

impl Unclear {
    pub(crate) const NOT_KILLED: Unclear = Unclear(0);
    pub(crate) const ENDING: Unclear = Unclear(1);
    const SUCCEEDING: Unclear = Unclear(2);
    const UNWINDING: Unclear = Unclear(3);
    const BLOCKING: Unclear = Unclear(4);
    const AGENT: Unclear = Unclear(5);
    const SHARING: Unclear = Unclear(6);
    const SCOPED: Unclear = Unclear(7);
    pub(crate) const FORK: Unclear = Unclear(8);

    pub(crate) fn text(self) -> &'static str {
        const TEXTS: [&str; 9] = [
            "it was not killed",
            "the runtime was ending",
            "it was taking the place of another",
            "fibers were suspended there in their unwinding",
            "it had run blocking calls",
            "its agent was at work",
            "its fiber had used what it shares with others",
            "its fiber was one of a scope",
            "no other can be forked",
        ];
        TEXTS[self.0 as usize]
    }
}

impl Worker {
    /// Notes how the worker rests from here on. Only the owner.
    pub(super) fn note_rest(&self, rest: Rest) {
        // Who reads it comes after the end of this process, and sees its stores in the order of the program, if the
        // compiler leaves it so.
        compiler_fence(Ordering::SeqCst);
        self.rest.store(rest as u32, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// What the dead process has left: the fiber in whose own code it died, if it did not rest.
    ///
    /// # Errors
    ///
    /// If it may have been in the middle of what others use.
    pub(crate) fn remains(&self) -> Result<Option<&ControlBlock>, Unclear> {
        if self.succeeding.load(Ordering::Relaxed) {
            return Err(Unclear::SUCCEEDING);
        }
        if self.unwinding.get() != 0 {
            return Err(Unclear::UNWINDING);
        }
        if self.runtime().blocking(self).was_used() {
            return Err(Unclear::BLOCKING);
        }
        match self.running() {
            None if self.rest.load(Ordering::Relaxed) == Rest::No as u32 => Err(Unclear::AGENT),
            None => Ok(None),
            Some(fiber) if !fiber.course.was_in_own_code() => Err(Unclear::SHARING),
            Some(fiber) if fiber.vtable.get().leave.is_some() => Err(Unclear::SCOPED),
            fiber => Ok(fiber),
        }
    }

    /// Says that another process is to take the place of the dead one; until it [has](Self::succeed) nobody else can.
    pub(crate) fn begin_succession(&self) {
        self.succeeding.store(true, Ordering::Relaxed);
    }

    /// Makes the calling process this worker. What is queued here stays, and is run by it.
    ///
    /// # Errors
    ///
    /// If the stacks of the worker's fibers cannot be guarded in this process.
    pub(crate) fn succeed(&self) -> Result<(), StackError> {
        let runtime = self.runtime();
        self.adopted.set(runtime.pool.adopt_after(0)?);
        if self.rest.load(Ordering::Relaxed) != Rest::Parked as u32 {
            // The dead one was counted, and `main` counts this one.
            runtime.monitor.worker_parks();
        }
        self.wake_up();
        if let Some(fiber) = self.running() {
            fiber.end_with(self);
            self.counters.ends.add(1);
            runtime.roster.lose_fiber();
        }
        self.running.store(ptr::null_mut(), Ordering::Relaxed);
        self.succeeding.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Takes back that the worker is parked. A token that comes later ends its next sleep early, which looks again.
    fn wake_up(&self) {
        let _ = self.inbox.unpark();
        let _ = self.runtime().idle.retract(self.index as usize);
        self.unparked.store(0, Ordering::Relaxed);
        self.note_rest(Rest::No);
    }
}
