//! The owner of an instance, which enters waits and sleeps there, beside other agents, and waiters
//! that go on elsewhere; with the real wait queue.

use std::array;

use loom::sync::{Arc, Condvar, Mutex};

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{bounded, spawn};
use crate::wait::{Node, NodeState, WaitQueue};

const IN: u32 = 1;
const OUT: u32 = 2;

/// Numbers of descriptors, and of waiters.
const MOST: usize = 2;

/// The party that takes queue locks.
const OWNER: Tester = Tester(1);
const OTHER: Tester = Tester(2);

type Queue = WaitQueue<usize>;

struct Places([FirstWait<Queue>; MOST]);

impl Firsts for Places {
    type Waiter = Queue;

    fn places(&self) -> &[FirstWait<Queue>] {
        &self.0
    }

    fn place(&mut self, descriptor: usize) -> Option<&mut FirstWait<Queue>> {
        self.0.get_mut(descriptor)
    }
}

/// A simulated kernel: for each number, the events that were asked for, and those that are there.
struct Kernel {
    table: Mutex<Table<Places>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The events of the report that is asked for; 0: none.
    asked: [u32; MOST],
    ready: [u32; MOST],
    is_rung: bool,
    /// A poll of the owner has taken a ring, and kept it.
    is_heard: bool,
    /// The number of the instance has another file, which takes requests as well.
    is_closed: bool,
}

impl State {
    /// Takes the reports: each is made once.
    fn take(&mut self) -> [bool; MOST] {
        array::from_fn(|descriptor| {
            let reported = self.asked[descriptor] & self.ready[descriptor] != 0;
            if reported {
                self.asked[descriptor] = 0;
            }
            reported
        })
    }

    fn has_reports(&self) -> bool {
        (0..MOST).any(|descriptor| self.asked[descriptor] & self.ready[descriptor] != 0)
    }
}

/// Hands over the reports, with no lock held.
fn tell(taken: [bool; MOST], each: &mut dyn FnMut(usize)) -> usize {
    let told = (0..MOST).filter(|&descriptor| taken[descriptor]);
    told.inspect(|&descriptor| each(descriptor)).count()
}

impl Kernel {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Instance for Kernel {
    type Waiter = Queue;
    type Firsts = Places;
    type Due = ();

    fn table(&self) -> impl DerefMut<Target = Table<Places>> {
        self.table.lock().unwrap()
    }

    fn ask(&self, descriptor: usize, events: u32) -> bool {
        self.change(|state| {
            if !state.is_closed {
                state.asked[descriptor] = events;
            }
        });
        true
    }

    fn poll(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        let mut state = self.state.lock().unwrap();
        if state.is_closed {
            return Err(InstanceIsGone);
        }
        state.is_heard |= std::mem::take(&mut state.is_rung);
        let taken = state.take();
        drop(state);
        Ok(tell(taken, each))
    }

    fn poll_elsewhere(&self, each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        let mut state = self.state.lock().unwrap();
        if state.is_closed {
            return Err(InstanceIsGone);
        }
        let is_rung = std::mem::take(&mut state.is_rung);
        let taken = state.take();
        drop(state);
        if is_rung {
            self.ring();
        }
        Ok(tell(taken, each))
    }

    fn sleep(&self, (): (), each: &mut dyn FnMut(usize)) -> Result<usize, InstanceIsGone> {
        let mut state = self.state.lock().unwrap();
        if state.is_closed {
            return Err(InstanceIsGone);
        }
        // The kernel does not know of a ring that was kept. A sleep that has begun keeps the
        // instance.
        if !std::mem::take(&mut state.is_heard) {
            while !state.is_rung && !state.has_reports() {
                state = self.changed.wait(state).unwrap();
            }
        }
        state.is_rung = false;
        let taken = state.take();
        drop(state);
        Ok(tell(taken, each))
    }

    fn ring(&self) {
        self.change(|state| state.is_rung = true);
    }
}

/// The frame of a waiter.
struct Frame {
    queue: Queue,
    node: Node<usize>,
    waits: [DescriptorWait<Queue>; 1],
}

struct Shared {
    descriptors: Descriptors<Kernel>,
    /// Boxed, as waits have the addresses of the queues.
    frames: [Box<Frame>; MOST],
}

// SAFETY: loom checks the accesses to the waits.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Frame {
    fn new(waiter: usize, descriptor: i32, events: u32) -> Box<Self> {
        let mut frame = Box::new(Frame {
            queue: WaitQueue::new(0),
            node: Node::new(waiter),
            waits: [DescriptorWait {
                descriptor,
                events,
                waiter: NonNull::dangling(),
                next: UnsafeCell::new(None),
            }],
        });
        frame.waits[0].waiter = NonNull::from(&frame.queue);
        frame
    }
}

impl Shared {
    /// Creates waiters for `descriptor` and `events` each, of which none waits yet.
    fn new(waits: [(i32, u32); MOST]) -> Arc<Self> {
        let [first, second] = waits;
        Arc::new(Shared {
            descriptors: Descriptors::new(Kernel {
                table: Mutex::new(Table::new(Places(array::from_fn(|_| FirstWait::default())))),
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
            }),
            frames: [Frame::new(0, first.0, first.1), Frame::new(1, second.0, second.1)],
        })
    }

    fn kernel(&self) -> &Kernel {
        self.descriptors.instance()
    }

    fn visit(&self, waiter: usize) -> Visit<'_, Kernel> {
        let waits = &self.frames[waiter].waits;
        Visit { descriptors: &self.descriptors, waits }
    }

    /// Waits, on the owner's thread. Returns false if the wait is refused.
    fn wait(&self, waiter: usize) -> bool {
        let Frame { queue, node, waits } = &*self.frames[waiter];
        // SAFETY: it leaves by `leave`.
        let visit = unsafe { self.descriptors.begin(waits) };
        // SAFETY: in no queue, and it stays.
        unsafe { queue.enqueue(&OWNER, NonNull::from(node)) };
        visit.enter()
    }

    fn is_woken(&self, waiter: usize) -> bool {
        matches!(self.frames[waiter].node.state(), NodeState::Claimed(_))
    }

    /// Ends the wait of a waiter that was woken, or has timed out. Its frame is gone then.
    fn leave(&self, waiter: usize, by: &Tester) {
        let Frame { queue, node, waits } = &*self.frames[waiter];
        // SAFETY: alive, and was put there.
        let _ = unsafe { queue.unlink(by, NonNull::from(node)) };
        self.visit(waiter).leave();
        queue.reclaim();
        waits.iter().for_each(DescriptorWait::reclaim);
    }

    /// Sleeps as the owner does, until the waiter is woken.
    fn sleep_until_woken(&self, waiter: usize) {
        while !self.is_woken(waiter) {
            assert!(self.descriptors.have_bed(), "asleep on the token");
            self.descriptors.sleep((), |queue| {
                let _ = queue.claim_first(&OWNER, 0);
            });
        }
    }

    /// Polls as another worker does, which tells the owner of waiters that it has woken.
    fn poll_elsewhere(&self) {
        self.descriptors.poll(false, |queue| {
            if queue.claim_first(&OTHER, 0).is_some() {
                self.descriptors.ring();
            }
        });
    }

    fn becomes_ready(&self, descriptor: usize, events: u32) {
        self.kernel().change(|state| state.ready[descriptor] |= events);
    }
}

#[test]
fn an_event_wakes_the_waiter_whichever_agent_finds_it() {
    bounded(2, || {
        let shared = Shared::new([(0, IN), (1, IN)]);
        let kernel = spawn(&shared, |shared| shared.becomes_ready(0, IN));
        let agent = spawn(&shared, Shared::poll_elsewhere);
        assert!(shared.wait(0));
        shared.sleep_until_woken(0);
        shared.leave(0, &OWNER);
        assert!(!shared.descriptors.have_bed());
        kernel.join().unwrap();
        agent.join().unwrap();
    });
}

#[test]
fn a_second_waiter_does_not_take_the_events_of_the_first() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (0, OUT)]);
        let kernel = spawn(&shared, |shared| shared.becomes_ready(0, IN));
        assert!(shared.wait(0) && shared.wait(1));
        shared.sleep_until_woken(0);
        shared.leave(0, &OWNER);
        kernel.join().unwrap();
        shared.leave(1, &OWNER);
    });
}

#[test]
fn one_report_wakes_all_waiters() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (0, IN)]);
        let kernel = spawn(&shared, |shared| shared.becomes_ready(0, IN));
        assert!(shared.wait(0) && shared.wait(1));
        for waiter in [0, 1] {
            shared.sleep_until_woken(waiter);
        }
        kernel.join().unwrap();
    });
}

/// The report of one waiter is taken while another one enters.
#[test]
fn a_report_reaches_a_waiter_that_has_just_entered() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (0, IN)]);
        assert!(shared.wait(0));
        shared.becomes_ready(0, IN);
        let agent = spawn(&shared, Shared::poll_elsewhere);
        assert!(shared.wait(1));
        shared.sleep_until_woken(1);
        agent.join().unwrap();
    });
}

#[test]
fn a_waiter_that_leaves_does_not_take_the_report_along() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (0, IN)]);
        assert!(shared.wait(0) && shared.wait(1));
        let other = spawn(&shared, |shared| {
            shared.becomes_ready(0, IN);
            shared.leave(0, &OTHER);
        });
        shared.sleep_until_woken(1);
        other.join().unwrap();
    });
}

#[test]
fn no_agent_uses_a_frame_that_is_gone() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (0, IN)]);
        assert!(shared.wait(0) && shared.wait(1));
        shared.becomes_ready(0, IN);
        let agent = spawn(&shared, Shared::poll_elsewhere);
        shared.leave(0, &OWNER);
        shared.leave(1, &OWNER);
        agent.join().unwrap();
    });
}

#[test]
fn the_owner_misses_no_wait_while_another_ends() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (1, IN)]);
        assert!(shared.wait(0));
        let other = spawn(&shared, |shared| shared.leave(0, &OTHER));
        assert!(shared.wait(1));
        assert!(shared.descriptors.have_bed());
        other.join().unwrap();
        assert!(shared.descriptors.have_bed());
        shared.leave(1, &OWNER);
        assert!(!shared.descriptors.has_waits());
    });
}

#[test]
fn a_poll_elsewhere_leaves_the_ring_to_the_owner() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (1, IN)]);
        assert!(shared.wait(0));
        let other = spawn(&shared, |shared| {
            shared.descriptors.ring();
            shared.poll_elsewhere();
        });
        shared.descriptors.sleep((), |_| unreachable!("there is no event"));
        other.join().unwrap();
    });
}

#[test]
fn a_ring_that_the_owner_polls_ends_its_next_sleep() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (1, IN)]);
        assert!(shared.wait(0));
        let other = spawn(&shared, |shared| shared.descriptors.ring());
        assert!(!shared.descriptors.poll(true, |_| unreachable!("there is no event")));
        shared.descriptors.sleep((), |_| unreachable!("there is no event"));
        other.join().unwrap();
    });
}

#[test]
fn a_waiter_at_a_lost_instance_is_refused_or_woken() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (1, IN)]);
        assert!(shared.wait(0));
        shared.kernel().change(|state| state.is_closed = true);
        let agent = spawn(&shared, Shared::poll_elsewhere);
        let waits = shared.wait(1);
        agent.join().unwrap();
        assert!(shared.is_woken(0));
        assert!(shared.is_woken(1) || !waits, "asleep without a report");
        assert!(!shared.descriptors.have_bed());
    });
}

/// The owner is asleep in the instance as its number is closed, or finds out by itself.
#[test]
fn an_owner_in_a_lost_instance_is_rung() {
    loom::model(|| {
        let shared = Shared::new([(0, IN), (1, IN)]);
        assert!(shared.wait(0));
        let agent = spawn(&shared, |shared| {
            shared.kernel().change(|state| state.is_closed = true);
            // Without a ring for the waiter, which goes on elsewhere.
            shared.descriptors.poll(false, |_| ());
            shared.descriptors.ring();
        });
        shared.descriptors.sleep((), |_| ());
        agent.join().unwrap();
    });
}
