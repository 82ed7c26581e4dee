//! Permits against a plain count, and from any words.

use super::*;
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Acquire(usize),
    GiveBack(usize),
    HandOver(usize, usize),
    Forget(usize),
    Adopt(usize),
    Add,
    /// A new attachment takes the place of this attachment.
    Dies(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3usize).prop_map(Step::Acquire),
        2 => (0..3usize).prop_map(Step::GiveBack),
        1 => (0..3usize, 0..3usize).prop_map(|(from, to)| Step::HandOver(from, to)),
        1 => (0..3usize).prop_map(Step::Forget),
        1 => (0..3usize).prop_map(Step::Adopt),
        1 => Just(Step::Add),
        1 => (0..3usize).prop_map(Step::Dies),
    ];
    prop::collection::vec(step, 0..scaled(100))
}

proptest! {
    #[test]
    fn each_permit_is_free_or_somebodys_or_away(count in 1..6usize, steps in steps()) {
        let semaphore = RobustSemaphore::new();
        let permits: Vec<_> = (0..count).map(|_| RobustPermit::new()).collect();
        let mut actor = [1; 3];
        let (mut held, mut away) = ([const { Vec::new() }; 3], Vec::new());
        for step in steps {
            let me = |index: usize| holder(index as u16, actor[index]);
            match step {
                Step::Acquire(index) => {
                    let dead = |by: Holder| by.generation().get() != actor[usize::from(by.index())];
                    let taken: usize = held.iter().map(Vec::len).sum::<usize>() + away.len();
                    match semaphore.try_acquire(me(index), &permits, index, dead) {
                        Acquire::Acquired(permit) => held[index].push(permit),
                        Acquire::Exhausted(_) => prop_assert_eq!(taken, count),
                    }
                }
                Step::GiveBack(index) => if let Some(permit) = held[index].pop() {
                    prop_assert!(semaphore.give_back(me(index), &permits, permit));
                },
                Step::HandOver(from, to) => if let Some(permit) = held[from].pop() {
                    prop_assert!(semaphore.hand_over(me(from), &permits, permit, me(to)));
                    held[to].push(permit);
                },
                Step::Forget(index) => if let Some(permit) = held[index].pop() {
                    prop_assert!(semaphore.forget(me(index), &permits, permit));
                    away.push(permit);
                },
                Step::Adopt(index) => if let Some(permit) = away.pop() {
                    prop_assert!(semaphore.adopt(me(index), &permits, permit));
                    held[index].push(permit);
                },
                Step::Add => if let Some(permit) = away.pop() {
                    prop_assert!(semaphore.add(&permits, permit));
                },
                Step::Dies(index) => {
                    let dead = me(index);
                    if index == 0 {
                        (0..2).for_each(|_| semaphore.sweep(&permits, dead));
                    }
                    held[index].clear();
                    actor[index] += 1;
                }
            }
            let mut all: Vec<_> = held.iter().flatten().chain(&away).collect();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), held.iter().map(Vec::len).sum::<usize>() + away.len());
        }
    }

    #[test]
    fn with_any_words_each_permit_is_held_once(words: Vec<u64>, first: usize, salt: u32) {
        let semaphore = RobustSemaphore::new();
        let permits: Vec<_> = words.iter().map(|_| RobustPermit::new()).collect();
        permits.iter().zip(&words).for_each(|(permit, &word)| permit.spoil(word));
        // An attachment that no word may name, according to `dead`.
        let me = holder(1, 1);
        let dead = |by: Holder| by != me && dead(salt)(by);
        let mut had = 0;
        while let Acquire::Acquired(permit) = semaphore.try_acquire(me, &permits, first, dead) {
            prop_assert_eq!(permits[permit].holder(), Some(me));
            had += 1;
            prop_assert!(had <= permits.len());
        }
        prop_assert!(permits.iter().all(|permit| !permit.is_free()));
    }
}

#[test]
fn a_message_may_name_no_permit() {
    let (semaphore, permits, me) = (RobustSemaphore::new(), [RobustPermit::new()], holder(0, 1));
    assert!(!semaphore.adopt(me, &permits, 0) && !semaphore.add(&permits, 0));
    assert!(!semaphore.adopt(me, &permits, 1) && !semaphore.add(&permits, usize::MAX));
    assert!(!semaphore.give_back(me, &permits, 0) && !semaphore.forget(me, &permits, 7));
}

#[test]
fn a_sweep_reports_itself_though_it_found_nothing() {
    let (semaphore, permits, me) = (RobustSemaphore::new(), [], holder(0, 1));
    let Acquire::Exhausted(seen) = semaphore.try_acquire(me, &permits, 9, NONE_DEAD) else {
        panic!()
    };
    assert!(!semaphore.has_changed(seen));
    semaphore.sweep(&permits, holder(1, 1));
    assert!(semaphore.has_changed(seen));
}
