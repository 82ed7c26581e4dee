//! A barrier with a party that dies.

use loom::cell::UnsafeCell;

use super::*;
use crate::modelled::dies_at_each_step;

const VICTIM: usize = 0;

struct Shared<const P: usize> {
    attached: Attached<P>,
    barrier: RobustBarrier,
    places: [BarrierPlace; P],
    /// Written by each party before it arrives, and read by all behind the barrier.
    written: [UnsafeCell<u32>; P],
}

// SAFETY: the model checks that all parties arrive before one of them reads.
unsafe impl<const P: usize> Sync for Shared<P> {}
// SAFETY: as for Sync.
unsafe impl<const P: usize> Send for Shared<P> {}

impl<const P: usize> Shared<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            barrier: RobustBarrier::new(),
            places: array::from_fn(|_| BarrierPlace::new()),
            written: array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn is_dead(&self, holder: Holder) -> bool {
        self.attached.is_dead(holder)
    }

    fn join(&self, actor: usize) {
        let me = Attached::<P>::holder(actor);
        let taken = self.places[actor].seat().take(me, |_| false);
        assert!(matches!(taken, Take::Taken { from: None }));
        assert_eq!(self.barrier.join(&self.places[actor]), None);
    }

    fn joined() -> Arc<Self> {
        let shared = Self::new();
        (0..P).for_each(|actor| shared.join(actor));
        shared
    }

    /// Arrives, and waits for the end of the round.
    fn meet(&self, actor: usize) -> BarrierLook {
        let round = self.barrier.arrive(&self.places[actor]);
        loop {
            // Before the look: a death that is known is looked at again.
            let dead = self.attached.is_dead(Attached::<P>::holder(VICTIM));
            let look = self.barrier.look(&self.places, round, |who| self.is_dead(who));
            match look {
                BarrierLook::Missing(seen) => self.attached.sleep_fenced(actor, || {
                    self.barrier.has_changed(seen)
                        || !dead && self.attached.is_dead(Attached::<P>::holder(VICTIM))
                }),
                BarrierLook::Complete { first } => {
                    if first {
                        self.attached.ring_fenced(actor);
                    }
                    return look;
                }
                gone => return gone,
            }
        }
    }

    /// Meets, and reads afterwards the datum that each party has written before.
    fn meet_with_data(&self, actor: usize) -> BarrierLook {
        // SAFETY: no other party reads it before all have arrived.
        self.written[actor].with_mut(|written| unsafe { *written = 7 });
        let met = self.meet(actor);
        for written in &self.written {
            // SAFETY: written before its party has arrived.
            assert_eq!(written.with(|written| unsafe { *written }), 7);
        }
        met
    }

    fn leave(&self, actor: usize) {
        assert!(self.places[actor].seat().leave(Attached::<P>::holder(actor)));
        self.barrier.depart();
        self.attached.ring_fenced(actor);
    }
}

#[test]
fn each_party_sees_what_all_have_written_before() {
    loom::model(|| {
        let shared = Shared::<2>::joined();
        let other = spawn(&shared, |shared| shared.meet_with_data(1));
        let met = [shared.meet_with_data(0), other.join().unwrap()];
        assert!(met.contains(&BarrierLook::Complete { first: true }));
        assert!(met.contains(&BarrierLook::Complete { first: false }));
    });
}

#[test]
fn three_parties_meet_and_one_of_them_tells_the_rest() {
    crate::modelled::bounded(2, || {
        let shared = Shared::<3>::joined();
        let others = [1, 2].map(|actor| spawn(&shared, move |shared| shared.meet_with_data(actor)));
        let mut met = vec![shared.meet_with_data(0)];
        met.extend(others.map(|other| other.join().unwrap()));
        let first = met.iter().filter(|&&met| met == BarrierLook::Complete { first: true });
        assert_eq!(first.count(), 1);
    });
}

#[test]
fn a_party_dies_and_the_rest_has_met_it_or_is_told() {
    dies_at_each_step(2, |death| {
        let shared = Shared::<2>::joined();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| shared.attached.live(VICTIM, &death, || shared.meet(VICTIM))
        });
        let met = shared.meet(1);
        let lived = victim.join().unwrap().is_some();
        match met {
            BarrierLook::Complete { .. } => {}
            told => assert!(!lived && told == BarrierLook::Died(VICTIM), "{told:?}"),
        }
        if !lived {
            // A successor goes on where the victim stopped.
            let place = &shared.places[VICTIM];
            let heir = Holder::new(1, 1.try_into().unwrap());
            let taken = place.seat().take(heir, |who| shared.is_dead(who));
            assert!(matches!(taken, Take::Taken { from: Some(_) }));
            let round = shared.barrier.join(place);
            let round = round.unwrap_or_else(|| shared.barrier.arrive(place));
            let look = shared.barrier.look(&shared.places, round, |_| false);
            assert_eq!(round == 0, matches!(look, BarrierLook::Complete { .. }), "{look:?}");
        }
    });
}

#[test]
fn a_party_that_leaves_is_not_waited_for() {
    loom::model(|| {
        let shared = Shared::<2>::joined();
        let other = spawn(&shared, |shared| shared.leave(VICTIM));
        assert_eq!(shared.meet(1), BarrierLook::Left(VICTIM));
        other.join().unwrap();
    });
}

#[test]
fn a_party_that_leaves_behind_its_arrival_has_arrived() {
    loom::model(|| {
        let shared = Shared::<2>::joined();
        let other = spawn(&shared, |shared| {
            let _ = shared.meet(VICTIM);
            shared.leave(VICTIM);
        });
        assert!(matches!(shared.meet(1), BarrierLook::Complete { .. }));
        other.join().unwrap();
    });
}
