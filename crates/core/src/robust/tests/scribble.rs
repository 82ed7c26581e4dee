//! A peer that writes to every word all the time: each operation of other processes still ends.

use std::cell::Cell;
use std::thread;

use super::*;
use crate::atomic::{AtomicBool, Ordering};
use crate::testing::scaled;

#[derive(Default)]
struct Objects {
    mutex: RobustMutex,
    lock: RobustRwLock,
    reads: [Reads; 4],
    semaphore: RobustSemaphore,
    permits: [RobustPermit; 4],
    event: RobustEvent,
    seat: Seat,
    lane: Lane,
    condvar: RobustCondvar,
    entries: [CondvarEntry; 4],
    barrier: RobustBarrier,
    places: [BarrierPlace; 4],
}

impl Objects {
    /// Writes to each word, another value each time.
    fn spoil(&self, random: &mut impl FnMut() -> u64) {
        self.mutex.spoil(random());
        self.lock.writer().spoil(random());
        self.reads.iter().for_each(|reads| reads.spoil(random() as u32));
        self.permits.iter().for_each(|permit| permit.spoil(random()));
        self.event.spoil(random());
        self.seat.spoil(random());
        let head = random();
        let sent = head.wrapping_add(random() % 6);
        self.lane.spoil(sent.rotate_left(1), head);
        self.condvar.spoil([random(), random(), random()]);
        self.entries.iter().for_each(|entry| entry.spoil(random()));
        self.barrier.spoil(random(), random());
        self.places.iter().for_each(|place| place.spoil(random(), random()));
    }

    fn use_all(&self, me: Holder, dead: impl Fn(Holder) -> bool + Copy, slots: Slots) {
        if let Lock::Held { seen, .. } = self.mutex.try_lock(me, dead) {
            _ = self.mutex.wait_for(seen);
        }
        self.mutex.clear_poison();
        _ = self.mutex.unlock(me);
        _ = self.lock.try_read(me, &self.reads, dead);
        _ = self.lock.unlock_read(me, &self.reads);
        _ = self.lock.reader(&self.reads, 0, dead);
        self.use_permits(me, dead);
        self.event.set();
        self.event.reset();
        _ = (self.seat.take(me, dead), self.seat.leave(me));
        self.use_lane(slots);
        let wait = self.condvar.enter(me, &self.entries, dead);
        self.condvar.notify_one(&self.entries, dead);
        self.condvar.notify_all(&self.entries);
        _ = self.condvar.leave(me, &self.entries, wait);
        _ = self.barrier.join(&self.places[0]);
        let round = self.barrier.arrive(&self.places[0]);
        _ = self.barrier.look(&self.places, round, dead);
    }

    fn use_permits(&self, me: Holder, dead: impl Fn(Holder) -> bool + Copy) {
        if let Acquire::Acquired(permit) = self.semaphore.try_acquire(me, &self.permits, 3, dead) {
            _ = self.semaphore.forget(me, &self.permits, permit);
            _ = self.semaphore.adopt(me, &self.permits, permit);
            _ = self.semaphore.give_back(me, &self.permits, permit);
        }
        self.semaphore.sweep(&self.permits, me);
    }

    fn use_lane(&self, slots: Slots) {
        if let Ok(mut sender) = LaneSender::of(&self.lane, slots) {
            (0..9).for_each(|_| _ = sender.send(&self.lane, slots, |_| ()));
        }
        if let Ok(mut receiver) = LaneReceiver::of(&self.lane, slots) {
            (0..9).for_each(|_| _ = receiver.receive(&self.lane, slots, |_| ()));
        }
        let in_range = |slot| assert!(slot < slots.count() as usize);
        (0..9).for_each(|_| _ = self.lane.receive_shared(slots, in_range));
    }
}

/// Marsaglia's xorshift.
fn random_from(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn a_peer_that_writes_without_end_keeps_no_caller() {
    let (objects, done) = (Objects::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = random_from(0x9e37_79b9_7f4a_7c15);
            while !done.load(Ordering::Relaxed) {
                objects.spoil(&mut random);
            }
        });
        for salt in 0..scaled(500) as u32 {
            objects.use_all(holder(1, 1), dead(salt), Slots::new(4));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_caller_that_finds_a_new_holder_at_each_try_gives_up() {
    let (objects, me, generation) = (Objects::default(), holder(1, 1), Cell::new(0u32));
    // Each holder is dead, and succeeded as soon as that is known.
    let succeeded = |spoil: &dyn Fn(u64)| {
        generation.update(|generation| generation + 1);
        spoil(holder(2, generation.get()).bits());
        true
    };
    let (mutex, seat, writer) = (&objects.mutex, &objects.seat, objects.lock.writer());
    let first = holder(2, u32::MAX).bits();
    mutex.spoil(first);
    seat.spoil(first);
    writer.spoil(first);
    assert_eq!(mutex.try_lock(me, |_| succeeded(&|word| mutex.spoil(word))), Lock::Contended);
    assert_eq!(seat.take(me, |_| succeeded(&|word| seat.spoil(word))), Take::Contended);
    let read = objects.lock.try_read(me, &objects.reads, |_| succeeded(&|word| writer.spoil(word)));
    assert_eq!(read, Lock::Contended);
    assert!(!objects.reads[1].is(me));
}
