//! Waiters of a condition against a plain list, and from any words.

use super::*;
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Enter(usize),
    Leave(usize),
    NotifyOne,
    NotifyAll,
    /// A new attachment takes the place of this attachment.
    Dies(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3usize).prop_map(Step::Enter),
        3 => (0..8usize).prop_map(Step::Leave),
        3 => Just(Step::NotifyOne),
        1 => Just(Step::NotifyAll),
        1 => (0..3usize).prop_map(Step::Dies),
    ];
    prop::collection::vec(step, 0..scaled(100))
}

/// A waiter, and whether it has been notified.
struct Waiter {
    holder: Holder,
    wait: CondvarWait,
    notified: bool,
}

proptest! {
    #[test]
    fn a_notification_wakes_one_live_waiter_and_those_without_an_entry(
        count in 0..4usize, steps in steps(),
    ) {
        let condvar = RobustCondvar::new();
        let entries: Vec<_> = (0..count).map(|_| CondvarEntry::new()).collect();
        let (mut actor, mut waiters) = ([1; 3], Vec::<Waiter>::new());
        for step in steps {
            let dead = |by: Holder| by.generation().get() != actor[usize::from(by.index())];
            match step {
                Step::Enter(index) => {
                    let holder = holder(index as u16, actor[index]);
                    let wait = condvar.enter(holder, &entries, dead);
                    let entered = waiters.iter().filter(|waiter| {
                        matches!(waiter.wait, CondvarWait::Entry(_))
                    });
                    let crowded = matches!(wait, CondvarWait::Crowd(_));
                    prop_assert_eq!(crowded, entered.count() == count);
                    waiters.push(Waiter { holder, wait, notified: false });
                }
                Step::Leave(at) => if at < waiters.len() {
                    let Waiter { holder, wait, notified } = waiters.remove(at);
                    prop_assert_eq!(condvar.leave(holder, &entries, wait), notified);
                },
                Step::NotifyOne => {
                    let entered = |waiter: &Waiter| matches!(waiter.wait, CondvarWait::Entry(_));
                    let waits = waiters.iter().any(|waiter| entered(waiter) && !waiter.notified);
                    condvar.notify_one(&entries, dead);
                    let mut woken = 0;
                    for waiter in &mut waiters {
                        let is = condvar.is_notified(waiter.holder, &entries, waiter.wait);
                        woken += usize::from(entered(waiter) && is && !waiter.notified);
                        prop_assert!(is || entered(waiter) && !waiter.notified);
                        waiter.notified = is;
                    }
                    prop_assert_eq!(woken, usize::from(waits));
                }
                Step::NotifyAll => {
                    condvar.notify_all(&entries);
                    waiters.iter_mut().for_each(|waiter| waiter.notified = true);
                }
                Step::Dies(index) => {
                    waiters.retain(|waiter| usize::from(waiter.holder.index()) != index);
                    actor[index] += 1;
                }
            }
            for Waiter { holder, wait, notified } in &waiters {
                prop_assert_eq!(condvar.is_notified(*holder, &entries, *wait), *notified);
            }
        }
    }

    #[test]
    fn from_any_words_on_each_wait_can_end(words: [u64; 3], each: [u64; 4], salt: u32) {
        let (condvar, entries) = (RobustCondvar::new(), [const { CondvarEntry::new() }; 4]);
        condvar.spoil(words);
        entries.iter().zip(each).for_each(|(entry, word)| entry.spoil(word));
        let me = holder(1, 1);
        let wait = condvar.enter(me, &entries, dead(salt));
        condvar.notify_one(&entries, dead(salt));
        condvar.notify_all(&entries);
        // A peer may have hidden the entry, so that the waiter is not found.
        let _ = condvar.leave(me, &entries, wait);
        prop_assert!(condvar.is_notified(me, &entries, wait));
    }
}

#[test]
fn waiters_are_notified_in_turn() {
    let (condvar, entries) = (RobustCondvar::new(), [const { CondvarEntry::new() }; 3]);
    let me = holder(1, 1);
    let enter = || condvar.enter(me, &entries, NONE_DEAD);
    let [first, second] = [enter(), enter()];
    condvar.notify_one(&entries, NONE_DEAD);
    assert!(condvar.leave(me, &entries, first));
    // It takes the first entry again, and is behind the second waiter.
    let again = enter();
    condvar.notify_one(&entries, NONE_DEAD);
    assert!(!condvar.leave(me, &entries, again) && condvar.leave(me, &entries, second));
}
