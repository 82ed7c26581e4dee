//! A pool of permits: many threads want some, and not all wait until they have them.

use shuttle::sync::Arc;

use super::*;
use crate::modelled::spawn;
use crate::semaphore::{RawSemaphore, Request};

/// Number of threads that want permits.
pub(super) const ALL: usize = 5;
const ROUNDS: usize = 5;
const PERMITS: u32 = 3;

pub(super) struct Pool {
    pub(super) semaphore: RawSemaphore<usize>,
    waiters: Waiters<ALL>,
    pub(super) room: Room,
}

impl Pool {
    pub(super) fn new(permits: u32) -> Self {
        Pool {
            semaphore: RawSemaphore::new(permits),
            waiters: Waiters::new(),
            room: Room::new(permits),
        }
    }

    pub(super) fn acquire(&self, actor: usize, permits: u32) -> bool {
        if self.semaphore.try_acquire(permits) {
            return true;
        }
        let (by, node) = (Waiters::<ALL>::by(actor), Node::new(Request { waiter: actor, permits }));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        if unsafe { self.semaphore.acquire(&by, NonNull::from(&node)) } {
            return true;
        }
        let leave = |node| {
            // SAFETY: alive, and queued here.
            let unlinked = unsafe { self.semaphore.leave(&by, node) };
            self.serve(actor);
            unlinked
        };
        let give_way = |_| self.release(actor, permits);
        let ended = wait(&self.waiters, actor, &node, Patience::any(), leave, give_way);
        matches!(ended, Ended::Claimed(_))
    }

    pub(super) fn release(&self, actor: usize, permits: u32) {
        if self.semaphore.release_fast(permits) == Ok(false) {
            self.semaphore.release(&Waiters::<ALL>::by(actor), permits).unwrap();
            self.serve(actor);
        }
    }

    fn serve(&self, actor: usize) {
        while let Some(request) = self.semaphore.serve(&Waiters::<ALL>::by(actor)) {
            self.waiters.wake([request.waiter]);
        }
    }
}

#[test]
fn so_many_permits_and_none_is_lost() {
    rehearse(|| {
        let shared = Arc::new(Pool::new(PERMITS));
        let all: Vec<_> = (0..ALL)
            .map(|actor| {
                spawn(&shared, move |shared| {
                    for _ in 0..ROUNDS {
                        let permits = 1 + below(PERMITS as usize) as u32;
                        if shared.acquire(actor, permits) {
                            shared.room.visit(permits, || ());
                            shared.release(actor, permits);
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(shared.semaphore.available(), PERMITS);
        assert_eq!(shared.semaphore.release_fast(1), Ok(true), "the word tells of no waiter");
    });
}
