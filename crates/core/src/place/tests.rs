//! Properties of placement, over arbitrary loads and looks.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn starting_again_and_again_never_exceeds_the_slack(
        mut loads in prop::collection::vec(0u32..2000, 1..9),
        starters in prop::collection::vec(any::<prop::sample::Index>(), 1..400),
    ) {
        let before = loads.clone();
        for starter in starters {
            let me = starter.index(loads.len());
            let worker = match start(&loads, me) { StartPlace::Here => me, StartPlace::To(worker) => worker };
            loads[worker] += 1;
        }
        let min = *loads.iter().min().unwrap();
        for (load, before) in loads.iter().zip(before) {
            prop_assert!(*load == before || *load <= min + IMBALANCE_FLOOR.max(min / 4) + 1);
        }
    }

    #[test]
    fn a_fiber_sent_away_goes_to_a_least_loaded_other(
        loads in prop::collection::vec(0u32..1000, 1..9), me in any::<prop::sample::Index>(),
    ) {
        let me = me.index(loads.len());
        match start(&loads, me) {
            StartPlace::Here => prop_assert!(loads[me] - loads.iter().min().unwrap() <= 250),
            StartPlace::To(worker) => {
                prop_assert_ne!(worker, me);
                prop_assert_eq!(loads[worker], *loads.iter().min().unwrap());
                prop_assert!(loads[me] - loads[worker] > IMBALANCE_FLOOR);
            }
        }
    }

    #[test]
    fn a_pinned_fiber_never_leaves_its_worker(
        last in 0usize..8, waker in prop::option::of(0usize..8), suspends: bool,
    ) {
        match wake(Mobility::Pinned, last, waker, suspends) {
            WakeTarget::LifoSlot => prop_assert_eq!(waker, Some(last)),
            WakeTarget::Inbox(worker) => prop_assert_eq!(worker, last),
        }
    }

    #[test]
    fn a_migratable_fiber_moves_only_to_a_worker_that_suspends(
        last in 0usize..8, waker in prop::option::of(0usize..8), suspends: bool,
    ) {
        let target = wake(Mobility::Migratable, last, waker, suspends);
        let moves = target == WakeTarget::LifoSlot && waker != Some(last);
        prop_assert_eq!(moves, suspends && waker.is_some_and(|waker| waker != last));
    }

    #[test]
    fn a_next_slot_is_taken_only_after_it_stood_still(
        looks in prop::collection::vec((0usize..3, 0u64..2, 0u64..4_000), 1..60),
    ) {
        let mut watch = LifoSlotWatch::new();
        let (mut now, mut still) = (0, Vec::<(SlotSnapshot, u64)>::new());
        for (fiber, picks, pause) in looks {
            now += pause;
            let snapshot = SlotSnapshot { fiber, picks };
            if still.last().is_some_and(|(seen, _)| *seen != snapshot) {
                still.clear();
            }
            still.push((snapshot, now));
            let settled = fiber != 0 && now - still[0].1 >= SETTLED_NS;
            prop_assert_eq!(watch.look(snapshot, now), settled);
        }
    }
}

#[test]
fn the_least_loaded_worker_is_oneself_on_a_tie() {
    assert_eq!(least([3, 3, 3], 1), Least { worker: 1, load: 3 });
    assert_eq!(least([4, 3, 3], 0), Least { worker: 1, load: 3 });
}

#[test]
fn a_watch_that_forgot_starts_over() {
    let (mut watch, snapshot) = (LifoSlotWatch::new(), SlotSnapshot { fiber: 7, picks: 1 });
    assert!(!watch.look(snapshot, 0));
    watch.forget();
    assert!(!watch.look(snapshot, SETTLED_NS));
    assert!(watch.look(snapshot, 2 * SETTLED_NS));
}
