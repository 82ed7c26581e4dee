//! The vectors that all implementations share, and properties over arbitrary wake-ups.

use proptest::prelude::*;

use super::*;

#[test]
fn the_shared_vectors_hold() {
    let (mut tasks, mut wakes) = (0, 0);
    let (mut bound, mut task, mut swaps) = (None, Follow::new(), Swaps::new());
    for line in include_str!("vectors.txt").lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [] | ["#", ..] => {}
            ["task", _, ref policy @ ..] => {
                (task, swaps, tasks) = (Follow::new(), Swaps::new(), tasks + 1);
                bound = match policy {
                    ["existing"] => None,
                    ["follow", bound] => Some(bound.parse().unwrap()),
                    _ => panic!("{line}"),
                };
            }
            [waker, previous, idle, chosen, ref swap @ ..] => {
                let [waker, previous, chosen] =
                    [waker, previous, chosen].map(|cpu| cpu.parse().unwrap());
                let idle = u128::from_str_radix(idle, 16).unwrap();
                let before = || existing(waker, previous, idle);
                let target = match bound {
                    None => before(),
                    Some(bound) => task.place(waker, previous, bound, before),
                };
                assert_eq!(target, chosen, "{line}");
                assert_eq!(swaps.is_swap(waker, previous, chosen), *swap == ["swap"], "{line}");
                wakes += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(tasks >= 10 && wakes >= 40, "{tasks} tasks, {wakes} wake-ups");
}

proptest! {
    #[test]
    fn the_chosen_cpu_is_idle_if_any_is(waker in 0u16..128, previous in 0u16..128, idle: u128) {
        let chosen = existing(waker, previous, idle);
        let is_idle = |cpu| idle >> cpu & 1 != 0;
        prop_assert!(is_idle(chosen) || (idle == 0 && chosen == waker));
        if chosen != waker {
            prop_assert!(!is_idle(waker));
            prop_assert!(chosen == previous || !is_idle(previous));
        }
    }

    /// Compares with the rule in words: a task that has moved stays for `bound` wake-ups, or until
    /// after the first wake-up at home.
    #[test]
    fn a_task_that_has_moved_stays_until_it_was_followed_or_the_bound_is_reached(
        bound in 0u8..6,
        wakes in prop::collection::vec((0u16..4, 0u128..16, prop::option::weighted(0.1, 0u16..4)), 1..200),
    ) {
        let (mut task, mut at) = (Follow::new(), 0);
        let mut since_move: Option<Vec<bool>> = None;
        for (waker, idle, balanced) in wakes {
            if let Some(to) = balanced && to != at && since_move.is_some() {
                (at, since_move) = (to, Some(Vec::new()));
            }
            let free = match &since_move {
                None => true,
                Some(followed) => followed.len() >= bound.into() || followed.contains(&true),
            };
            let target = task.place(waker, at, bound, || existing(waker, at, idle));
            prop_assert_eq!(target, if free { existing(waker, at, idle) } else { at });
            if target != at {
                since_move = Some(Vec::new());
            } else {
                since_move.get_or_insert_with(|| vec![true]).push(waker == at);
            }
            at = target;
        }
    }
}
