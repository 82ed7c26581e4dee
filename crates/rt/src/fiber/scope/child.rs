//! A scoped fiber: what it has beside others, and its leave.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use daiko_core::children::{Children, Entered};
use daiko_core::wait::Node;

use super::super::control::{Lost, Vtable};
use super::super::entry::{Body, Functions};
use super::super::join::{JoinError, Outcome};
use super::super::{ControlBlock, Fiber, unwind, waiter};
use crate::deadlock::{Kind, Target};
use crate::runtime::kernel::ThisThread;
use crate::wait::Waiter;
use crate::worker::{self, suspend};

/// What the fibers of one scope share. It lies in the frame that they borrow from.
pub(crate) struct Family {
    children: Children<Child>,
    /// Children that panicked and were not joined. Any child, and who joins it.
    panics: AtomicUsize,
    /// Children that were lost and not joined. Likewise.
    losses: AtomicUsize,
}

/// A child that has not left, and is in use therefore.
#[derive(Clone, Copy)]
struct Child(NonNull<ControlBlock>);

// SAFETY: what any thread may touch of a control block is atomic.
unsafe impl Send for Child {}

/// The packet of a scoped fiber, which stays in place from its spawn until its block is freed.
#[repr(C)]
pub(super) struct Packet<F, T> {
    /// First, as in the packet of any fiber.
    body: Body<F, T>,
    family: NonNull<Family>,
    /// Its place among the family's children.
    node: Node<Child>,
}

impl<F, T> Packet<F, T> {
    pub(super) fn new(f: F, family: &Family, child: NonNull<ControlBlock>) -> Self {
        let node = Node::new(Child(child));
        Packet { body: Body::new(f), family: NonNull::from(family), node }
    }

    /// # Safety
    ///
    /// `packet` points to a `Self` whose body alone has been written since it was made.
    unsafe fn node(packet: NonNull<u8>) -> NonNull<Node<Child>> {
        // SAFETY: inside the packet.
        unsafe { packet.add(offset_of!(Self, node)).cast() }
    }

    /// # Safety
    ///
    /// As for [`node`](Self::node).
    unsafe fn family(packet: NonNull<u8>) -> NonNull<Family> {
        // SAFETY: inside the packet.
        unsafe { packet.add(offset_of!(Self, family)).cast::<NonNull<Family>>().read() }
    }
}

impl<F: FnOnce() -> T, T> Packet<F, T> {
    /// The functions of a fiber that has such a packet.
    pub(super) const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        drop_result: Functions::<F, T>::VTABLE.drop_result,
        leave: Some(Self::leave),
        lost: Lost::Tells(Self::count_loss),
    };

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

    /// Counts a panic, before anybody can join the fiber and take it back.
    ///
    /// # Safety
    ///
    /// `packet` points to a packet with its result, of a fiber that has not ended.
    unsafe fn count_panic(packet: NonNull<u8>) {
        // SAFETY: the result is in place, at the packet's beginning; the family's frame stays until
        // the fiber has left.
        let (outcome, family) =
            unsafe { (packet.cast::<Outcome<T>>().as_ref(), Self::family(packet).as_ref()) };
        if matches!(outcome, Err(JoinError::Panicked(_))) {
            // Relaxed: who joins, and the scope, come after the end of the fiber.
            family.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the loss of the fiber, before anybody can join it and take that back.
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

    /// The fiber's last access to what it borrows: `Scope` says why.
    ///
    /// # Safety
    ///
    /// `packet` points to the packet of a fiber whose result is in place, and taken, dropped or
    /// left to its handle, or that is lost; it leaves once.
    unsafe fn leave(packet: NonNull<u8>) {
        // SAFETY: the fiber has entered; the frame stays until it has left, its block and so its
        // packet until later.
        let waiter = unsafe {
            let children = &raw mut (*Self::family(packet).as_ptr()).children;
            let children = NonNull::new_unchecked(children);
            Children::leave(children, &ThisThread, Self::node(packet))
        };
        if let Some(id) = waiter {
            // SAFETY: the last child has claimed the wait.
            unsafe { waiter::wake(id, worker::current()) };
        }
    }
}

impl Family {
    pub(super) const fn new() -> Self {
        let [panics, losses] = [const { AtomicUsize::new(0) }; 2];
        Family { children: Children::new(), panics, losses }
    }

    /// Makes a fiber that is about to be launched one of the family's.
    ///
    /// # Safety
    ///
    /// `fiber` is new, its packet is a `Packet<F, T>` of this family, and it is launched after this.
    /// The caller is in the body of the scope, or one of the family.
    pub(super) unsafe fn enter<F: FnOnce() -> T, T>(&self, fiber: &ControlBlock) {
        // SAFETY: the packet stays until its fiber has left; it is new, so in no list.
        let entered = unsafe {
            let node = Packet::<F, T>::node(fiber.packet.get());
            self.children.enter(&ThisThread, node)
        };
        if entered == Entered::Called {
            fiber.must_unwind();
        }
    }

    /// Takes a child that has ended so off the counts: somebody has joined it.
    pub(super) fn forgive(&self, error: &JoinError) {
        // Relaxed: it was counted before its end.
        match error {
            JoinError::Panicked(_) => _ = self.panics.fetch_sub(1, Ordering::Relaxed),
            JoinError::WorkerDied => _ = self.losses.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// What has come of a child that was not joined, if that is bad. Once all have left.
    pub(super) fn failure(&self) -> Option<&'static str> {
        // Relaxed: what children did before they left is seen by who waited for them.
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

    /// Waits for all children in the stead of the body, which `fiber`, the caller, has lost: they are cancelled.
    pub(crate) fn settle(&self, fiber: &'static ControlBlock) {
        self.cancel();
        let _ = self.wait(&Waiter::Fiber(fiber));
    }

    /// Cancels all children, and those that are spawned later.
    pub(super) fn cancel(&self) {
        let hold = |Child(block): Child| {
            // SAFETY: it has not left, so that it is in use.
            unsafe { block.as_ref() }.retain();
            Fiber::from_block(block)
        };
        while let Some(fiber) = self.children.call(&ThisThread, hold) {
            fiber.cancel();
        }
    }

    /// Waits for all children to have left; whether a cancel of the caller is due, which has reached
    /// them then.
    pub(super) fn wait(&self, waiter: &Waiter) -> bool {
        match waiter {
            Waiter::Fiber(fiber) => self.wait_as_fiber(fiber),
            Waiter::Thread(thread) => {
                if self.children.wait(&ThisThread, thread.id()) {
                    thread.block();
                }
                false
            }
        }
    }

    fn wait_as_fiber(&self, fiber: &ControlBlock) -> bool {
        let mut cancelled = fiber.flags.get() != 0 && unwind::is_due_before(fiber);
        if cancelled {
            self.cancel();
        }
        if !self.children.wait(&ThisThread, waiter::fiber_id(fiber)) {
            return cancelled;
        }
        let target = Target::new(Kind::Scope, &self.children);
        fiber.waiting_for(target, || {
            // Asked at each turn: a mover may have moved.
            while worker::current().is_some_and(|worker| !suspend::wait(worker, fiber)) {
                if !cancelled && unwind::is_due(fiber) {
                    cancelled = true;
                    self.cancel();
                }
            }
        });
        // All may have been cancelled, and the children first.
        cancelled || unwind::is_due(fiber)
    }
}
