//! All relevant orders, on one thread.

use super::*;
use crate::lock::testing::Tester;

const ME: Tester = Tester(1);
const BODY_WAITS: WaiterId = WaiterId::for_test(64);

fn enter(children: &Children<u32>, node: &Node<u32>) -> Entered {
    // SAFETY: the tests' nodes are in no list, and outlive the children.
    unsafe { children.enter(&ME, NonNull::from(node)) }
}

fn leave(children: &Children<u32>, node: &Node<u32>) -> Option<WaiterId> {
    // SAFETY: it has entered, and the tests let it leave once.
    unsafe { Children::leave(NonNull::from(children), &ME, NonNull::from(node), |_| false) }
}

#[test]
fn without_children_nothing_is_waited_for() {
    assert!(!Children::<u32>::new().wait(&ME, BODY_WAITS));
}

#[test]
fn children_that_end_before_the_body_are_not_waited_for() {
    let (children, first, second) = (Children::new(), Node::new(1), Node::new(2));
    for node in [&first, &second] {
        assert_eq!(enter(&children, node), Entered::Listed);
        assert_eq!(leave(&children, node), None);
    }
    assert!(!children.wait(&ME, BODY_WAITS));
}

#[test]
fn the_last_child_wakes_the_body() {
    let (children, first, second) = (Children::new(), Node::new(1), Node::new(2));
    assert_eq!(enter(&children, &first), Entered::Listed);
    assert!(children.wait(&ME, BODY_WAITS));
    assert_eq!(enter(&children, &second), Entered::Listed, "by the first child");
    assert_eq!(leave(&children, &first), None);
    assert_eq!(leave(&children, &second), Some(BODY_WAITS));
}

#[test]
fn a_call_reaches_each_child_once() {
    let (children, nodes) = (Children::new(), [1, 2, 3, 4].map(Node::new));
    for node in &nodes[..3] {
        assert_eq!(enter(&children, node), Entered::Listed);
    }
    assert_eq!(leave(&children, &nodes[1]), None);
    assert_eq!(children.call(&ME, |child| child), Some(1));
    assert_eq!(enter(&children, &nodes[3]), Entered::Called);
    assert_eq!(children.call(&ME, |child| child), Some(3));
    assert_eq!(children.call(&ME, |child| child), None);
    assert!(children.wait(&ME, BODY_WAITS));
    let left = [&nodes[0], &nodes[2], &nodes[3]].map(|node| leave(&children, node));
    assert_eq!(left, [None, None, Some(BODY_WAITS)]);
}
