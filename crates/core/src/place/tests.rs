//! Properties of placement, over arbitrary loads and looks.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Workers that accept no fibers start those that come to them by other ways.
    #[test]
    fn starting_again_and_again_never_exceeds_the_slack(
        mut loads in prop::collection::vec(0u32..2000, 1..9),
        starters in prop::collection::vec(any::<prop::sample::Index>(), 1..400),
        accepts in prop::collection::vec(any::<bool>(), 9),
    ) {
        let before = loads.clone();
        for starter in starters {
            let me = starter.index(loads.len());
            let accepted = accepted(&loads, &accepts);
            let worker = match start(loads[me], accepted, me) {
                StartPlace::Here => me,
                StartPlace::To(worker) => worker,
            };
            loads[worker] += 1;
        }
        let min = accepted(&loads, &accepts).into_iter().flatten().min();
        for (load, before) in loads.iter().zip(before) {
            let slack = min.map(|min| min + IMBALANCE_FLOOR.max(min / 4) + 1);
            prop_assert!(*load == before || slack.is_none_or(|most| *load <= most));
        }
    }

    #[test]
    fn a_fiber_sent_away_goes_to_a_least_loaded_other_that_accepts_it(
        loads in prop::collection::vec(0u32..1000, 1..9), me in any::<prop::sample::Index>(),
        accepts in prop::collection::vec(any::<bool>(), 9),
    ) {
        let me = me.index(loads.len());
        let accepted = accepted(&loads, &accepts);
        let min = accepted.iter().flatten().min().copied();
        match start(loads[me], accepted, me) {
            StartPlace::Here => {
                prop_assert!(min.is_none_or(|min| loads[me].saturating_sub(min) <= 250));
            }
            StartPlace::To(worker) => {
                prop_assert_ne!(worker, me);
                prop_assert!(accepts[worker]);
                prop_assert_eq!(Some(loads[worker]), min);
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

/// Returns the loads of the workers that accept fibers.
fn accepted(loads: &[u32], accepts: &[bool]) -> Vec<Option<u32>> {
    loads.iter().zip(accepts).map(|(load, accepts)| accepts.then_some(*load)).collect()
}

#[test]
fn the_least_loaded_worker_is_oneself_on_a_tie() {
    assert_eq!(least([(0, 3), (1, 3), (2, 3)], 1), Some(Least { worker: 1, load: 3 }));
    assert_eq!(least([(0, 4), (1, 3), (2, 3)], 0), Some(Least { worker: 1, load: 3 }));
}

#[test]
fn a_worker_that_accepts_no_fibers_is_not_the_least_loaded() {
    assert_eq!(least([(1, 7), (2, 9)], 0), Some(Least { worker: 1, load: 7 }));
    assert_eq!(least([], 0), None);
}

#[test]
fn without_a_worker_that_accepts_fibers_each_keeps_its_own() {
    assert_eq!(start(u32::MAX, [None, None], 0), StartPlace::Here);
    // One that accepts none sends its own away as any other worker does.
    assert_eq!(start(65, [None, Some(0)], 0), StartPlace::To(1));
}

#[test]
fn a_watch_that_forgot_starts_over() {
    let (mut watch, snapshot) = (LifoSlotWatch::new(), SlotSnapshot { fiber: 7, picks: 1 });
    assert!(!watch.look(snapshot, 0));
    watch.forget();
    assert!(!watch.look(snapshot, SETTLED_NS));
    assert!(watch.look(snapshot, 2 * SETTLED_NS));
}
