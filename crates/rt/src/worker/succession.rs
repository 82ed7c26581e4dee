//! What a worker's process leaves when it is killed, and how another takes its place.
//!
//! README of `process` has the argument. Only while no process is this worker.

use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, compiler_fence};

use daiko_context::stack::StackError;
use daiko_context::{StackPointer, prepare, switch};
use daiko_sys::process::{self, Registers};

use super::Worker;
use crate::fiber::ControlBlock;
use crate::process::{SharedHeap, is_shared, no_stack};

/// Bytes of a worker's own stack: its agent's, and pollers'.
const STACK_BYTES: usize = 256 << 10;

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

/// How a process comes to be a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// It is.
    No = 0,
    /// With the runtime.
    First = 1,
    /// After another, with whose agent it begins anew.
    Anew = 2,
    /// After another, whose registers it is given.
    GoesOn = 3,
}

/// What a process begins with that becomes a worker.
#[derive(Debug)]
pub(crate) enum Plan {
    First,
    /// The agent. The fiber that ran last is lost.
    Anew,
    /// What the one before it was at.
    GoOn(Box<Registers>),
}

/// Why nobody can take a dead process's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear(pub(crate) u32);

impl Unclear {
    pub(crate) const NOT_KILLED: Unclear = Unclear(0);
    pub(crate) const REGISTERS: Unclear = Unclear(1);
    pub(crate) const COMING: Unclear = Unclear(2);
    const BLOCKING: Unclear = Unclear(3);
    const AGENT: Unclear = Unclear(4);
    const CALL: Unclear = Unclear(5);
    pub(crate) const FORK: Unclear = Unclear(6);
    const STACK: Unclear = Unclear(7);

    pub(crate) fn text(self) -> &'static str {
        const TEXTS: [&str; 8] = [
            "it was not killed",
            "no other can be given its registers",
            "it was taking the place of another",
            "a blocking call there was using the runtime",
            "its agent was at work",
            "its fiber was in a call of the runtime",
            "no other can be forked",
            "it was on a stack that others do not have",
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

    /// How the successor of the dead process begins, which had these registers, if they are known.
    ///
    /// # Errors
    ///
    /// If it was in the middle of what nobody else can finish.
    pub(crate) fn plan(&self, registers: Option<Box<Registers>>) -> Result<Plan, Unclear> {
        if self.died_in_a_call() {
            return Err(Unclear::BLOCKING);
        }
        if let Some(registers) = registers {
            return self.plan_by(registers);
        }
        self.remains().map(|()| Plan::Anew)
    }

    fn plan_by(&self, registers: Box<Registers>) -> Result<Plan, Unclear> {
        if !self.is_on_stack(&registers)
            && self.running().is_some_and(|fiber| fiber.course.is_in_own_code())
        {
            return Ok(Plan::Anew);
        }
        let stack = ptr::without_provenance::<u8>(registers.stack_pointer());
        if is_shared(stack) { Ok(Plan::GoOn(registers)) } else { Err(Unclear::STACK) }
    }

    /// Whether who had these registers was on the worker's own stack, so that it ran the agent.
    pub(crate) fn is_on_stack(&self, registers: &Registers) -> bool {
        let top = self.stack.load(Ordering::Relaxed).addr();
        (top - STACK_BYTES..=top).contains(&registers.stack_pointer())
    }

    /// Whether the dead process, whose registers nobody knows, was in the middle of nothing: at rest, or in its fiber's own
    /// code.
    ///
    /// # Errors
    ///
    /// If it may have been in the middle of what others use.
    fn remains(&self) -> Result<(), Unclear> {
        match self.running() {
            None if self.rest.load(Ordering::Relaxed) == Rest::No as u32 => Err(Unclear::AGENT),
            Some(fiber) if !fiber.course.is_in_own_code() => Err(Unclear::CALL),
            _ => Ok(()),
        }
    }
}

impl Worker {
    /// Says how the process becomes this worker that is to be forked now. While nobody is.
    pub(crate) fn expect(&self, coming: Coming) {
        self.expected.store(coming as u32, Ordering::Relaxed);
    }

    /// Whether nobody is this worker yet, after the last one who was.
    pub(crate) fn is_expected(&self) -> bool {
        // Acquire: pairs with the Release in `arrive`.
        self.expected.load(Ordering::Acquire) != Coming::No as u32
    }

    /// How the calling process becomes this worker.
    pub(crate) fn coming(&self) -> Coming {
        const ALL: [Coming; 4] = [Coming::No, Coming::First, Coming::Anew, Coming::GoesOn];
        ALL[self.expected.load(Ordering::Relaxed) as usize]
    }

    /// Gives the worker the stack that its processes run on, one after another.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(crate) fn take_stack(&self) -> Result<(), StackError> {
        let block = self.runtime().pool.take(self.runtime(), None, Some(STACK_BYTES))?;
        self.stack.store(block.as_ptr(), Ordering::Relaxed);
        Ok(())
    }

    /// Gives it back, once the last process has ended.
    pub(crate) fn give_stack_back(&self) {
        let block = self.stack.swap(ptr::null_mut(), Ordering::Relaxed);
        if let Some(block) = NonNull::new(block) {
            self.runtime().pool.put(block);
        }
    }

    /// Notes by which name the heap knows the calling process, which becomes this worker.
    pub(crate) fn note_heap_name(&self) {
        self.heap_name.store(SharedHeap::user().unwrap_or(0), Ordering::Relaxed);
    }

    /// By which name the heap knew who was this worker last.
    pub(crate) fn heap_name(&self) -> u32 {
        self.heap_name.load(Ordering::Relaxed)
    }

    /// Makes what the calling process has for itself that of this worker.
    ///
    /// # Errors
    ///
    /// If the stacks of the worker's fibers cannot be guarded in this process.
    pub(crate) fn set_up_process(&self) -> Result<(), StackError> {
        // Who comes after another is waited for: its pages are mapped as they are touched.
        let populates = self.coming() == Coming::First;
        self.adopted.set(self.runtime().pool.adopt_after(0, populates)?);
        if self.coming() == Coming::GoesOn {
            self.be_here();
            // Whoever was to store it for the dead one may have died with it. One that is not waited for ends the next sleep
            // early, which looks again.
            self.unparked.store(1, Ordering::Relaxed);
            self.running().inspect(|fiber| fiber.course.doom());
        }
        Ok(())
    }

    /// Goes on as this worker, on its own stack.
    pub(crate) fn live(&self) -> ! {
        // Now: whoever goes on with the registers of this process comes in another way.
        let begin = match self.coming() {
            Coming::First => live_first,
            _ => live_anew,
        };
        let top = self.stack.load(Ordering::Relaxed).cast::<u8>();
        let mut left = StackPointer::NULL;
        // SAFETY: the stack below the block is nobody's, now that no other process is this worker, and is left only
        // by the process's end.
        unsafe {
            let first = prepare(top, begin, ptr::from_ref(self).cast_mut().cast());
            switch(&raw mut left, first);
        }
        unreachable!("nobody comes back from there")
    }

    fn live_to_the_end(&self) {
        self.arrive();
        self.main_of_process();
        self.runtime().ended.add();
    }

    /// Takes over what another process has left. What is queued here stays, and is run by this one.
    fn succeed(&self) {
        if self.rest.load(Ordering::Relaxed) != Rest::Parked as u32 {
            // The dead one was counted, and `main` counts this one.
            self.runtime().monitor.worker_parks();
        }
        self.wake_up();
        let lost = self.running();
        self.set_running(None);
        lost.inspect(|fiber| self.lose(fiber));
    }

    /// Has the fiber run as one that is lost, in whose own code the dead process was.
    fn lose(&self, fiber: &ControlBlock) {
        match self.runtime().pool.take(self.runtime(), Some(self), None) {
            // SAFETY: just taken; who was on the fiber's stack is dead.
            Ok(stack) => unsafe { fiber.prepare_to_die(stack) },
            Err(error) => no_stack(error),
        }
        self.enqueue(fiber);
    }

    /// Has a fiber that is lost begin anew.
    ///
    /// # Safety
    ///
    /// As for [`ControlBlock::prepare_anew`], and nobody is on its stack.
    pub(super) unsafe fn begin_anew(&self, fiber: &ControlBlock) {
        // SAFETY: passed on to the caller.
        unsafe { fiber.prepare_anew() };
        if fiber.state.is_cancelled() || self.is_shutting_down() {
            fiber.must_unwind();
        }
        self.enqueue(fiber);
    }

    /// Takes back that the worker is parked. A token that comes later ends its next sleep early, which looks again.
    fn wake_up(&self) {
        let _ = self.inbox.unpark();
        let _ = self.runtime().idle.retract(self.index as usize);
        self.unparked.store(0, Ordering::Relaxed);
        self.note_rest(Rest::No);
    }

    /// The calling process is this worker, and what another was at when it was killed is finished.
    #[cold]
    pub(super) fn arrive(&self) {
        if self.unwinding.get() != 0 {
            self.for_each_own(|fiber| fiber.course.doom());
        }
        // Release: pairs with the Acquire in `is_expected`.
        self.expected.store(Coming::No as u32, Ordering::Release);
        // The zygote, who keeps the dead one until then.
        process::signal_parent(process::CHILD_CHANGED);
    }
}

/// Where the first process of a worker comes to its stack.
///
/// # Safety
///
/// `worker` is a worker, whose process calls.
unsafe extern "C" fn live_first(worker: *mut u8) -> ! {
    // SAFETY: by this function's contract.
    let worker = unsafe { &*worker.cast::<Worker>() };
    end_after(|| {
        worker.runtime().roster.up.add();
        worker.live_to_the_end();
    })
}

/// Where one comes to it that begins anew.
///
/// # Safety
///
/// As for [`live_first`].
unsafe extern "C" fn live_anew(worker: *mut u8) -> ! {
    // SAFETY: by this function's contract.
    let worker = unsafe { &*worker.cast::<Worker>() };
    end_after(|| {
        worker.succeed();
        worker.live_to_the_end();
    })
}

fn end_after(life: impl FnOnce()) -> ! {
    let lived = panic::catch_unwind(AssertUnwindSafe(life));
    process::exit(if lived.is_ok() { 0 } else { 101 })
}
