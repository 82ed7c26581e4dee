use super::*;
use crate::lock::testing::Tester;
use crate::wait::NodeState;

const BY: Tester = Tester(1);

/// Makes a lock that is held, with a node of waiter 7 in its queue.
fn contended(mutex: &RawMutex<u32>, node: &Node<u32>) {
    assert!(mutex.try_acquire());
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again.
    let acquire = unsafe { mutex.acquire(&BY, NonNull::from(node), Arrival::New) };
    assert_eq!(acquire, Acquire::Queued);
}

/// Releases the lock by the fast path. Like a weak exchange it may fail spuriously, but not each
/// time.
fn is_released_fast(mutex: &RawMutex<u32>) -> bool {
    (0..64).any(|_| mutex.release_fast())
}

/// Takes the lock by the fast path, likewise.
fn is_acquired_fast(mutex: &RawMutex<u32>) -> bool {
    (0..64).any(|_| mutex.acquire_fast().is_ok())
}

fn ask(mutex: &RawMutex<u32>, node: &Node<u32>, arrival: Arrival) -> Acquire {
    // SAFETY: claimed, so in no queue.
    unsafe { mutex.acquire(&BY, NonNull::from(node), arrival) }
}

#[test]
fn a_lock_is_one_holders() {
    let mutex = RawMutex::<u32>::new();
    assert!(mutex.try_acquire() && mutex.is_locked());
    assert!(!mutex.try_acquire() && !mutex.try_acquire_soon());
    assert!(is_released_fast(&mutex) && !mutex.is_locked());
    assert!(is_acquired_fast(&mutex) && mutex.is_locked() && !is_acquired_fast(&mutex));
    assert!(is_released_fast(&mutex) && mutex.try_acquire_soon());
}

#[test]
fn a_lock_that_was_not_taken_fast_is_taken_as_it_was_seen() {
    let (mutex, node) = (RawMutex::new(), Node::new(7));
    contended(&mutex, &node);
    let held = mutex.acquire_fast().unwrap_err();
    assert!(!mutex.try_acquire_seen(held));
    assert_eq!(mutex.release(&BY), Some(7));
    let waking = mutex.acquire_fast().unwrap_err();
    assert!(!mutex.try_acquire_seen(held), "it was held then");
    assert!(mutex.try_acquire_seen(waking) && !mutex.try_acquire_seen(waking), "it is held now");
}

#[test]
fn a_woken_waiter_gets_the_lock_after_so_many_bargers() {
    let (mutex, node) = (RawMutex::new(), Node::new(7));
    contended(&mutex, &node);
    assert!(!is_released_fast(&mutex), "there is a waiter");
    assert_eq!(mutex.release(&BY), Some(7));
    assert_eq!(node.state(), NodeState::Claimed(note::WOKEN));
    for barged in 0..=MOST_BARGED {
        assert!(mutex.try_acquire(), "{barged} have barged");
        assert_eq!(mutex.release(&BY), None, "a waiter is on its way already");
    }
    assert!(!mutex.try_acquire() && !mutex.try_acquire_soon(), "one too many");
    assert_eq!(ask(&mutex, &node, Arrival::Woken), Acquire::Acquired);
    assert!(is_released_fast(&mutex), "nothing is left behind");
}

#[test]
fn a_woken_waiter_that_was_passed_on_its_way_is_first_again() {
    let (mutex, first, behind) = (RawMutex::new(), Node::new(7), Node::new(8));
    contended(&mutex, &first);
    assert_eq!(ask(&mutex, &behind, Arrival::New), Acquire::Queued);
    assert_eq!(mutex.release(&BY), Some(7));
    assert!(mutex.try_acquire());
    assert_eq!(ask(&mutex, &first, Arrival::Woken), Acquire::Queued);
    assert_eq!(mutex.release(&BY), Some(7), "before the waiter that came later");
}

#[test]
fn a_late_waiter_is_handed_the_lock() {
    let (mutex, node) = (RawMutex::new(), Node::new(7));
    contended(&mutex, &node);
    assert_eq!(mutex.release(&BY), Some(7));
    assert!(mutex.try_acquire());
    let behind = Node::new(8);
    assert_eq!(ask(&mutex, &behind, Arrival::New), Acquire::Queued);
    assert_eq!(ask(&mutex, &node, Arrival::Late), Acquire::Queued);
    assert_eq!(mutex.release(&BY), Some(7), "before the waiter that came later");
    assert_eq!(node.state(), NodeState::Claimed(note::HANDED_OVER));
    assert!(mutex.is_locked() && !mutex.try_acquire());
    assert_eq!(mutex.release(&BY), Some(8));
    assert_eq!(behind.state(), NodeState::Claimed(note::WOKEN));
}

#[test]
fn the_next_to_run_is_handed_the_lock_by_a_waiter_for_a_condition() {
    let (mutex, node) = (RawMutex::new(), Node::new(7));
    contended(&mutex, &node);
    assert_eq!(mutex.release_and_leave(&BY, |waiter| waiter == 7), Some(7));
    assert_eq!(node.state(), NodeState::Claimed(note::HANDED_OVER));
    assert!(mutex.is_locked() && is_released_fast(&mutex));
    contended(&mutex, &node);
    assert_eq!(mutex.release_and_leave(&BY, |waiter| waiter != 7), Some(7));
    assert_eq!(node.state(), NodeState::Claimed(note::WOKEN));
}

#[test]
fn the_last_waiter_that_leaves_restores_the_fast_path() {
    let (mutex, node) = (RawMutex::new(), Node::new(7));
    contended(&mutex, &node);
    // SAFETY: alive, and queued here.
    assert_eq!(unsafe { mutex.leave(&BY, NonNull::from(&node)) }, Unlinked::Mine);
    assert!(is_released_fast(&mutex));
}

#[test]
fn a_waiter_that_gives_way_wakes_the_next() {
    let (mutex, nodes) = (RawMutex::new(), [Node::new(7), Node::new(8)]);
    contended(&mutex, &nodes[0]);
    assert_eq!(ask(&mutex, &nodes[1], Arrival::New), Acquire::Queued);
    assert_eq!(mutex.release(&BY), Some(7));
    assert_eq!(mutex.give_way(&BY, note::WOKEN), Some(8));
    assert_eq!(ask(&mutex, &nodes[1], Arrival::Woken), Acquire::Acquired);
    assert!(is_released_fast(&mutex));
}

#[test]
fn no_step_but_its_own_changes_the_poison_of_a_word() {
    // Every combination of the flags, without and with waiters that were overtaken.
    let words =
        (0..1 << 6).flat_map(|flags| [0, 1, MOST_BARGED].map(|n| MutexWord(flags | n << 8)));
    for word in words {
        let arrivals = [Arrival::New, Arrival::Woken, Arrival::Late];
        let released = [Released::Free, Released::Waking, Released::HandedOver];
        let steps =
            [Some(word.locked()), Some(word.without_waking()), word.waking(), word.released()]
                .into_iter()
                .chain(arrivals.map(|arrival| word.taken(arrival)))
                .chain(arrivals.map(|arrival| Some(word.announced(arrival))))
                .chain(released.into_iter().flat_map(|released| {
                    [false, true].map(|queued| Some(word.released_to(released, queued)))
                }));
        for (step, next) in steps.enumerate() {
            let kept = next.is_none_or(|next| next.is_poisoned() == word.is_poisoned());
            assert!(kept, "step {step} turns {word:?} into {next:?}");
        }
    }
}

#[test]
fn a_lock_that_waiters_take_over_remembers_a_panic() {
    let (mutex, nodes) = (RawMutex::new(), [Node::new(7), Node::new(8)]);
    contended(&mutex, &nodes[0]);
    assert_eq!(ask(&mutex, &nodes[1], Arrival::New), Acquire::Queued);
    mutex.poison();
    assert_eq!(mutex.release(&BY), Some(7), "it is woken");
    assert!(mutex.is_poisoned());
    assert_eq!(ask(&mutex, &nodes[0], Arrival::Woken), Acquire::Acquired);
    assert_eq!(mutex.release_and_leave(&BY, |_| true), Some(8), "the lock is handed over to it");
    assert!(mutex.is_poisoned() && mutex.is_locked());
    assert_eq!(mutex.release(&BY), None);
    assert!(mutex.is_poisoned() && !mutex.is_locked());
}

#[test]
fn a_lock_remembers_a_panic_until_told_otherwise() {
    let mutex = RawMutex::<u32>::new();
    assert!(mutex.try_acquire());
    mutex.poison();
    assert_eq!(mutex.release(&BY), None);
    assert!(mutex.is_poisoned() && !is_acquired_fast(&mutex) && mutex.try_acquire());
    mutex.clear_poison(&BY);
    assert!(is_released_fast(&mutex) && !mutex.is_poisoned());
}
