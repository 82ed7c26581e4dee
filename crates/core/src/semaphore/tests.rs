use super::*;
use crate::lock::testing::Tester;
use crate::wait::NodeState;

const BY: Tester = Tester(1);

fn node(waiter: u32, permits: u32) -> Node<Request<u32>> {
    Node::new(Request { waiter, permits })
}

/// Returns the waiter that is served.
fn serve(semaphore: &RawSemaphore<u32>) -> Option<u32> {
    semaphore.serve(&BY).map(|request| request.waiter)
}

fn acquire(semaphore: &RawSemaphore<u32>, node: &Node<Request<u32>>) -> bool {
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again.
    unsafe { semaphore.acquire(&BY, NonNull::from(node)) }
}

#[test]
fn permits_are_counted() {
    let semaphore = RawSemaphore::<u32>::new(3);
    assert!(semaphore.try_acquire(2) && !semaphore.try_acquire(2) && semaphore.try_acquire(1));
    assert_eq!(semaphore.available(), 0);
    assert_eq!(semaphore.release_fast(3), Ok(true));
    assert_eq!(semaphore.available(), 3);
}

#[test]
fn no_waiter_is_overtaken() {
    let (semaphore, nodes) = (RawSemaphore::new(1), [node(7, 2), node(8, 1)]);
    assert!(!acquire(&semaphore, &nodes[0]));
    assert!(!semaphore.try_acquire(1), "behind the waiter for two");
    assert!(!acquire(&semaphore, &nodes[1]));
    assert_eq!(semaphore.release_fast(1), Ok(false));
    semaphore.release(&BY, 1).unwrap();
    assert_eq!(serve(&semaphore), Some(7));
    assert_eq!(serve(&semaphore), None);
    assert_eq!(nodes.each_ref().map(Node::state), [NodeState::Claimed(0), NodeState::Queued]);
    semaphore.release(&BY, 2).unwrap();
    assert_eq!([serve(&semaphore), serve(&semaphore)], [Some(8), None]);
    assert!(semaphore.try_acquire(1), "no waiter is left");
}

#[test]
fn waiters_behind_a_leaving_waiter_are_served() {
    let (semaphore, nodes) = (RawSemaphore::new(1), [node(7, 2), node(8, 1)]);
    assert!(!acquire(&semaphore, &nodes[0]) && !acquire(&semaphore, &nodes[1]));
    // SAFETY: alive, and queued here.
    assert_eq!(unsafe { semaphore.leave(&BY, NonNull::from(&nodes[0])) }, Unlinked::Mine);
    assert_eq!([serve(&semaphore), serve(&semaphore)], [Some(8), None]);
    assert_eq!(semaphore.release_fast(1), Ok(true));
}

#[test]
fn too_many_permits_change_nothing() {
    let semaphore = RawSemaphore::<u32>::new(MAX_PERMITS);
    assert_eq!(semaphore.release_fast(1), Err(Overflow));
    assert_eq!(semaphore.release(&BY, u32::MAX), Err(Overflow));
    assert_eq!(semaphore.available(), MAX_PERMITS);
}
