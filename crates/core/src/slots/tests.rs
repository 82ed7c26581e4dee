use super::*;
use crate::lock::testing::Tester;
use crate::wait::NodeState;

const BY: Tester = Tester(1);

/// Creates slots with `claimed` of `share`, all of them held.
fn slots(share: u32, claimed: u32) -> ClientSlots<u32> {
    let slots = ClientSlots::new(share);
    (0..claimed).for_each(|number| assert_eq!(slots.add(100 + number), Some(SlotIndex(number))));
    slots
}

fn enter(slots: &ClientSlots<u32>, node: &Node<u32>) -> SlotEntry {
    // SAFETY: in no queue; the tests claim it, or end with it in a queue that is not used again.
    unsafe { slots.enter(&BY, NonNull::from(node)) }
}

fn leave(slots: &ClientSlots<u32>, node: &Node<u32>) -> Unlinked {
    // SAFETY: alive, and queued here.
    unsafe { slots.leave(&BY, NonNull::from(node)) }
}

fn give_back(slots: &ClientSlots<u32>, index: SlotIndex) -> SlotReceiver<u32> {
    slots.give_back(index).map_or(SlotReceiver::None, |owed| slots.hand_over(&BY, owed))
}

fn grant(node: &Node<u32>) -> SlotGrant {
    let NodeState::Claimed(note) = node.state() else { panic!("not claimed") };
    SlotGrant::of(note)
}

#[test]
fn the_word_has_the_leader_and_the_followers() {
    let leaders = [Leader::None, Leader::Leading, Leader::Granted(SlotIndex(63))];
    for (leader, followed) in
        leaders.into_iter().flat_map(|leader| [(leader, false), (leader, true)])
    {
        let word = WaitingCalls::NONE.led_by(leader).with_followers(followed);
        assert_eq!(word.leader(), leader);
        assert_eq!(word.expect_slot(), followed || leader == Leader::Leading);
        assert_eq!(word.with_bell(Some(1023)).bell(), Some(1023));
        assert_eq!(word.with_bell(Some(1023)).leader(), leader);
        assert_eq!(word.with_bell(Some(7)).with_bell(None), word);
    }
    assert_eq!(WaitingCalls::from_bits(0), WaitingCalls::NONE);
}

#[test]
fn slots_are_taken_and_given_back() {
    let slots = slots(MOST_SLOTS as u32, MOST_SLOTS as u32);
    let last = SlotIndex(63);
    assert_eq!((slots.try_take(), slots.number(last)), (None, 163));
    assert_eq!(give_back(&slots, last), SlotReceiver::None);
    assert_eq!(give_back(&slots, SlotIndex(3)), SlotReceiver::None);
    assert_eq!([slots.try_take(), slots.try_take()], [Some(SlotIndex(3)), Some(last)]);
    assert!(!slots.has_room() && slots.add(7).is_none());
    assert_eq!((slots.give_up(last), slots.add(7)), (163, Some(last)));
}

#[test]
fn a_client_claims_no_more_than_its_share() {
    let mut slots = slots(2, 2);
    assert!(!slots.has_room() && slots.add(7).is_none());
    assert_eq!(slots.claimed().collect::<Vec<_>>(), [100, 101]);
}

#[test]
fn calls_are_served_in_turn_and_the_leader_first() {
    let (slots, nodes) = (slots(2, 1), [1, 2, 3].map(Node::new));
    assert_eq!(enter(&slots, &nodes[0]), SlotEntry::Leads);
    assert_eq!(enter(&slots, &nodes[1]), SlotEntry::Follows);
    assert_eq!(enter(&slots, &nodes[2]), SlotEntry::Follows);
    slots.listen(&BY, Some(9));
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::Leader(Some(9)));
    assert!(slots.is_granted());
    // A leader that was granted a slot does not get another one.
    assert_eq!(slots.add(101), Some(SlotIndex(1)));
    assert_eq!(give_back(&slots, SlotIndex(1)), SlotReceiver::Follower(2));
    assert_eq!(grant(&nodes[1]), SlotGrant::Slot(SlotIndex(1)));
    let resigned = slots.resign(&BY);
    assert_eq!(resigned, Resigned { granted: Some(SlotIndex(0)), successor: None }, "no room");
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::Follower(3));
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::None);
    assert_eq!(give_back(&slots, SlotIndex(1)), SlotReceiver::None);
}

#[test]
fn a_leader_that_resigns_makes_a_follower_the_leader() {
    let (slots, nodes) = (slots(3, 1), [1, 2].map(Node::new));
    assert_eq!(
        [enter(&slots, &nodes[0]), enter(&slots, &nodes[1])],
        [SlotEntry::Leads, SlotEntry::Follows]
    );
    slots.listen(&BY, Some(9));
    assert_eq!(slots.resign(&BY), Resigned { granted: None, successor: Some(2) });
    assert_eq!(grant(&nodes[1]), SlotGrant::Lead);
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::Leader(None), "a bell of its own");
    assert_eq!(slots.resign(&BY), Resigned { granted: Some(SlotIndex(0)), successor: None });
}

#[test]
fn a_slot_that_is_given_up_makes_a_follower_the_leader() {
    let (slots, nodes) = (slots(1, 1), [1, 2].map(Node::new));
    assert_eq!([enter(&slots, &nodes[0]), enter(&slots, &nodes[1])], [SlotEntry::Follows; 2]);
    assert_eq!(slots.elect(&BY), None, "no room");
    assert_eq!(slots.give_up(SlotIndex(0)), 100);
    assert_eq!(slots.elect(&BY), Some(1));
    assert_eq!(slots.elect(&BY), None, "one leads");
    assert_eq!(grant(&nodes[0]), SlotGrant::Lead);
    assert_eq!(leave(&slots, &nodes[1]), Unlinked::Mine);
    assert_eq!(slots.resign(&BY), Resigned { granted: None, successor: None });
}

#[test]
fn a_slot_goes_to_no_call_that_has_left() {
    let (slots, nodes) = (slots(1, 1), [1, 2].map(Node::new));
    assert_eq!([enter(&slots, &nodes[0]), enter(&slots, &nodes[1])], [SlotEntry::Follows; 2]);
    assert_eq!(leave(&slots, &nodes[0]), Unlinked::Mine);
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::Follower(2));
    assert_eq!(leave(&slots, &nodes[1]), Unlinked::AlreadyGone);
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::None);
    assert_eq!(slots.try_take(), Some(SlotIndex(0)));
}

#[test]
fn a_call_that_finds_a_free_slot_does_not_wait() {
    let slots = slots(2, 1);
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::None);
    assert_eq!(enter(&slots, &Node::new(1)), SlotEntry::Taken(SlotIndex(0)));
    assert_eq!(give_back(&slots, SlotIndex(0)), SlotReceiver::None, "no call waits");
}
