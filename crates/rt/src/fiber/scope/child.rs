//! A scoped fiber: its packet, its family, and its leave.

use std::mem::offset_of;
use std::ptr::NonNull;

use daiko_core::children::{Children, Entered};
use daiko_core::wait::Node;

use super::super::control::{Lost, Vtable};
use super::super::entry::{Functions, PacketBody};
use super::super::join::{JoinError, JoinOutcome};
use super::super::{ControlBlock, Fiber, unwind, waiter};
use crate::atomic::{AtomicUsize, Ordering};
use crate::call::InCall;
use crate::deadlock::{WaitKind, WaitTarget};
use crate::runtime::kernel::ThisThread;
use crate::wait::Waiter;
use crate::worker::{self, suspend};

/// The shared state of the fibers of one scope. It lies in the frame that they borrow from.
pub(crate) struct Family {
    children: Children<Child>,
    /// Number of children that panicked and were not joined. Written by any child, and its joiner.
    panics: AtomicUsize,
    /// Number of children that were lost and not joined. Written likewise.
    losses: AtomicUsize,
}

/// A child that has not left, and so is in use.
#[derive(Clone, Copy)]
struct Child(NonNull<ControlBlock>);

// SAFETY: the fields of a control block that any thread may touch are atomic.
unsafe impl Send for Child {}

/// The packet of a scoped fiber, which stays in place from its spawn until its block is freed.
#[repr(C)]
pub(super) struct Packet<F, T> {
    /// First, as in the packet of any fiber.
    body: PacketBody<F, T>,
    family: NonNull<Family>,
    /// Its place among the family's children.
    node: Node<Child>,
}

impl<F, T> Packet<F, T> {
    pub(super) fn new(f: F, family: &Family, child: NonNull<ControlBlock>) -> Self {
        let node = Node::new(Child(child));
        Packet { body: PacketBody::new(f), family: NonNull::from(family), node }
    }

    /// Returns the node of the packet.
    ///
    /// # Safety
    ///
    /// `packet` points to a `Self`, of which only the body has been written since it was made.
    unsafe fn node(packet: NonNull<u8>) -> NonNull<Node<Child>> {
        // SAFETY: inside the packet.
        unsafe { packet.add(offset_of!(Self, node)).cast() }
    }

    /// Returns the family of the packet.
    ///
    /// # Safety
    ///
    /// As for [`node`](Self::node).
    unsafe fn family(packet: NonNull<u8>) -> NonNull<Family> {
        // SAFETY: inside the packet.
        unsafe { packet.add(offset_of!(Self, family)).cast::<NonNull<Family>>().read() }
    }
}

impl<F: FnOnce() -> T, T> Packet<F, T> {
    /// The functions of a fiber with this packet.
    pub(super) const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        drop_result: Functions::<F, T>::VTABLE.drop_result,
        leave: Some(Self::leave),
        lost: Lost::Tells(Self::count_loss),
    };

    /// Runs the closure in the packet, and counts its panic.
    ///
    /// # Safety
    ///
    /// `packet` points to a packet with its closure, which is not run again.
    unsafe fn run(packet: NonNull<u8>) {
        // SAFETY: the body comes first; for the rest, this function's contract.
        unsafe {
            (Functions::<F, T>::VTABLE.run)(packet);
            Self::count_panic(packet);
        }
    }

    /// Drops the closure in the packet, and counts its panic.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn cancel(packet: NonNull<u8>) {
        // SAFETY: as in `run`.
        unsafe {
            (Functions::<F, T>::VTABLE.cancel)(packet);
            Self::count_panic(packet);
        }
    }

    /// Counts a panic, before a joiner can take it back.
    ///
    /// # Safety
    ///
    /// `packet` points to a packet with its result, of a fiber that has not ended.
    unsafe fn count_panic(packet: NonNull<u8>) {
        // SAFETY: the result is in place, at the packet's beginning; the family's frame stays until
        // the fiber has left.
        let (outcome, family) =
            unsafe { (packet.cast::<JoinOutcome<T>>().as_ref(), Self::family(packet).as_ref()) };
        if matches!(outcome, Err(JoinError::Panicked(_))) {
            // Relaxed: the joiner, and the scope, come after the end of the fiber.
            family.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the loss of the fiber, before a joiner can take that back.
    ///
    /// # Safety
    ///
    /// `packet` points to the packet of a fiber that has not left.
    unsafe fn count_loss(packet: NonNull<u8>) {
        // SAFETY: the family's frame stays until the fiber has left.
        let family = unsafe { Self::family(packet).as_ref() };
        // Relaxed: as in `count_panic`.
        family.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves the family: the fiber's last access to borrowed values; see `Scope`.
    ///
    /// # Safety
    ///
    /// `packet` points to the packet of a fiber that is lost, or has its result in place, taken,
    /// dropped or left to its handle; it leaves once.
    unsafe fn leave(call: InCall<'_>, packet: NonNull<u8>) {
        // SAFETY: the fiber has entered; the frame stays until its one wait for all children is
        // over, the block and so the packet until later.
        let waiter = unsafe {
            let children = &raw mut (*Self::family(packet).as_ptr()).children;
            let children = NonNull::new_unchecked(children);
            Children::leave(children, ThisThread::of(call), Self::node(packet), begin_one(call))
        };
        if let Some(id) = waiter {
            // SAFETY: the last child has claimed the wait.
            unsafe { waiter::wake(call, id, worker::current()) };
        }
    }
}

/// Number of children that are asked whether one may begin.
const ASKED: usize = 8;

/// Returns a function that makes a child begin on the calling worker, if it has not begun and is in
/// the queue there, and returns true if no other one has to be asked.
fn begin_one(call: InCall<'_>) -> impl FnMut(Child) -> bool {
    let worker = worker::current();
    let mut asked = 0;
    move |Child(block)| {
        asked += 1;
        // SAFETY: the child has not left, so it is in use.
        let child = unsafe { block.as_ref() };
        worker.is_none_or(|worker| worker.begin_awaited(call, child)) || asked == ASKED
    }
}

impl Family {
    pub(super) const fn new() -> Self {
        let [panics, losses] = [const { AtomicUsize::new(0) }; 2];
        Family { children: Children::new(), panics, losses }
    }

    /// Adds a fiber that is about to be launched to the family.
    ///
    /// # Safety
    ///
    /// `fiber` is new, its packet is a `Packet<F, T>` of this family, and it is launched after
    /// this. The caller is in the body of the scope, or a fiber of the family.
    pub(super) unsafe fn enter<F: FnOnce() -> T, T>(&self, call: InCall<'_>, fiber: &ControlBlock) {
        // SAFETY: the packet stays until its fiber has left; it is new, so in no list.
        let entered = unsafe {
            let node = Packet::<F, T>::node(fiber.packet.get());
            self.children.enter(ThisThread::of(call), node)
        };
        if entered == Entered::Called {
            fiber.must_unwind();
        }
    }

    /// Takes a child that has ended with `error` off the counts, because it was joined.
    pub(super) fn forgive(&self, error: &JoinError) {
        // Relaxed: it was counted before its end.
        match error {
            JoinError::Panicked(_) => _ = self.panics.fetch_sub(1, Ordering::Relaxed),
            JoinError::WorkerDied => _ = self.losses.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Returns the failure of a child that was not joined, if there is one. Only once all have
    /// left.
    pub(super) fn failure(&self) -> Option<&'static str> {
        // Relaxed: the caller has waited for the children, and so sees their writes before they
        // left.
        if self.panics.load(Ordering::Relaxed) != 0 {
            Some("daiko: a fiber of this scope panicked, and was not joined")
        } else if self.losses.load(Ordering::Relaxed) != 0 {
            Some(
                "daiko: a fiber of this scope was lost with its worker's process, and was not joined",
            )
        } else {
            None
        }
    }

    /// Waits for all children on behalf of the body, which `fiber`, the caller, has lost: they are
    /// cancelled.
    pub(crate) fn settle(&self, call: InCall<'_>, fiber: &'static ControlBlock) {
        self.cancel(call);
        let _ = self.wait(call, &Waiter::Fiber(fiber));
    }

    /// Cancels all children, and those that are spawned later.
    pub(super) fn cancel(&self, call: InCall<'_>) {
        let hold = |Child(block): Child| {
            // SAFETY: it has not left, so it is in use.
            unsafe { block.as_ref() }.retain();
            Fiber::from_block(block)
        };
        while let Some(fiber) = self.children.call(ThisThread::of(call), hold) {
            fiber.cancel();
        }
    }

    /// Waits for all children to have left; returns true if a cancel of the caller is due, which
    /// has been passed on to them.
    pub(super) fn wait(&self, call: InCall<'_>, waiter: &Waiter) -> bool {
        match waiter {
            Waiter::Fiber(fiber) => self.wait_as_fiber(call, fiber),
            Waiter::Thread(thread) => {
                if self.children.wait(ThisThread::of(call), thread.id()) {
                    thread.block();
                }
                false
            }
        }
    }

    fn wait_as_fiber(&self, call: InCall<'_>, fiber: &ControlBlock) -> bool {
        let mut cancelled = fiber.flags.has_any() && unwind::is_due_before(fiber);
        if cancelled {
            self.cancel(call);
        }
        let _ = self.children.any(ThisThread::of(call), begin_one(call));
        if !self.children.wait(ThisThread::of(call), waiter::fiber_id(fiber)) {
            return cancelled;
        }
        let target = WaitTarget::new(WaitKind::Scope, &self.children);
        fiber.waiting_for(target, || {
            // Read each time: a migratable fiber may have changed its worker.
            while worker::current().is_some_and(|worker| !suspend::wait(call, worker, fiber)) {
                if !cancelled && unwind::is_due(fiber) {
                    cancelled = true;
                    self.cancel(call);
                }
            }
        });
        // All may have been cancelled, and the children first.
        cancelled || unwind::is_due(fiber)
    }
}
