//! A mutex with a holder that dies.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool as Note;

use super::*;
use crate::modelled::dies_at_each_step;

struct Shared {
    attached: Attached<3>,
    mutex: RobustMutex,
    /// Two counts that each holder counts up one after the other: they are in order if they are
    /// equal.
    counts: UnsafeCell<[u32; 2]>,
    /// True if the victim had the lock last.
    victims: Note,
}

// SAFETY: the model checks that only the holder of the lock touches the counts.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

const VICTIM: usize = 0;

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            mutex: RobustMutex::new(),
            counts: UnsafeCell::new([0; 2]),
            victims: Note::new(false),
        })
    }

    fn try_lock(&self, actor: usize) -> Lock {
        self.mutex.try_lock(Attached::<3>::holder(actor), |holder| self.attached.is_dead(holder))
    }

    fn lock(&self, actor: usize) -> FoundData {
        loop {
            match self.try_lock(actor) {
                Lock::Locked(found) => return found,
                Lock::Contended => {}
                Lock::Held { by, seen } => self.attached.sleep_for(actor, &self.mutex, by, seen),
            }
        }
    }

    fn unlock(&self, actor: usize) {
        let unlocked = self.mutex.unlock(Attached::<3>::holder(actor));
        assert_ne!(unlocked, Unlock::NotMine);
        if unlocked == Unlock::Ring {
            self.attached.ring(actor);
        }
    }

    fn count(&self, which: usize) {
        // SAFETY: one attachment has the lock.
        self.counts.with_mut(|counts| unsafe { (*counts)[which] += 1 });
    }

    fn counts(&self) -> [u32; 2] {
        // SAFETY: one attachment has the lock.
        self.counts.with(|counts| unsafe { *counts })
    }

    /// Locks, counts in two steps, and unlocks. A holder that finds the lock clean finds the counts
    /// in order.
    fn add(&self, actor: usize) -> FoundData {
        let found = self.lock(actor);
        self.victims.store(actor == VICTIM, Ordering::Relaxed);
        let [first, second] = self.counts();
        assert!(found != FoundData::Clean || first == second);
        self.count(0);
        assert_eq!(self.mutex.holder(), Some(Attached::<3>::holder(actor)));
        self.count(1);
        self.unlock(actor);
        found
    }

    fn victim(shared: &Arc<Self>, death: &Death) -> loom::thread::JoinHandle<Option<FoundData>> {
        let death = death.clone();
        spawn(shared, move |shared| shared.attached.live(VICTIM, &death, || shared.add(VICTIM)))
    }
}

#[test]
fn one_holder_learns_of_each_death_and_later_holders_find_poison() {
    dies_at_each_step(3, |death| {
        let shared = Shared::new();
        let victim = Shared::victim(&shared, death);
        let found = shared.add(1);
        let lived = victim.join().unwrap().is_some();
        // The victim is dead and had the lock, and no other attachment has had it since.
        let held = !lived && shared.victims.load(Ordering::Relaxed);
        let later = shared.add(2);
        match (held, found) {
            (true, _) => assert_eq!((found, later), (FoundData::Clean, FoundData::OwnerDied)),
            (false, FoundData::OwnerDied) => assert_eq!(later, FoundData::Poisoned),
            (false, _) => assert_eq!((found, later), (FoundData::Clean, FoundData::Clean)),
        }
        assert_eq!(
            shared.add(1),
            if later == FoundData::Clean { FoundData::Clean } else { FoundData::Poisoned }
        );
    });
}

#[test]
fn two_wait_and_none_of_them_for_the_dead() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = Shared::victim(&shared, death);
        let other = spawn(&shared, |shared| shared.add(2));
        let found = [shared.add(1), other.join().unwrap()];
        let lived = victim.join().unwrap().is_some();
        let learned = found.iter().filter(|&&found| found == FoundData::OwnerDied).count();
        let held = !lived && shared.victims.load(Ordering::Relaxed);
        assert!(learned <= usize::from(!lived && !held));
        assert_eq!(shared.mutex.holder().is_some(), held);
    });
}

#[test]
fn a_repair_leaves_the_lock_clean_unless_the_holder_dies_before() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        // Another attachment has died before.
        assert_eq!(shared.try_lock(2), Lock::Locked(FoundData::Clean));
        shared.attached.dead[2].store(true, Ordering::Release);
        let death = death.clone();
        let repairs = spawn(&shared, move |shared| {
            shared.attached.live(VICTIM, &death, || {
                let found = shared.lock(VICTIM);
                if found == FoundData::OwnerDied {
                    shared.mutex.clear_poison();
                }
                shared.unlock(VICTIM);
                found
            })
        });
        let early = shared.lock(1);
        shared.unlock(1);
        let repaired = repairs.join().unwrap();
        let late = shared.lock(1);
        match (early, repaired) {
            (FoundData::OwnerDied, None) => assert_ne!(late, FoundData::Clean),
            (FoundData::OwnerDied, Some(found)) => {
                assert_eq!((found, late), (FoundData::Poisoned, found))
            }
            // Repaired, by an attachment that may have died afterwards.
            (early, found) => {
                assert!(matches!(found, None | Some(FoundData::OwnerDied)));
                assert_eq!((early, late), (FoundData::Clean, FoundData::Clean));
            }
        }
    });
}
