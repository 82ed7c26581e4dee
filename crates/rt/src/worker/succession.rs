//! Succession: the remains of a worker's process that was killed, and the process that takes its
//! place.
//!
//! README of `process` has the argument. Only while no process is this worker.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use daiko_context::{StackPointer, prepare, switch};
use daiko_sys::process::{self, Registers};

use super::stage::{Coming, Unclear};
use super::state::Worker;
use crate::atomic::{Ordering, compiler_fence};
use crate::call::InCall;
use crate::fiber::{ControlBlock, Kind, SpawnError};
use crate::process::{SharedHeap, is_shared, no_stack};

/// Bytes of a worker's own stack, which its agent and pollers use.
const STACK_BYTES: usize = 256 << 10;

/// The state in which a process begins to be a worker.
#[derive(Debug)]
pub(crate) enum Plan {
    First,
    /// The successor begins with the agent. The fiber that ran last is lost.
    Anew,
    /// The successor begins at the point where the dead process was.
    GoOn(Box<Registers>),
}

impl Worker {
    /// Notes whether the worker sleeps from here on. Only the owner.
    pub(super) fn note_sleeping(&self, sleeps: bool) {
        // The successor reads it after the end of this process, and sees its stores in program
        // order, if the compiler keeps that order.
        compiler_fence(Ordering::SeqCst);
        self.sleeps.store(sleeps, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Decides how the successor of the dead process begins. `registers` are those of the dead
    /// process, if known.
    ///
    /// # Errors
    ///
    /// If it was in the middle of an operation that no other process can finish.
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
            && self.running().is_some_and(|fiber| fiber.exec_mode.is_in_own_code())
        {
            return Ok(Plan::Anew);
        }
        let stack = ptr::without_provenance::<u8>(registers.stack_pointer());
        if is_shared(stack) { Ok(Plan::GoOn(registers)) } else { Err(Unclear::STACK) }
    }

    /// Returns true if the process with these registers was on the worker's own stack, and so ran
    /// the agent.
    pub(crate) fn is_on_stack(&self, registers: &Registers) -> bool {
        let top = self.stack.load(Ordering::Relaxed).addr();
        (top - STACK_BYTES..=top).contains(&registers.stack_pointer())
    }

    /// Checks that the dead process, with unknown registers, was in the middle of nothing:
    /// idle, or in user code of its fiber.
    ///
    /// # Errors
    ///
    /// If it may have been in the middle of an operation on shared state.
    fn remains(&self) -> Result<(), Unclear> {
        match self.running() {
            None if !self.sleeps.load(Ordering::Relaxed) => Err(Unclear::AGENT),
            Some(fiber) if !fiber.exec_mode.is_in_own_code() => Err(Unclear::CALL),
            _ => Ok(()),
        }
    }
}

impl Worker {
    /// Records how the process that is about to be forked becomes this worker. Only while no
    /// process is this worker.
    pub(crate) fn expect(&self, coming: Coming) {
        self.expected.store(coming as u32, Ordering::Relaxed);
    }

    /// Returns true if no process has become this worker since the last one.
    pub(crate) fn is_expected(&self) -> bool {
        // Acquire: pairs with the Release in `arrive`.
        self.expected.load(Ordering::Acquire) != Coming::No as u32
    }

    /// Returns how the calling process becomes this worker.
    pub(crate) fn coming(&self) -> Coming {
        const ALL: [Coming; 4] = [Coming::No, Coming::First, Coming::Anew, Coming::GoesOn];
        ALL[self.expected.load(Ordering::Relaxed) as usize]
    }

    /// Gives the worker the stack that its processes run on, one after another.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(crate) fn take_stack(&self) -> Result<(), SpawnError> {
        let call = InCall::off_fibers();
        let block = self.runtime().pool.take(
            call,
            self.runtime(),
            None,
            Kind::BORROWED,
            Some(STACK_BYTES),
        )?;
        self.stack.store(block.as_ptr(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the stack to the pool, once the last process has ended.
    pub(crate) fn give_stack_back(&self, call: InCall<'_>) {
        let block = self.stack.swap(ptr::null_mut(), Ordering::Relaxed);
        if let Some(block) = NonNull::new(block) {
            self.runtime().pool.put(call, block);
        }
    }

    /// Notes the heap's name for the calling process, which becomes this worker.
    pub(crate) fn note_heap_name(&self) {
        self.heap_name.store(SharedHeap::user().unwrap_or(0), Ordering::Relaxed);
    }

    /// Returns the heap's name for the last process of this worker.
    pub(crate) fn heap_name(&self) -> u32 {
        self.heap_name.load(Ordering::Relaxed)
    }

    /// Sets up the state that the calling process has on its own as this worker.
    ///
    /// # Errors
    ///
    /// If the stacks of the worker's fibers cannot be guarded in this process, or there is no seat.
    pub(crate) fn set_up_process(&self) -> io::Result<()> {
        // Other processes wait for a successor, so its pages are mapped as they are touched.
        let populates = self.coming() == Coming::First;
        self.adopted.set(self.runtime().pool.adopt_after(0, populates).map_err(io::Error::other)?);
        self.take_seat().map_err(io::Error::other)?;
        if self.coming() == Coming::GoesOn {
            // The thread that was to give the token to the dead process may have died with it. A
            // token that is not awaited ends the next sleep early, after which the worker looks
            // again.
            self.bed.presume_token();
            self.running().inspect(|fiber| fiber.exec_mode.doom());
        }
        Ok(())
    }

    /// Goes on as this worker, on its own stack.
    pub(crate) fn live(&self) -> ! {
        // Read now: a process that goes on with the registers of this one comes in another way.
        let begin = match self.coming() {
            Coming::First => live_first,
            _ => live_anew,
        };
        let top = self.stack.load(Ordering::Relaxed).cast::<u8>();
        let mut left = StackPointer::NULL;
        // SAFETY: no other process is this worker any more, so the stack below the block is unused;
        // only the end of the process leaves it.
        unsafe {
            let first = prepare(top, begin, ptr::from_ref(self).cast_mut().cast());
            switch(&raw mut left, first);
        }
        unreachable!("no call returns from there")
    }

    fn live_to_the_end(&self) {
        self.arrive();
        self.main_of_process();
        self.runtime().ended.add();
    }

    /// Takes over from the dead process. Queued fibers stay queued, and this process runs them.
    fn succeed(&self) {
        // `main` counts this process.
        self.count_out();
        self.wake_up();
        let lost = self.running();
        self.set_running(None);
        lost.inspect(|fiber| self.lose(fiber));
    }

    /// Makes `fiber` run as a lost fiber: the process died in its user code.
    fn lose(&self, fiber: &ControlBlock) {
        let call = InCall::agent(self);
        match self.runtime().pool.take(call, self.runtime(), Some(self), Kind::BORROWED, None) {
            // SAFETY: the stack was just taken; the process on the fiber's stack is dead.
            Ok(stack) => unsafe { fiber.prepare_to_die(stack) },
            Err(error) => no_stack(error),
        }
        self.enqueue(call, fiber);
    }

    /// Makes a lost fiber begin anew.
    ///
    /// # Safety
    ///
    /// As for [`ControlBlock::prepare_anew`], and no thread is on its stack.
    pub(super) unsafe fn begin_anew(&self, call: InCall<'_>, fiber: &ControlBlock) {
        // SAFETY: by this function's contract.
        unsafe { fiber.prepare_anew() };
        if fiber.state.is_cancelled() || self.is_shutting_down() {
            fiber.must_unwind();
        }
        self.enqueue(call, fiber);
    }

    /// Ends the parked state. A token that comes later ends the next sleep early, after which the
    /// worker looks again.
    fn wake_up(&self) {
        let _ = self.inbox.unpark();
        let _ = self.runtime().idle.retract(self.index as usize);
        self.bed.rise();
        self.note_sleeping(false);
    }

    /// Completes the succession: the calling process is this worker, and the operations of the dead
    /// process are finished.
    #[cold]
    pub(super) fn arrive(&self) {
        if self.unwinding.get() != 0 {
            self.for_each_own(|fiber| fiber.exec_mode.doom());
        }
        // Release: pairs with the Acquire in `is_expected`.
        self.expected.store(Coming::No as u32, Ordering::Release);
        // To the zygote, which keeps the dead process until then.
        process::signal_parent(process::CHILD_CHANGED);
    }
}

/// Entry of the first process of a worker on the worker's stack.
///
/// # Safety
///
/// `worker` is a worker, and its process calls.
unsafe extern "C" fn live_first(worker: *mut u8) -> ! {
    // SAFETY: by this function's contract.
    let worker = unsafe { &*worker.cast::<Worker>() };
    end_after(|| {
        worker.runtime().process_table.up.add();
        worker.live_to_the_end();
    })
}

/// Entry of a process that begins anew.
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
