//! What becomes of a fiber that is lost: its worker's process was killed while it was in its own code.

use std::ptr::{self, NonNull};

use daiko_context::prepare;

use super::control::{ControlBlock, Lost, flag};
use super::entry::entry;
use super::waiter;
use crate::process::estate;
use crate::runtime::pool;
use crate::worker::{self, Worker, suspend};

/// Where a fiber goes on that was lost, on a stack which it has borrowed: its own may be full.
///
/// # Safety
///
/// `arg` is the control block of that stack, in use by nobody else, and its packet that of the fiber, which the
/// calling worker runs. The fiber was in its own code, and never goes on there.
pub(crate) unsafe extern "C" fn die_aside(arg: *mut u8) -> ! {
    suspend::arrive();
    // SAFETY: by this function's contract.
    unsafe {
        let stack: &'static ControlBlock = &*arg.cast();
        die(stack.packet.get().cast().as_ref(), Some(NonNull::from(stack)))
    }
}

/// Settles what the fiber has of others and has lent them, and ends it, or has it begin anew. Nothing of it is dropped.
///
/// # Safety
///
/// `fiber` calls, on this stack if it has borrowed one, else on its own, below all of its frames. These were left in its
/// own code, or in what it does as it unwinds, and it never goes on there.
pub(crate) unsafe fn die(fiber: &'static ControlBlock, stack: Option<NonNull<ControlBlock>>) -> ! {
    fiber.leave_frames();
    // SAFETY: by this function's contract.
    unsafe { estate::settle(fiber) };
    // SAFETY: a fiber runs on a worker; asked only now, as it may have waited.
    let worker = unsafe { worker::current().unwrap_unchecked() };
    let anew = fiber.begins_anew();
    if !anew {
        worker.runtime().roster.lose_fiber();
        fiber.end_as_lost(Some(worker));
    }
    // SAFETY: by this function's contract.
    unsafe { suspend::finish_as_lost(worker, fiber, stack, anew) }
}

impl ControlBlock {
    /// What the fiber's frames have nested is over, as nobody goes on in them; its locals are lost.
    pub(crate) fn leave_frames(&self) {
        self.flags.update(|flags| flags & flag::CANCEL);
        self.locals.set(ptr::null_mut());
        self.scopes.set(ptr::null());
    }

    /// Whether the fiber, if lost, begins anew.
    pub(crate) fn begins_anew(&self) -> bool {
        matches!(self.vtable.get().lost, Lost::BeginsAnew)
    }

    /// Makes the fiber one that is to run from its beginning.
    ///
    /// # Safety
    ///
    /// It [begins anew](Self::begins_anew), and was lost in its own code. Nobody goes on in its frames.
    pub(crate) unsafe fn prepare_anew(&self) {
        self.course.reset();
        let block = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: there the stack began before; what is below is not used any more. `entry` gets its block.
        self.sp.set(unsafe { prepare(pool::stack_top(self), entry, block) });
    }

    /// Ends the fiber without a result, for who waits for it. The worker that calls, if one does.
    fn end_as_lost(&self, here: Option<&Worker>) {
        let (functions, packet) = (self.vtable.get(), self.packet.get());
        if let Lost::Tells(tell) = functions.lost {
            // SAFETY: the fiber has not left.
            unsafe { tell(packet) };
        }
        let waiter = self.completion.die();
        if let Some(leave) = functions.leave {
            // SAFETY: the fiber is lost, and leaves once.
            unsafe { leave(packet) };
        }
        if let Some(id) = waiter {
            // SAFETY: the end has claimed the wait.
            unsafe { waiter::wake(id, here) };
        }
    }

    /// Prepares what has become of the fiber, which was lost, to run on `stack`: for the worker that it was on, while it
    /// does not run.
    ///
    /// # Safety
    ///
    /// The stack is nobody else's. The fiber was in its own code, and never goes on there.
    pub(crate) unsafe fn prepare_to_die(&self, stack: NonNull<ControlBlock>) {
        // From here on it goes on where its worker is killed, as at the end of any other.
        self.course.end();
        // SAFETY: a block is one for good.
        unsafe { stack.as_ref() }.packet.set(NonNull::from(self).cast());
        let top = stack.as_ptr().cast::<u8>();
        // SAFETY: by this function's contract; what is given to `die_aside` is as it asks for.
        self.sp.set(unsafe { prepare(top, die_aside, top) });
    }
}
