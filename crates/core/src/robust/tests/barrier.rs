//! A barrier against plain counts, and from any words.

use super::*;
use crate::testing::scaled;

proptest! {
    /// Each step is a party that arrives and looks, dies and has a successor, or leaves and comes
    /// back.
    #[test]
    fn a_round_is_complete_once_all_have_arrived(
        parties in 1..5usize, steps in prop::collection::vec((0..4usize, 0..8u8), 0..scaled(100)),
    ) {
        let barrier = RobustBarrier::new();
        let places: Vec<_> = (0..parties).map(|_| BarrierPlace::new()).collect();
        let mut generation = vec![0; parties];
        // The round that each party waits for.
        let mut waits = vec![None; parties];
        let (mut round, mut arrived) = (0, vec![false; parties]);
        for (at, what) in steps {
            let at = at % parties;
            if generation[at] == 0 || what == 0 {
                generation[at] += 1;
                let taken = places[at].seat().take(holder(at as u16, generation[at]), |_| true);
                let is_taken = matches!(taken, Take::Taken { .. });
                prop_assert!(is_taken);
                waits[at] = barrier.join(&places[at]);
                prop_assert_eq!(waits[at], arrived[at].then_some(round));
            }
            let live = |by: Holder| by.generation().get() == generation[usize::from(by.index())];
            let of = *waits[at].get_or_insert_with(|| barrier.arrive(&places[at]));
            if of == round {
                arrived[at] = true;
            }
            let is_last = of == round && arrived.iter().all(|&arrived| arrived);
            match barrier.look(&places, of, |by| !live(by)) {
                BarrierLook::Complete { first } => {
                    prop_assert_eq!(first, is_last);
                    prop_assert!(is_last || of < round);
                    waits[at] = None;
                }
                BarrierLook::Missing(seen) => {
                    prop_assert!(!is_last && of == round && !barrier.has_changed(seen));
                }
                gone => prop_assert!(false, "{gone:?}"),
            }
            if is_last {
                round += 1;
                arrived.fill(false);
            }
        }
    }

    #[test]
    fn from_any_words_on_each_look_ends(
        rounds: u64, departures: u64, words in prop::collection::vec((any::<u64>(), any::<u64>()), 0..5),
        salt: u32,
    ) {
        let barrier = RobustBarrier::new();
        barrier.spoil(rounds, departures);
        let places: Vec<_> = words.iter().map(|_| BarrierPlace::new()).collect();
        places.iter().zip(&words).for_each(|(place, &(seat, arrivals))| place.spoil(seat, arrivals));
        for place in &places {
            let _ = (place.seat().take(holder(1, 1), dead(salt)), barrier.join(place));
            let round = barrier.arrive(place);
            match barrier.look(&places, round, dead(salt)) {
                BarrierLook::Died(at) | BarrierLook::Left(at) => prop_assert!(at < places.len()),
                BarrierLook::Missing(_) | BarrierLook::Complete { .. } => {}
            }
        }
        barrier.depart();
    }
}

#[test]
fn a_party_that_is_late_is_waited_for_and_one_that_is_gone_is_named_before() {
    let (barrier, places) = (RobustBarrier::new(), [const { BarrierPlace::new() }; 4]);
    let sit = |at: usize| {
        let _ = places[at].seat().take(holder(at as u16, 1), NONE_DEAD);
        assert_eq!(barrier.join(&places[at]), None);
    };
    (0..3).for_each(sit);
    let round = barrier.arrive(&places[0]);
    let look = |dead: u16| barrier.look(&places, round, |by: Holder| by.index() == dead);
    // One place has never had a party, and another party is late.
    let BarrierLook::Missing(seen) = look(9) else { panic!() };
    assert_eq!(look(2), BarrierLook::Died(2));
    assert!(places[1].seat().leave(holder(1, 1)) && !barrier.has_changed(seen));
    barrier.depart();
    assert!(barrier.has_changed(seen));
    assert_eq!(look(2), BarrierLook::Left(1));
}
