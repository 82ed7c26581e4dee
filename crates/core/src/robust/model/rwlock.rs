//! A lock for readers and writers, one of which dies.

use loom::cell::UnsafeCell;

use super::*;
use crate::modelled::dies_at_each_step;

struct Shared {
    attached: Attached<3>,
    lock: RobustRwLock,
    reads: [Reads; 3],
    /// Two counts that each writer counts up one after the other: they are in order if they are
    /// equal.
    counts: UnsafeCell<[u32; 2]>,
}

// SAFETY: the model checks that only holders of the lock touch the counts.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

const VICTIM: usize = 0;

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            lock: RobustRwLock::new(),
            reads: array::from_fn(|_| Reads::new()),
            counts: UnsafeCell::new([0; 2]),
        })
    }

    fn is_dead(&self) -> impl Fn(Holder) -> bool + Copy {
        |holder| self.attached.is_dead(holder)
    }

    fn ring_if(&self, actor: usize, unlocked: Unlock) {
        assert_ne!(unlocked, Unlock::NotMine);
        if unlocked == Unlock::Ring {
            self.attached.ring_fenced(actor);
        }
    }

    /// Reads as `actor`, and returns the state it found. The counts are in order if that was clean.
    fn read(&self, actor: usize) -> FoundData {
        let me = Attached::<3>::holder(actor);
        let found = loop {
            let locked = self.lock.try_read(me, &self.reads, self.is_dead());
            if !matches!(locked, Lock::Locked(FoundData::Clean | FoundData::Poisoned)) {
                self.attached.ring_fenced(actor);
            }
            match locked {
                Lock::Locked(found) => break found,
                Lock::Contended => {}
                Lock::Held { by, seen } => {
                    self.attached.sleep_for(actor, self.lock.writer(), by, seen);
                }
            }
        };
        // SAFETY: there is no writer.
        let [first, second] = self.counts.with(|counts| unsafe { *counts });
        assert!(found != FoundData::Clean || first == second);
        self.ring_if(actor, self.lock.unlock_read(me, &self.reads));
        found
    }

    fn lock(&self, actor: usize) -> FoundData {
        let me = Attached::<3>::holder(actor);
        let found = loop {
            match self.lock.writer().try_lock(me, self.is_dead()) {
                Lock::Locked(found) => break found,
                Lock::Contended => {}
                Lock::Held { by, seen } => {
                    self.attached.sleep_for(actor, self.lock.writer(), by, seen);
                }
            }
        };
        let mut from = 0;
        while let Some(by) = self.lock.reader(&self.reads, from, self.is_dead()) {
            from = usize::from(by.index());
            self.attached
                .sleep_fenced(actor, || !self.reads[from].is(by) || self.attached.is_dead(by));
        }
        found
    }

    fn write(&self, actor: usize) -> FoundData {
        let found = self.lock(actor);
        for which in 0..2 {
            // SAFETY: there is no other writer, and no reader.
            self.counts.with_mut(|counts| unsafe { (*counts)[which] += 1 });
            assert_eq!(self.lock.writer().holder(), Some(Attached::<3>::holder(actor)));
        }
        self.ring_if(actor, self.lock.writer().unlock(Attached::<3>::holder(actor)));
        found
    }

    fn victim<R: Send + 'static>(
        shared: &Arc<Self>,
        death: &Death,
        life: fn(&Shared) -> R,
    ) -> loom::thread::JoinHandle<Option<R>> {
        let death = death.clone();
        spawn(shared, move |shared| shared.attached.live(VICTIM, &death, || life(shared)))
    }
}

#[test]
fn a_writer_waits_for_readers_that_live() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = Shared::victim(&shared, death, |shared| shared.read(VICTIM));
        assert_eq!(shared.write(1), FoundData::Clean);
        assert!(matches!(victim.join().unwrap(), None | Some(FoundData::Clean)));
        assert_eq!(shared.write(2), FoundData::Clean);
    });
}

#[test]
fn a_reader_after_a_writers_death_learns_of_it_or_finds_poison() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = Shared::victim(&shared, death, |shared| shared.write(VICTIM));
        let found = shared.read(1);
        let lived = victim.join().unwrap().is_some();
        let later = [shared.read(2), shared.write(1), shared.read(2)];
        let learned = later.iter().chain([&found]).filter(|&&found| found == FoundData::OwnerDied);
        assert!(learned.count() <= usize::from(!lived));
        match found {
            FoundData::Clean => assert!(later[0] != FoundData::Poisoned),
            _ => assert_eq!(later, [FoundData::Poisoned; 3]),
        }
    });
}

#[test]
fn a_reader_and_a_writer_find_a_dead_writer_at_once() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let dead = Attached::<3>::holder(2);
        assert_eq!(shared.lock.writer().try_lock(dead, |_| false), Lock::Locked(FoundData::Clean));
        shared.attached.dead[2].store(true, Ordering::Release);
        let victim = Shared::victim(&shared, death, |shared| shared.read(VICTIM));
        let found = shared.write(1);
        match victim.join().unwrap() {
            Some(FoundData::OwnerDied) => assert_eq!(found, FoundData::Poisoned),
            Some(_) => assert_eq!(found, FoundData::OwnerDied),
            None => assert_ne!(found, FoundData::Clean),
        }
        assert_eq!(shared.read(1), FoundData::Poisoned);
    });
}
