//! The kernel thread of a context that is lent to a runtime.

use std::cell::Cell;
use std::ptr::NonNull;

use daiko_context::{StackPointer, prepare, switch};
use daiko_sys::Scope;
use daiko_sys::futex;

use crate::atomic::{AtomicU32, Ordering};

/// A kernel thread that lends its context to a runtime, where workers run the context as a
/// migratable fiber. Meanwhile the kernel thread keeps to another stack, where it sleeps, and
/// touches no thread-local: these are the context's.
///
/// ```text
///           lend                         a worker resumes
///  HERE ───────────> LENT: published ─────────────────────> LENT: a fiber
///   ^                                                            │
///   └────────────────── go home: off its stack ──────────────────┘
/// ```
///
/// `tools/gdb/daiko.py` knows the offsets of the first and the last field.
#[repr(C, align(64))]
pub struct Lender {
    /// `LENT` or `HERE`.
    stage: AtomicU32,
    /// The other context of the kernel thread, for the time of a loan. Only that thread.
    keeper: Cell<StackPointer>,
    /// The context, once it has left a worker for its home. Written by that worker.
    context: Cell<StackPointer>,
    /// The control block of the fiber that the context becomes. Written by the context, read by
    /// its kernel thread.
    fiber: Cell<Option<NonNull<()>>>,
    /// Makes the fiber known to the workers, once the context has left its stack.
    publish: unsafe fn(NonNull<()>),
    /// The control block of the fiber that the context is, or was last: for debuggers.
    lent_as: Cell<Option<NonNull<()>>>,
}

const _: () = assert!(std::mem::offset_of!(Lender, stage) == 0);
const _: () = assert!(std::mem::offset_of!(Lender, lent_as) == 40);

/// The context runs on its own kernel thread.
const HERE: u32 = 0;
/// The context is a fiber, or about to become one.
const LENT: u32 = 1;

// SAFETY: each field says which thread uses it; the stage passes them on.
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
                stage: AtomicU32::new(HERE),
                keeper: Cell::new(prepare(top, keep, this.as_ptr().cast())),
                context: Cell::new(StackPointer::NULL),
                fiber: Cell::new(None),
                publish,
                lent_as: Cell::new(None),
            });
        }
    }

    /// Begins a loan: returns the other context of the kernel thread, for the caller to switch to.
    pub(super) fn depart(&self, fiber: NonNull<()>) -> StackPointer {
        self.fiber.set(Some(fiber));
        self.lent_as.set(Some(fiber));
        // Relaxed: the kernel thread itself reads it.
        self.stage.store(LENT, Ordering::Relaxed);
        self.keeper.get()
    }

    /// Lets the kernel thread go on with the context, which has left its stack at `context`.
    ///
    /// # Safety
    ///
    /// The lender is alive until the store of the stage; afterwards it may be gone, so that only
    /// its address is used, for a wake that then finds no thread.
    pub(crate) unsafe fn receive(this: NonNull<Self>, context: StackPointer) {
        // SAFETY: by this function's contract.
        let stage = unsafe {
            this.as_ref().context.set(context);
            &raw const (*this.as_ptr()).stage
        };
        // SAFETY: as above.
        // Release: pairs with the Acquire in `keep`.
        unsafe { (*stage).store(HERE, Ordering::Release) };
        futex::wake_addr(stage, 1, Scope::Private);
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
        if let Some(fiber) = lender.fiber.take() {
            // SAFETY: the context is off its stack, and nothing else knows of its fiber.
            unsafe { (lender.publish)(fiber) };
        }
        // Acquire: pairs with the Release in `receive`.
        while lender.stage.load(Ordering::Acquire) == LENT {
            futex::wait_without_thread_locals(&lender.stage, LENT);
        }
        // SAFETY: the context has left its stack, by a plain switch, and is resumed once.
        unsafe { switch(lender.keeper.as_ptr(), lender.context.get()) };
    }
}
