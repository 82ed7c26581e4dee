//! Direct hand-off of a mutex: its holder notifies the fiber that runs next, and then waits itself.

use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::mutex::RawMutex;
use daiko_core::wait::Node;

use super::state::{Heir, Worker};
use crate::fiber::ControlBlock;

impl Worker {
    /// Notes that `fiber`, which is started here and about to be woken, will lock `mutex`. `node`
    /// is alive until it is [struck out](Self::strike_out_heir), or taken.
    pub fn set_heir(
        &self,
        fiber: &ControlBlock,
        node: NonNull<Node<WaiterId>>,
        mutex: &RawMutex<WaiterId>,
    ) {
        // Another worker may take a migratable fiber.
        if !fiber.is_mover() {
            let (fiber, mutex) = (NonNull::from(fiber), NonNull::from(mutex));
            self.heir.set(Some(Heir { fiber, node, mutex }));
        }
    }

    /// Takes the node of the fiber that will lock `mutex` right after the caller suspends.
    pub fn take_heir(&self, mutex: &RawMutex<WaiterId>) -> Option<NonNull<Node<WaiterId>>> {
        let heir = self.heir.get()?;
        let runs_next = ptr::eq(heir.mutex.as_ptr(), mutex) && self.next.holds(heir.fiber);
        runs_next.then(|| {
            self.heir.set(None);
            heir.node
        })
    }

    /// Clears the hand-off to `fiber`, which runs, before it leaves the frame with its node.
    pub fn strike_out_heir(&self, fiber: &ControlBlock) {
        if self.heir.get().is_some_and(|heir| heir.fiber == NonNull::from(fiber)) {
            self.heir.set(None);
        }
    }
}
