//! Two rendezvous, and parties that choose between them, from either side or both.

use shuttle::sync::Arc;

use super::*;
use crate::channel::{Meeting, MeetingSlot, Offer, Party, Rendezvous, Side};
use crate::claim::Claim;
use crate::modelled::spawn;

/// Largest number of senders, of receivers, and of parties that do both.
const OF_EACH: usize = 2;
const ALL: usize = 3 * OF_EACH;
/// Number of rounds of each; receivers go on until the end.
const ROUNDS: usize = 3;

/// A message: its sender, its number there, and its channel.
type Message = (usize, usize, usize);

/// A possible operation: the channel, and the side.
type Case = (usize, Side);

struct Shared {
    channels: [Rendezvous<Message, usize>; 2],
    waiters: Waiters<ALL>,
    /// Number of parties that go on sending.
    sending: AtomicU32,
    strict: bool,
}

enum Chosen {
    Done(usize),
    Closed,
    Nothing,
}

impl Shared {
    fn new(sending: usize) -> Arc<Self> {
        Arc::new(Self {
            channels: [Rendezvous::new(), Rendezvous::new()],
            waiters: Waiters::new(),
            sending: AtomicU32::new(sending as u32),
            strict: below(2) == 0,
        })
    }

    fn patience(&self) -> Patience {
        if self.strict { Patience::Endless } else { Patience::any() }
    }

    fn attempt(
        &self,
        actor: usize,
        (at, side): Case,
        slot: &MeetingSlot<Message>,
    ) -> Meeting<usize> {
        // SAFETY: never queued.
        let offer = unsafe { Offer::new(Party::alone(actor), side, slot) };
        let met = self.channels[at].lock(&Waiters::<ALL>::by(actor)).meet(&offer);
        if let Meeting::Met(waiter) = met {
            self.waiters.wake(waiter);
        }
        met
    }

    fn attempt_all(
        &self,
        actor: usize,
        cases: &[Case],
        slots: &[MeetingSlot<Message>],
    ) -> Option<Chosen> {
        let start = below(cases.len());
        (0..cases.len()).map(|i| (i + start) % cases.len()).find_map(|i| {
            match self.attempt(actor, cases[i], &slots[i]) {
                Meeting::Met(_) => Some(Chosen::Done(i)),
                Meeting::Closed => Some(Chosen::Closed),
                Meeting::Alone => None,
            }
        })
    }

    /// Makes one of the cases, which are in the order of their channels.
    fn choose(
        &self,
        actor: usize,
        cases: &[Case],
        slots: &[MeetingSlot<Message>],
        patience: Patience,
    ) -> Chosen {
        loop {
            if let Some(chosen) = self.attempt_all(actor, cases, slots) {
                return chosen;
            }
            if let Some(chosen) = self.wait_once(actor, cases, slots, patience) {
                return chosen;
            }
        }
    }

    /// Waits at all of them; returns without a wait if a party is there for one.
    fn wait_once(
        &self,
        actor: usize,
        cases: &[Case],
        slots: &[MeetingSlot<Message>],
        patience: Patience,
    ) -> Option<Chosen> {
        let (by, claim) = (Waiters::<ALL>::by(actor), Claim::new());
        let nodes: Vec<_> = (0..cases.len())
            .map(|i| {
                // SAFETY: claim and slots stay until all offers have left.
                let party = unsafe { Party::one_of(actor, &claim, i as u16) };
                // SAFETY: as above.
                Node::new(unsafe { Offer::new(party, cases[i].1, &slots[i]) })
            })
            .collect();
        let queued = cases.iter().zip(&nodes).all(|(&(at, _), node)| {
            let mut queue = self.channels[at].lock(&by);
            let waits = !queue.is_ready(&node.waiter());
            if waits {
                // SAFETY: in no queue, and stays until it has left or is claimed.
                unsafe { queue.enqueue(NonNull::from(node)) };
            }
            waits
        });
        let woken = queued && patience.sleep(&self.waiters, actor);
        let outcome = claim.close();
        if outcome.is_some() && !woken {
            self.waiters.sleep(actor);
        }
        for (&(at, _), node) in cases.iter().zip(&nodes) {
            // SAFETY: alive, and queued there if it is in a queue.
            let _ = unsafe { self.channels[at].lock(&by).leave(NonNull::from(node)) };
        }
        match outcome.map(usize::from) {
            Some(i) => Some(finish_meeting(cases[i].1, &slots[i], i)),
            None => queued.then_some(Chosen::Nothing),
        }
    }

    /// Sends all messages; the last sender closes both channels.
    fn send_all(&self, actor: usize) -> [Vec<Message>; 2] {
        let mut moved = [Vec::new(), Vec::new()];
        for number in 0..ROUNDS {
            let cases: &[Case] = match below(4) {
                0 => &[(0, Side::Send)],
                1 => &[(1, Side::Send)],
                _ => &[(0, Side::Send), (1, Side::Send)],
            };
            let _ = self.round(actor, number, cases, self.patience(), &mut moved);
        }
        self.end(actor);
        moved
    }

    fn receive_all(&self, actor: usize) -> [Vec<Message>; 2] {
        let mut moved = [Vec::new(), Vec::new()];
        let cases = [(0, Side::Receive), (1, Side::Receive)];
        while self.round(actor, 0, &cases, self.patience(), &mut moved) {}
        moved
    }

    /// Sends or receives, at either channel, and soon leaves.
    fn do_any(&self, actor: usize) -> [Vec<Message>; 2] {
        let mut moved = [Vec::new(), Vec::new()];
        let cases = [(0, Side::Send), (0, Side::Receive), (1, Side::Send), (1, Side::Receive)];
        for number in 0..ROUNDS {
            let _ = self.round(actor, number, &cases, Patience::Deadline, &mut moved);
        }
        self.end(actor);
        moved
    }

    /// Makes one choice, and adds the message to `moved`. Returns false at the end.
    fn round(
        &self,
        actor: usize,
        number: usize,
        cases: &[Case],
        patience: Patience,
        moved: &mut [Vec<Message>; 2],
    ) -> bool {
        let message = |&(at, side): &Case| (side == Side::Send).then_some((actor, number, at));
        let slots: Vec<_> = cases.iter().map(|case| MeetingSlot::new(message(case))).collect();
        let chosen = self.choose(actor, cases, &slots, patience);
        for (i, (case, slot)) in cases.iter().zip(slots).enumerate() {
            let (is_chosen, left) =
                (matches!(chosen, Chosen::Done(done) if done == i), slot.into_inner());
            match case.1 {
                Side::Send if is_chosen => moved[0].extend(message(case)),
                Side::Receive if is_chosen => {
                    assert_eq!(left.map(|received| received.2), Some(case.0));
                    moved[1].extend(left);
                }
                _ => assert_eq!(left, message(case), "nothing has moved"),
            }
            assert!(case.1 == Side::Receive || left.is_none() == is_chosen);
        }
        !matches!(chosen, Chosen::Closed)
    }

    fn end(&self, actor: usize) {
        if self.sending.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        for channel in &self.channels {
            let close = || channel.lock(&Waiters::<ALL>::by(actor)).close();
            std::iter::from_fn(close).for_each(|waiter| self.waiters.wake([waiter]));
        }
    }
}

/// Tells whether a party that was claimed with this case has met another, or the end.
fn finish_meeting(side: Side, slot: &MeetingSlot<Message>, case: usize) -> Chosen {
    // SAFETY: no offer of it is queued any more.
    let is_full = unsafe { slot.is_full() };
    if is_full == (side == Side::Receive) { Chosen::Done(case) } else { Chosen::Closed }
}

#[test]
fn selects_on_both_sides_find_each_other() {
    rehearse(|| {
        let [senders, receivers] = [(); 2].map(|()| 1 + below(OF_EACH));
        let others = below(OF_EACH + 1);
        let shared = Shared::new(senders + others);
        let bodies = [Shared::send_all, Shared::receive_all, Shared::do_any];
        let counts = [senders, receivers, others];
        let all: Vec<_> = (0..3)
            .flat_map(|kind| (0..counts[kind]).map(move |i| (kind * OF_EACH + i, bodies[kind])))
            .map(|(actor, body)| spawn(&shared, move |shared| body(shared, actor)))
            .collect();
        let mut moved = [Vec::new(), Vec::new()];
        for one in all {
            let theirs = one.join().unwrap();
            moved.iter_mut().zip(theirs).for_each(|(all, theirs)| all.extend(theirs));
        }
        moved.iter_mut().for_each(|messages| messages.sort());
        assert_eq!(moved[0], moved[1], "messages sent, and received");
    });
}
