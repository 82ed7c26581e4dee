//! The buffers of connections, and the pool that all connections share.

use std::sync::PoisonError;

use daiko::sync::{Mutex, MutexGuard};

use super::resp::{Parser, Replies};

/// The number of buffers that a pool keeps, and the limit on the size of each.
const KEPT: usize = 32;
const KEPT_BYTES: usize = 128 << 10;

/// The state of a connection while some of its requests are not answered.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Its first `filled` bytes have come, and belong to no completed request.
    pub(crate) input: Vec<u8>,
    pub(crate) filled: usize,
    pub(crate) parser: Parser,
    pub(crate) replies: Replies,
}

/// Free buffers. Connections take them in turn, so few suffice for many, and stay in the caches.
/// No thread-local, as each fiber has its own.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are moved twice for each batch of requests")]
pub(crate) struct Pool(Mutex<Vec<Box<Buffers>>>);

impl Pool {
    #[expect(clippy::vec_box, reason = "as above")]
    fn free(&self) -> MutexGuard<'_, Vec<Box<Buffers>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Box<Buffers> {
        self.free().pop().unwrap_or_default()
    }

    /// Takes buffers back, once all requests were answered. Buffers of a connection that ended may
    /// hold bytes, and are dropped.
    pub(crate) fn give_back(&self, buffers: Box<Buffers>) {
        let bytes =
            buffers.input.capacity() + buffers.replies.capacity() + buffers.parser.capacity();
        let mut free = self.free();
        if bytes <= KEPT_BYTES && free.len() < KEPT {
            free.push(buffers);
        }
    }
}
