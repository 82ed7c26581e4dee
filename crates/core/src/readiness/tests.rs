//! Readers of a simple kernel, which reports edges, against a plain account of the word; and cases.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::lock::testing::Tester;
use crate::testing::scaled;
use crate::wait::NodeState;

const BY: Tester = Tester(1);
const READERS: usize = 4;

/// The state of the kernel, with changes that it has not reported yet.
#[derive(Default)]
struct Kernel {
    items: u32,
    /// True if there is an end behind the items: calls find it, and never nothing.
    ended: bool,
    /// True if there is a change that was not reported. Several are reported as one.
    edge: bool,
    /// True if the descriptor closes, and that was not reported.
    closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The call has found nothing.
    Nothing,
    /// The call has taken less than it asked for.
    NothingMore,
    Something,
}

impl Kernel {
    fn call(&mut self, most: u32) -> Left {
        let taken = most.min(self.items);
        self.items -= taken;
        match taken {
            0 if !self.ended => Left::Nothing,
            _ if taken < most => Left::NothingMore,
            _ => Left::Something,
        }
    }

    fn finds(&self) -> bool {
        self.items > 0 || self.ended
    }
}

#[derive(Clone, Default)]
struct Account {
    edges: u64,
    drained: bool,
    closed: bool,
    line: VecDeque<usize>,
}

/// The place of a reader between two of its steps. `owes`: it was claimed, and has not found the
/// descriptor drained.
#[derive(Clone, Copy, Debug)]
enum At {
    Elsewhere,
    Called { left: Left, seen: SeenReadiness, edges: u64, owes: bool },
    Looks { seen: SeenReadiness, edges: u64, owes: bool },
    Drained { seen: SeenReadiness, edges: u64 },
    Owes,
    Queued,
    Claimed,
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32),
    Close { ends: bool },
    Report,
    WakeAll,
    Run { reader: usize, most: u32 },
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..4).prop_map(Step::Put),
        1 => any::<bool>().prop_map(|ends| Step::Close { ends }),
        6 => Just(Step::Report),
        1 => Just(Step::WakeAll),
        40 => (0..READERS, 1u32..4).prop_map(|(reader, most)| Step::Run { reader, most }),
        2 => (0..READERS).prop_map(Step::Leave),
    ]
}

struct World {
    kernel: Kernel,
    readiness: RawReadiness<usize>,
    account: Account,
    nodes: Vec<Node<usize>>,
    readers: [At; READERS],
}

impl World {
    fn new() -> Self {
        World {
            kernel: Kernel::default(),
            readiness: RawReadiness::new(),
            account: Account::default(),
            nodes: (0..READERS).map(Node::new).collect(),
            readers: [At::Elsewhere; READERS],
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put(items) => {
                self.kernel.items += items;
                self.kernel.edge = true;
            }
            Step::Close { ends } => {
                self.kernel.ended |= ends;
                self.kernel.closes = true;
            }
            Step::Report => self.report(),
            Step::WakeAll => {
                let woken = self.readiness.wake_all(&BY).collect();
                self.counted(false, READERS, woken);
            }
            Step::Run { reader, most } => self.readers[reader] = self.run(reader, most),
            Step::Leave(reader) => self.leave(reader),
        }
    }

    fn report(&mut self) {
        let Kernel { edge, closes, .. } = self.kernel;
        if edge || closes {
            (self.kernel.edge, self.kernel.closes) = (false, false);
            let woken = self.readiness.signal(&BY, closes).collect();
            self.counted(closes, if closes { READERS } else { 1 }, woken);
        }
    }

    fn counted(&mut self, closed: bool, most: usize, woken: Vec<usize>) {
        self.account.edges += 1;
        self.account.drained = false;
        self.account.closed |= closed;
        self.woken(most, woken);
    }

    /// Checks that the first in line have been woken, at most `most`, and no other waiters.
    fn woken(&mut self, most: usize, woken: Vec<usize>) {
        let most = most.min(self.account.line.len());
        assert_eq!(woken, self.account.line.drain(..most).collect::<Vec<_>>());
        for reader in woken {
            assert_eq!(self.nodes[reader].state(), NodeState::Claimed(0));
            self.readers[reader] = At::Claimed;
        }
    }

    fn run(&mut self, reader: usize, most: u32) -> At {
        match self.readers[reader] {
            At::Elsewhere => self.looks(false),
            At::Claimed => self.looks(true),
            At::Looks { seen, edges, .. } if seen.is_drained() => At::Drained { seen, edges },
            At::Looks { seen, edges, owes } => {
                At::Called { left: self.kernel.call(most), seen, edges, owes }
            }
            At::Called { left, seen, edges, owes } => self.called(left, seen, edges, owes),
            At::Drained { seen, edges } => self.wait(reader, seen, edges),
            At::Owes => {
                let woken = self.readiness.pass_on(&BY).into_iter().collect();
                self.woken(1, woken);
                At::Elsewhere
            }
            At::Queued => At::Queued,
        }
    }

    fn looks(&self, owes: bool) -> At {
        let Account { edges, drained, closed, .. } = self.account;
        let seen = self.readiness.seen();
        assert_eq!((seen.is_drained(), seen.is_closed()), (drained, closed));
        At::Looks { seen, edges, owes }
    }

    fn called(&mut self, left: Left, seen: SeenReadiness, edges: u64, owes: bool) -> At {
        if left != Left::Something {
            self.readiness.drained(seen);
            self.account.drained |= edges == self.account.edges && !self.account.closed;
        }
        match left {
            Left::Nothing => At::Drained { seen, edges },
            Left::NothingMore if !seen.is_closed() => At::Elsewhere,
            _ if owes => At::Owes,
            _ => At::Elsewhere,
        }
    }

    fn wait(&mut self, reader: usize, seen: SeenReadiness, edges: u64) -> At {
        // SAFETY: in no queue, and it outlives the queue.
        let changed = unsafe { self.readiness.wait(&BY, NonNull::from(&self.nodes[reader]), seen) };
        assert_eq!(changed, edges != self.account.edges);
        if changed {
            return self.looks(false);
        }
        self.account.line.push_back(reader);
        At::Queued
    }

    fn leave(&mut self, reader: usize) {
        let (expected, next) = match self.readers[reader] {
            At::Queued => (Unlinked::Mine, At::Elsewhere),
            At::Claimed => (Unlinked::AlreadyGone, At::Owes),
            _ => return,
        };
        // SAFETY: alive, and given to this object's `wait` last.
        let unlinked = unsafe { self.readiness.leave(&BY, NonNull::from(&self.nodes[reader])) };
        assert_eq!(unlinked, expected);
        self.account.line.retain(|&waiter| waiter != reader);
        self.readers[reader] = next;
    }

    /// Checks that a reader is about to act, or an edge to come, if there is data for a waiter.
    fn no_waiter_is_forgotten(&self) {
        let on_its_way = self.kernel.edge || self.kernel.closes;
        let look = |at: &At| match *at {
            At::Claimed | At::Owes => true,
            At::Looks { owes, .. } | At::Called { owes, .. } => owes,
            _ => false,
        };
        if self.kernel.finds() && !on_its_way {
            assert!(self.account.line.is_empty() || self.readers.iter().any(look));
            assert!(!self.readiness.seen().is_drained());
        }
        assert_eq!(self.readiness.has_waiters(), !self.account.line.is_empty());
    }
}

proptest! {
    #[test]
    fn waiters_are_woken_as_in_a_simple_model(
        steps in prop::collection::vec(step(), 0..scaled(400)),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.no_waiter_is_forgotten();
        }
    }
}

fn wait(readiness: &RawReadiness<u32>, node: &Node<u32>, seen: SeenReadiness) -> bool {
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again.
    unsafe { readiness.wait(&BY, NonNull::from(node), seen) }
}

fn signal(readiness: &RawReadiness<u32>, closed: bool) -> Vec<u32> {
    readiness.signal(&BY, closed).collect()
}

#[test]
fn a_caller_that_missed_an_edge_does_not_wait() {
    let (readiness, node) = (RawReadiness::new(), Node::new(7));
    let seen = readiness.seen();
    assert_eq!(signal(&readiness, false), []);
    assert!(wait(&readiness, &node, seen));
    assert_eq!(node.state(), NodeState::Out);
    assert!(!wait(&readiness, &node, readiness.seen()));
    assert_eq!(signal(&readiness, false), [7]);
}

#[test]
fn a_queued_waiter_is_no_change() {
    let (readiness, nodes) = (RawReadiness::new(), [7, 8].map(Node::new));
    let seen = readiness.seen();
    assert!(!wait(&readiness, &nodes[0], seen) && !wait(&readiness, &nodes[1], seen));
    readiness.drained(seen);
    assert!(readiness.seen().is_drained());
    assert_eq!(signal(&readiness, false), [7]);
    assert_eq!(readiness.pass_on(&BY), Some(8));
    assert_eq!(readiness.pass_on(&BY), None);
}

#[test]
fn an_edge_takes_back_that_it_is_drained() {
    let readiness = RawReadiness::<u32>::new();
    let seen = readiness.seen();
    assert!(!seen.is_drained());
    readiness.drained(seen);
    assert!(readiness.seen().is_drained());
    assert_eq!(signal(&readiness, false), []);
    assert!(!readiness.seen().is_drained());
    readiness.drained(seen);
    assert!(!readiness.seen().is_drained(), "there was an edge since");
}

#[test]
fn a_closed_direction_is_never_drained_but_may_be_waited_for() {
    let (readiness, nodes) = (RawReadiness::new(), [7, 8].map(Node::new));
    nodes.iter().for_each(|node| assert!(!wait(&readiness, node, readiness.seen())));
    assert_eq!(signal(&readiness, true), [7, 8]);
    let seen = readiness.seen();
    readiness.drained(seen);
    assert!(seen.is_closed() && !readiness.seen().is_drained());
    nodes.iter().for_each(|node| assert!(!wait(&readiness, node, seen)));
    assert_eq!([signal(&readiness, false), signal(&readiness, false)], [[7], [8]]);
    assert!(readiness.seen().is_closed(), "for good");
}

#[test]
fn waiters_woken_to_look_again_find_it_open() {
    let (readiness, nodes) = (RawReadiness::new(), [7, 8].map(Node::new));
    let seen = readiness.seen();
    nodes.iter().for_each(|node| assert!(!wait(&readiness, node, seen)));
    assert_eq!(readiness.wake_all(&BY).collect::<Vec<_>>(), [7, 8]);
    assert!(wait(&readiness, &nodes[0], seen), "a caller that was about to wait looks as well");
    assert!(!readiness.seen().is_closed());
}

#[test]
fn the_number_of_edges_wraps_past_the_flags() {
    let last = SeenReadiness::CLOSED | !(SeenReadiness::EDGE - 1);
    let (readiness, node) = (RawReadiness(WaitQueue::new(last)), Node::new(7));
    let seen = readiness.seen();
    assert!(!wait(&readiness, &node, seen));
    assert_eq!(signal(&readiness, false), [7]);
    assert_eq!(readiness.seen(), SeenReadiness(SeenReadiness::CLOSED));
    assert!(wait(&readiness, &node, seen));
}
