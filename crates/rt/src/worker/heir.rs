//! Who inherits a mutex: the fiber that runs next, notified by its holder, who then waits himself.

use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::mutex::RawMutex;
use daiko_core::wait::Node;

use super::Worker;
use crate::fiber::ControlBlock;

/// A fiber that will ask for a mutex as soon as it runs, unless it reads in its node that it has it.
#[derive(Clone, Copy)]
pub(crate) struct Heir {
    fiber: NonNull<ControlBlock>,
    node: NonNull<Node<WaiterId>>,
    mutex: NonNull<RawMutex<WaiterId>>,
}

impl Worker {
    /// Notes that `fiber`, which is started here and about to be woken, will ask for `mutex`. `node` is
    /// alive until it is [struck out](Self::strike_out_heir), or taken.
    pub fn set_heir(
        &self,
        fiber: &ControlBlock,
        node: NonNull<Node<WaiterId>>,
        mutex: &RawMutex<WaiterId>,
    ) {
        // Another worker may take a mover.
        if !fiber.is_mover() {
            let (fiber, mutex) = (NonNull::from(fiber), NonNull::from(mutex));
            self.heir.set(Some(Heir { fiber, node, mutex }));
        }
    }

    /// The node of who will ask for `mutex` right after the caller suspends. It is no heir any more.
    pub fn take_heir(&self, mutex: &RawMutex<WaiterId>) -> Option<NonNull<Node<WaiterId>>> {
        let heir = self.heir.get()?;
        let runs_next = ptr::eq(heir.mutex.as_ptr(), mutex) && self.next.holds(heir.fiber);
        runs_next.then(|| {
            self.heir.set(None);
            heir.node
        })
    }

    /// By `fiber`, which runs, before it leaves the frame with its node.
    pub fn strike_out_heir(&self, fiber: &ControlBlock) {
        if self.heir.get().is_some_and(|heir| heir.fiber == NonNull::from(fiber)) {
            self.heir.set(None);
        }
    }
}
