use super::*;
use crate::lock::testing::Tester;
use crate::mutex::{Acquire, Arrival, note};
use crate::wait::NodeState;

const BY: Tester = Tester(1);

/// Makes `nodes` wait for the condition, one after the other, with a mutex that is then free.
fn waiting(condvar: &RawCondvar<u32>, mutex: &RawMutex<u32>, nodes: &[Node<u32>]) {
    for node in nodes {
        assert!(mutex.try_acquire());
        assert_eq!(wait(condvar, mutex, node), Ok(None));
    }
}

fn wait(
    condvar: &RawCondvar<u32>,
    mutex: &RawMutex<u32>,
    node: &Node<u32>,
) -> Result<Option<u32>, OtherMutex> {
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again,
    // and the mutex lives as long.
    unsafe { condvar.wait(&BY, mutex, NonNull::from(node), None, |_| false) }
}

/// Waits as `wait` does, and hands the mutex off to the waiter of `next`.
fn wait_before(
    condvar: &RawCondvar<u32>,
    mutex: &RawMutex<u32>,
    node: &Node<u32>,
    next: &Node<u32>,
) -> Result<Option<u32>, OtherMutex> {
    // SAFETY: as in `wait`; the waiter of `next` is claimed, and its note read on this thread.
    unsafe { condvar.wait(&BY, mutex, NonNull::from(node), Some(NonNull::from(next)), |_| false) }
}

fn leave(condvar: &RawCondvar<u32>, node: &Node<u32>) -> Unlinked {
    // SAFETY: alive, and it waits for this condition.
    unsafe { condvar.leave(&BY, NonNull::from(node)) }
}

fn states<const N: usize>(nodes: &[Node<u32>; N]) -> [NodeState; N] {
    nodes.each_ref().map(Node::state)
}

#[test]
fn a_notification_without_a_waiter_is_not_kept() {
    let (condvar, mutex, nodes) = (RawCondvar::new(), RawMutex::new(), [Node::new(7)]);
    assert!(condvar.is_empty());
    assert_eq!(condvar.notify(&BY, 1, |_, _| ()), None);
    waiting(&condvar, &mutex, &nodes);
    assert!(!condvar.is_empty() && !mutex.is_locked());
    assert_eq!(states(&nodes), [NodeState::Queued]);
}

#[test]
fn one_of_all_is_woken_while_the_mutex_is_free_and_the_others_follow_it() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8), Node::new(9)];
    waiting(&condvar, &mutex, &nodes);
    assert_eq!(condvar.notify(&BY, usize::MAX, |_, _| ()), Some(7));
    assert!(condvar.is_empty());
    let moved = [NodeState::Claimed(note::WOKEN), NodeState::Moved, NodeState::Moved];
    assert_eq!(states(&nodes), moved);
    for (node, next) in nodes.iter().zip([Some(8), Some(9), None]) {
        assert_eq!(node.state(), NodeState::Claimed(note::WOKEN));
        // SAFETY: claimed, so in no queue.
        let acquire = unsafe { mutex.acquire(&BY, NonNull::from(node), Arrival::Woken) };
        assert_eq!(acquire, Acquire::Acquired);
        assert_eq!(mutex.release(&BY), next);
    }
    assert!(mutex.try_acquire(), "nothing is left behind");
}

#[test]
fn no_waiter_is_woken_while_the_mutex_is_held() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8)];
    waiting(&condvar, &mutex, &nodes);
    assert!(mutex.try_acquire());
    assert_eq!(condvar.notify(&BY, 1, |_, _| ()), None);
    assert_eq!(states(&nodes), [NodeState::Moved, NodeState::Queued]);
    assert_eq!(mutex.release(&BY), Some(7));
}

#[test]
fn a_waiter_frees_the_mutex_for_the_first_in_line() {
    let (condvar, mutex, nodes) =
        (RawCondvar::new(), RawMutex::new(), [Node::new(7), Node::new(8)]);
    assert!(mutex.try_acquire());
    // SAFETY: in no queue, and claimed below.
    let acquire = unsafe { mutex.acquire(&BY, NonNull::from(&nodes[0]), Arrival::New) };
    assert_eq!(acquire, Acquire::Queued);
    assert_eq!(wait(&condvar, &mutex, &nodes[1]), Ok(Some(7)));
    assert_eq!(states(&nodes), [NodeState::Claimed(note::WOKEN), NodeState::Queued]);
}

#[test]
fn the_next_to_run_inherits_the_mutex_of_the_waiter() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8)];
    waiting(&condvar, &mutex, &nodes[..1]);
    assert!(mutex.try_acquire());
    assert_eq!(condvar.notify_one(&BY, |_, _, _| true, |_, _| ()), Some(7));
    assert_eq!(nodes[0].state(), NodeState::Claimed(note::NOTIFIED));
    assert_eq!(wait_before(&condvar, &mutex, &nodes[1], &nodes[0]), Ok(None));
    assert_eq!(nodes[0].state(), NodeState::Claimed(note::HANDED_OVER));
    assert!(mutex.is_locked());
    assert_eq!(condvar.give_way(&BY, &mutex, note::HANDED_OVER), [None, Some(8)]);
    assert!(!mutex.is_locked());
}

#[test]
fn the_next_to_run_does_not_inherit_a_contended_mutex() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8), Node::new(9)];
    waiting(&condvar, &mutex, &nodes[..1]);
    assert!(mutex.try_acquire());
    assert_eq!(condvar.notify_one(&BY, |_, _, _| true, |_, _| ()), Some(7));
    // SAFETY: in no queue, and claimed below.
    let acquire = unsafe { mutex.acquire(&BY, NonNull::from(&nodes[2]), Arrival::New) };
    assert_eq!(acquire, Acquire::Queued);
    assert_eq!(wait_before(&condvar, &mutex, &nodes[1], &nodes[0]), Ok(Some(9)));
    assert_eq!(nodes[0].state(), NodeState::Claimed(note::NOTIFIED));
}

#[test]
fn a_waiter_leaves_or_is_notified() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8)];
    waiting(&condvar, &mutex, &nodes);
    assert_eq!(leave(&condvar, &nodes[0]), Unlinked::Mine);
    assert!(mutex.try_acquire());
    assert_eq!(condvar.notify(&BY, 1, |_, _| ()), None);
    assert_eq!(leave(&condvar, &nodes[1]), Unlinked::AlreadyGone);
    assert_eq!(mutex.release(&BY), Some(8));
    assert_eq!(leave(&condvar, &nodes[1]), Unlinked::AlreadyGone);
}

#[test]
fn a_waiter_that_gives_way_passes_the_notification_on() {
    let (condvar, mutex) = (RawCondvar::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8), Node::new(9)];
    waiting(&condvar, &mutex, &nodes);
    assert_eq!(condvar.notify(&BY, 1, |_, _| ()), Some(7));
    assert_eq!(condvar.give_way(&BY, &mutex, note::WOKEN), [None, Some(8)]);
    assert_eq!(nodes[2].state(), NodeState::Queued);
}

#[test]
fn a_condition_has_one_mutex_at_a_time() {
    let (condvar, mutexes) = (RawCondvar::new(), [RawMutex::new(), RawMutex::new()]);
    let nodes = [Node::new(7), Node::new(8)];
    waiting(&condvar, &mutexes[0], &nodes[..1]);
    assert!(mutexes[1].try_acquire());
    assert_eq!(wait(&condvar, &mutexes[1], &nodes[1]), Err(OtherMutex));
    assert!(mutexes[1].is_locked() && nodes[1].state() == NodeState::Out);
    assert_eq!(condvar.notify(&BY, 1, |_, _| ()), Some(7));
    assert_eq!(wait(&condvar, &mutexes[1], &nodes[1]), Ok(None));
}

#[test]
fn a_notified_waiter_that_gives_way_leaves_the_mutex_alone() {
    let (condvar, mutex) = (RawCondvar::<u32>::new(), RawMutex::new());
    let nodes = [Node::new(7), Node::new(8)];
    assert!(mutex.try_acquire());
    for node in &nodes {
        // SAFETY: in no queue, and it ends in one that is not used again, or claimed.
        let acquire = unsafe { mutex.acquire(&BY, NonNull::from(node), Arrival::New) };
        assert_eq!(acquire, Acquire::Queued);
    }
    assert_eq!(mutex.release(&BY), Some(7));
    assert!(mutex.try_acquire(), "ahead of the woken waiter");
    assert_eq!(condvar.give_way(&BY, &mutex, note::NOTIFIED), [None, None]);
    assert_eq!(mutex.release(&BY), None, "a waiter is on its way");
}
