//! A mutex that late threads ask for, threads that leave, and threads that are cancelled.

use shuttle::sync::Arc;

use super::*;
use crate::modelled::spawn;
use crate::mutex::{Acquire, Arrival, RawMutex, note};

const ALL: usize = 5;
const ROUNDS: usize = 5;

struct Shared {
    mutex: RawMutex<usize>,
    waiters: Waiters<ALL>,
    room: Room,
}

impl Shared {
    fn lock(&self, actor: usize) -> bool {
        if self.mutex.try_acquire() {
            return true;
        }
        let (by, node, patience) = (Waiters::<ALL>::by(actor), Node::new(actor), Patience::any());
        let mut arrival = Arrival::New;
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        while unsafe { self.mutex.acquire(&by, NonNull::from(&node), arrival) } == Acquire::Queued {
            // SAFETY: alive, and queued here.
            let leave = |node| unsafe { self.mutex.leave(&by, node) };
            let give_way = |note| self.waiters.wake(self.mutex.give_way(&by, note));
            arrival = match wait(&self.waiters, actor, &node, patience, leave, give_way) {
                Ended::Claimed(note::HANDED_OVER) => return true,
                Ended::Claimed(_) => [Arrival::Woken, Arrival::Late][below(2)],
                Ended::TimedOut | Ended::Cancelled => return false,
            };
        }
        true
    }

    fn unlock(&self, actor: usize) {
        if !self.mutex.release_fast() {
            let by = Waiters::<ALL>::by(actor);
            self.waiters.wake(self.mutex.release_and_leave(&by, |_| below(4) == 0));
        }
    }
}

#[test]
fn one_holder_at_a_time_though_waiters_leave() {
    rehearse(|| {
        let shared = Arc::new(Shared {
            mutex: RawMutex::new(),
            waiters: Waiters::new(),
            room: Room::new(1),
        });
        let all: Vec<_> = (0..ALL)
            .map(|actor| {
                spawn(&shared, move |shared| {
                    for _ in 0..ROUNDS {
                        if shared.lock(actor) {
                            shared.room.visit(1, || ());
                            shared.unlock(actor);
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        assert!(
            shared.mutex.try_acquire() && shared.mutex.release_fast(),
            "nothing is left behind"
        );
    });
}
