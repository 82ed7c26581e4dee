//! Direct hand-off of a mutex: its holder notifies the fiber that runs next, and then waits itself.

use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::mutex::RawMutex;
use daiko_core::wait::Node;

use super::state::{HandOff, Worker};
use crate::fiber::ControlBlock;

impl Worker {
    /// Notes that `fiber`, which is started here and about to be woken, will lock `mutex`. `node`
    /// is alive until it is [struck out](Self::cancel_hand_off), or taken.
    pub fn set_hand_off(
        &self,
        fiber: &ControlBlock,
        node: NonNull<Node<WaiterId>>,
        mutex: &RawMutex<WaiterId>,
    ) {
        // Another worker may take a migratable fiber.
        if !fiber.is_migratable() {
            let (fiber, mutex) = (NonNull::from(fiber), NonNull::from(mutex));
            self.hand_off.set(Some(HandOff { fiber, node, mutex }));
        }
    }

    /// Takes the node of the fiber that will lock `mutex` right after the caller suspends.
    pub fn take_hand_off(&self, mutex: &RawMutex<WaiterId>) -> Option<NonNull<Node<WaiterId>>> {
        let hand_off = self.hand_off.get()?;
        let runs_next = ptr::eq(hand_off.mutex.as_ptr(), mutex) && self.next.holds(hand_off.fiber);
        runs_next.then(|| {
            self.hand_off.set(None);
            hand_off.node
        })
    }

    /// Clears the hand-off to `fiber`, which runs, before it leaves the frame with its node.
    pub fn cancel_hand_off(&self, fiber: &ControlBlock) {
        if self.hand_off.get().is_some_and(|hand_off| hand_off.fiber == NonNull::from(fiber)) {
            self.hand_off.set(None);
        }
    }
}
