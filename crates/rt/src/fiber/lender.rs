//! The kernel thread of a context that is lent to a runtime.

use std::cell::Cell;
use std::ptr::NonNull;

use daiko_context::{StackPointer, prepare, switch};
use daiko_core::loan::Loan;
use daiko_sys::Scope;
use daiko_sys::futex;

/// A kernel thread that lends its context to a runtime, where workers run the context as a
/// migratable fiber. Meanwhile the kernel thread keeps to another stack, where it sleeps, and
/// touches no thread-local: these are the context's.
///
/// The protocol is that of `core::loan`. The script for gdb, `gdb/daiko.py`, knows that the stage,
/// the futex, is the first word.
#[repr(C, align(64))]
pub struct Lender {
    loan: ContextLoan,
    /// The other context of the kernel thread, for the time of a loan. Only that thread.
    keeper: Cell<StackPointer>,
    /// Makes the fiber known to the workers, once the context has left its stack.
    publish: unsafe fn(NonNull<()>),
}

type ContextLoan = Loan<StackPointer, NonNull<()>>;

const _: () = assert!(std::mem::offset_of!(Lender, loan) == 0);

// SAFETY: each field says which thread uses it; the stage of the loan passes them on.
unsafe impl Sync for Lender {}

impl Lender {
    /// Writes a lender to `this`: its kernel thread keeps to the stack below `top` while it sleeps,
    /// and calls `publish` from there, with a fiber in use that nothing else knows of.
    ///
    /// # Safety
    ///
    /// `top` is a multiple of 16. The stack below it is mapped, writable, unused for as long as
    /// the context may be lent, and large enough for the handlers of signals that the kernel thread
    /// does not block. The lender does not move afterwards.
    pub(super) unsafe fn write(this: NonNull<Self>, top: *mut u8, publish: unsafe fn(NonNull<()>)) {
        // SAFETY: by this function's contract.
        unsafe {
            this.write(Lender {
                loan: Loan::new(StackPointer::NULL),
                keeper: Cell::new(prepare(top, keep, this.as_ptr().cast())),
                publish,
            });
        }
    }

    /// Begins a loan: returns the other context of the kernel thread, for the caller to switch to.
    ///
    /// # Safety
    ///
    /// The caller is the context of this lender, on its own kernel thread.
    pub(super) unsafe fn depart(&self, fiber: NonNull<()>) -> StackPointer {
        // SAFETY: by this function's contract.
        unsafe { self.loan.depart(fiber) };
        self.keeper.get()
    }

    /// Lets the kernel thread go on with the context, which has left its stack at `context`.
    ///
    /// # Safety
    ///
    /// As for [`Loan::receive`].
    pub(crate) unsafe fn receive(this: NonNull<Self>, context: StackPointer) {
        let wake = |stage| {
            futex::wake_addr(stage, 1, Scope::Private);
        };
        // SAFETY: by this function's contract; the loan is the first field.
        unsafe { ContextLoan::receive(this.cast(), context, wake) };
    }
}

/// The life of the kernel thread while its context is lent, again and again.
///
/// # Safety
///
/// `lender` is a [`Lender`] of the calling thread. Its context has just left its stack.
unsafe extern "C" fn keep(lender: *mut u8) -> ! {
    // SAFETY: by this function's contract.
    let lender = unsafe { &*lender.cast::<Lender>() };
    loop {
        // SAFETY: the context has departed, and nothing else knows of its fiber.
        let publish = |fiber| unsafe { (lender.publish)(fiber) };
        // SAFETY: as above. The context is off its stack.
        let context = unsafe { lender.loan.keep(publish, futex::wait_without_thread_locals) };
        // SAFETY: the context has left its stack, by a plain switch, and is resumed once.
        unsafe { switch(lender.keeper.as_ptr(), context) };
    }
}
