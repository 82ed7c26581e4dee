use super::*;
use crate::lock::testing::Tester;
use crate::wait::NodeState;

const BY: Tester = Tester(1);

fn pass(event: &RawEvent<u32>, node: &Node<u32>) -> bool {
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again.
    unsafe { event.pass(&BY, NonNull::from(node)) }
}

fn set(event: &RawEvent<u32>) -> Vec<u32> {
    if event.set_fast() { Vec::new() } else { event.set(&BY).collect() }
}

#[test]
fn a_manual_event_stays_set_until_it_is_reset() {
    let (event, nodes) = (RawEvent::manual(), [7, 8].map(Node::new));
    assert!(!event.try_pass() && !pass(&event, &nodes[0]) && !pass(&event, &nodes[1]));
    assert_eq!(set(&event), [7, 8]);
    assert_eq!(nodes.each_ref().map(Node::state), [NodeState::Claimed(0); 2]);
    assert!(event.try_pass() && event.try_pass() && event.is_set());
    assert!(pass(&event, &nodes[0]), "without waiting");
    event.reset();
    assert!(!event.try_pass() && !event.is_set() && !event.is_auto());
}

#[test]
fn an_automatic_event_lets_one_go() {
    let (event, nodes) = (RawEvent::auto(), [7, 8].map(Node::new));
    assert!(!pass(&event, &nodes[0]) && !pass(&event, &nodes[1]));
    assert_eq!(
        [set(&event), set(&event), set(&event), set(&event)],
        [vec![7], vec![8], vec![], vec![]]
    );
    assert!(event.is_set() && event.try_pass() && !event.try_pass() && event.is_auto());
}

#[test]
fn a_waiter_that_left_is_not_served() {
    for event in [RawEvent::manual(), RawEvent::auto()] {
        let nodes = [7, 8].map(Node::new);
        assert!(!pass(&event, &nodes[0]) && !pass(&event, &nodes[1]));
        for node in &nodes {
            assert!(!event.set_fast(), "there is a waiter");
            event.reset();
            // SAFETY: alive, and queued here.
            assert_eq!(unsafe { event.leave(&BY, NonNull::from(node)) }, Unlinked::Mine);
        }
        assert!(event.set_fast() && event.is_set());
    }
}

#[test]
fn a_set_is_kept_though_its_waiter_left_before_the_look_into_the_queue() {
    let (event, node) = (RawEvent::auto(), Node::new(7));
    assert!(!pass(&event, &node) && !event.set_fast());
    // SAFETY: alive, and queued here.
    assert_eq!(unsafe { event.leave(&BY, NonNull::from(&node)) }, Unlinked::Mine);
    assert_eq!(event.set(&BY).count(), 0);
    assert!(event.is_set());
}
