//! Lost fibers: their worker's process was killed while they were in user code.

use std::ptr::{self, NonNull};

use daiko_context::prepare;

use super::control::{ControlBlock, Lost};
use super::entry::entry;
use super::waiter;
use crate::call::InCall;
use crate::process::holding;
use crate::worker::{self, Worker, suspend};

/// Entry of a lost fiber on a borrowed stack: its own may be full.
///
/// # Safety
///
/// `arg` is the control block of that stack, which nothing else uses, and its packet is that of the
/// fiber, which the calling worker runs. The fiber was in user code, and never goes on there.
pub(crate) unsafe extern "C" fn die_on_spare_stack(arg: *mut u8) -> ! {
    suspend::arrive();
    // SAFETY: by this function's contract.
    unsafe {
        let stack: &'static ControlBlock = &*arg.cast();
        die(stack.packet.get().cast().as_ref(), Some(NonNull::from(stack)))
    }
}

/// Recovers the items that the fiber held or had lent, and ends it or lets it begin anew. None of
/// its values is dropped.
///
/// # Safety
///
/// `fiber` calls: on `stack` if it has borrowed one, else on its own below all of its frames. It
/// left these frames in user code, or while it unwinds, and never goes on there.
pub(crate) unsafe fn die(fiber: &'static ControlBlock, stack: Option<NonNull<ControlBlock>>) -> ! {
    fiber.leave_frames();
    // SAFETY: by this function's contract.
    unsafe { holding::recover_all(InCall::off_fibers(), fiber) };
    // SAFETY: a fiber runs on a worker; read only now, as the fiber may have waited.
    let worker = unsafe { worker::current().unwrap_unchecked() };
    let anew = fiber.begins_anew();
    if !anew {
        worker.runtime().process_table.lose_fiber();
        fiber.end_as_lost(InCall::agent(worker), Some(worker));
    }
    // SAFETY: by this function's contract.
    unsafe { suspend::finish_as_lost(worker, fiber, stack, anew) }
}

impl ControlBlock {
    /// Resets the state that the fiber's frames have nested, because the fiber never goes on in
    /// them. Its locals are lost.
    pub(crate) fn leave_frames(&self) {
        self.flags.leave_frames();
        self.locals.set(ptr::null_mut());
        self.scopes.set(ptr::null());
    }

    /// Returns true if the fiber begins anew when it is lost.
    pub(crate) fn begins_anew(&self) -> bool {
        matches!(self.vtable.get().lost, Lost::BeginsAnew)
    }

    /// Prepares the fiber to run from its beginning.
    ///
    /// # Safety
    ///
    /// It [begins anew](Self::begins_anew), and was lost in user code. It never goes on in its
    /// frames.
    pub(crate) unsafe fn prepare_anew(&self) {
        self.exec_mode.reset();
        let block = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the stack began there before; the part below is not used any more. `entry` gets
        // the fiber's block.
        self.sp.set(unsafe { prepare(self.stack_top(), entry, block) });
    }

    /// Ends the fiber without a result, and wakes its waiter. `here` is the calling worker, if a
    /// worker calls.
    fn end_as_lost(&self, call: InCall<'_>, here: Option<&Worker>) {
        let (functions, packet) = (self.vtable.get(), self.packet.get());
        if let Lost::Tells(tell) = functions.lost {
            // SAFETY: the fiber has not left.
            unsafe { tell(packet) };
        }
        let waiter = self.completion.die();
        if let Some(leave) = functions.leave {
            // SAFETY: the fiber is lost, and leaves once.
            unsafe { leave(call, packet) };
        }
        if let Some(id) = waiter {
            // SAFETY: the end has claimed the wait.
            unsafe { waiter::wake(call, id, here) };
        }
    }

    /// Prepares the lost fiber to run [`die_on_spare_stack`] on `stack`: for the worker that it was
    /// on, while it does not run.
    ///
    /// # Safety
    ///
    /// The stack is unused. The fiber was in user code, and never goes on there.
    pub(crate) unsafe fn prepare_to_die(&self, stack: NonNull<ControlBlock>) {
        // From here on, if its worker is killed, it goes on as any fiber at its end.
        self.exec_mode.end();
        // SAFETY: a block is never unmapped.
        unsafe { stack.as_ref() }.packet.set(NonNull::from(self).cast());
        let top = stack.as_ptr().cast::<u8>();
        // SAFETY: by this function's contract; `die_on_spare_stack` gets the argument that it asks
        // for.
        self.sp.set(unsafe { prepare(top, die_on_spare_stack, top) });
    }
}
