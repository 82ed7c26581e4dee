//! Interrupts of waits: a signal or a cancellation has come for a context that is lent.
//!
//! The protocol is that of `core::interrupt`.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::missed::InterruptMark;
use daiko_core::wait::{Node, WaitQueue};
use daiko_rt::call::{Call, InCall};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait;

use crate::mask::Mask;

/// The waiters of an object, in the 16 bytes that the C library does not use. All zeros: none.
pub(crate) type Queue = WaitQueue<WaiterId>;

/// A wait that may be interrupted: it lies in the frame of the waiter.
pub(crate) struct Interruptible<'w> {
    pub(crate) queue: &'w Queue,
    pub(crate) node: &'w Node<WaiterId>,
    /// Set before an interrupt takes the node out of the queue.
    pub(crate) mark: Option<&'w InterruptMark>,
}

/// The interrupts of one context.
pub(crate) type Interrupts = daiko_core::interrupt::Interrupts<Interruptible<'static>>;

impl Interruptible<'_> {
    /// Publishes the wait of the calling context, which enqueues the node next.
    ///
    /// # Safety
    ///
    /// The caller [retracts](Self::retract_from) it before it goes.
    pub(crate) unsafe fn publish_to(&self, interrupts: &Interrupts) {
        // SAFETY: by this function's contract; an interrupter uses it until then only.
        unsafe { interrupts.publish(&*ptr::from_ref(self).cast()) };
    }

    /// Takes the node out of the queue for an interrupt.
    ///
    /// # Safety
    ///
    /// The waiter does not go meanwhile. Its node is put into that queue only.
    pub(crate) unsafe fn interrupt(&self, call: InCall<'_>) -> Unlinked {
        // SAFETY: by this function's contract.
        let unlink =
            || unsafe { self.queue.unlink(ThisThread::of(call), NonNull::from(self.node)) };
        match self.mark {
            Some(mark) => mark.set_before(unlink),
            None => unlink(),
        }
    }

    /// Takes the published wait back.
    pub(crate) fn retract_from(&self, interrupts: &Interrupts) {
        // SAFETY: only its address is used.
        interrupts.retract(unsafe { &*ptr::from_ref(self).cast() });
    }
}

/// Lets the context know that it has to come home, and ends its wait. Returns false if it does not
/// wait. One caller at a time.
pub(crate) fn interrupt(interrupts: &Interrupts) -> bool {
    let call = Call::enter();
    let call = call.token();
    let ended = interrupts.interrupt(|wait| {
        // SAFETY: the waiter does not go meanwhile; its node is put into that queue only.
        match unsafe { wait.interrupt(call) } {
            Unlinked::Mine => Some(wait.node.waiter()),
            Unlinked::AlreadyGone => None,
        }
    });
    ended.inspect(|&waiter| wait::wake(call, waiter)).is_some()
}

/// The signals that wait for a context that has come home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// A handler will run.
    pub(crate) handled: bool,
    /// A handler will run that was installed without `SA_RESTART`.
    pub(crate) ends_calls: bool,
}

impl Pending {
    /// No signal.
    pub(crate) const NONE: Self = Pending { handled: false, ends_calls: false };

    /// Returns the handlers to run once the calling kernel thread has the mask `mask`.
    pub(crate) fn now(mask: Mask) -> Self {
        let mut result = Self::NONE;
        for signal in Mask::pending().without(mask).signals() {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: writes the live local. Zeros are an action.
            let action = unsafe {
                libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
                action.assume_init()
            };
            if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN {
                result.handled = true;
                result.ends_calls |= action.sa_flags & libc::SA_RESTART == 0;
            }
        }
        result
    }
}
