use super::*;

#[test]
fn a_call_takes_its_course() {
    let slot = Slot::new();
    assert!(slot.is_clients() && slot.take().is_none());
    let ticket = slot.post(8, 77, Some(3));
    assert_eq!(slot.progress(ticket), Progress::Requested);
    assert!(!slot.is_clients());
    assert_eq!(slot.take(), Some(ticket));
    assert_eq!(slot.progress(ticket), Progress::Taken);
    assert_eq!((slot.len(100), slot.timeout_ns(), slot.bell()), (8, Some(77), Some(3)));
    assert!(slot.take().is_none());
    assert_eq!(slot.reply(ticket, 5, 9), Delivered::ToClient);
    assert_eq!((slot.progress(ticket), slot.len(4), slot.code()), (Progress::Replied, 4, 9));
    assert_eq!(slot.leave(ticket), Left::Over);
    let next = slot.post(0, 0, None);
    assert_eq!(slot.progress(ticket), Progress::Corrupt);
    assert_eq!((slot.timeout_ns(), slot.bell(), slot.leave(next)), (None, None, Left::Withdrawn));
}

#[test]
fn numbers_wrap_around() {
    let slot = Slot::new();
    slot.word().store(u32::MAX, Ordering::Relaxed);
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.progress(ticket), Progress::Requested);
    assert_eq!(slot.take(), Some(ticket));
    assert_eq!(slot.reply(ticket, 0, 0), Delivered::ToClient);
}

#[test]
fn an_abandoned_call_ends_with_its_reply_or_its_server() {
    let slot = Slot::new();
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(), Some(ticket));
    assert_eq!(slot.leave(ticket), Left::Abandoned);
    assert!(!slot.is_clients());
    assert_eq!(slot.in_hand(), Some(ticket));
    assert_eq!(slot.reply(ticket, 0, 0), Delivered::ToNobody);
    assert!(slot.is_clients() && slot.in_hand().is_none());

    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(), Some(ticket));
    assert_eq!(slot.leave(ticket), Left::Abandoned);
    slot.server_has_died(ticket);
    assert!(slot.is_clients());
}

#[test]
fn the_slot_of_a_dead_client_is_nobodys_once_no_server_has_it() {
    let slot = Slot::new();
    assert!(slot.client_has_died(slot.seen()));
    let _ = slot.post(0, 0, None);
    assert!(slot.client_has_died(slot.seen()) && slot.take().is_none());
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(), Some(ticket));
    assert!(!slot.client_has_died(slot.seen()));
    assert_eq!(slot.reply(ticket, 0, 0), Delivered::ToNobody, "so that others hear of the slot");
    assert!(slot.client_has_died(slot.seen()));
}

/// Somebody else has claimed the slot between the look and the sweep.
#[test]
fn a_sweep_for_a_dead_client_that_is_late_leaves_the_next_call_alone() {
    for taken in [false, true] {
        let slot = Slot::new();
        let call = || (slot.post(0, 0, None), taken.then(|| slot.take().unwrap()));
        call();
        let seen = slot.seen();
        slot.renew();
        let (next, _) = call();
        assert!(!slot.client_has_died(seen));
        assert_eq!(slot.progress(next), if taken { Progress::Taken } else { Progress::Requested });
    }
}

/// Whatever lies there, every call returns, and what it says can be acted upon.
#[test]
fn any_word_is_survived() {
    for word in (0..64).chain([u32::MAX, u32::MAX - 9, 1 << 31]) {
        let slot = Slot::new();
        let corrupt = || slot.word().store(word, Ordering::Relaxed);
        corrupt();
        if let Some(ticket) = slot.take() {
            corrupt();
            let _ = slot.reply(ticket, u32::MAX, 0);
        }
        corrupt();
        let _ = (slot.is_clients(), slot.in_hand(), slot.client_has_died(slot.seen()));
        corrupt();
        let ticket = slot.post(u32::MAX, u64::MAX, Some(u32::MAX));
        corrupt();
        let _ = (slot.progress(ticket), slot.leave(ticket), slot.bell());
        slot.server_has_died(ticket);
        assert!(slot.len(64) <= 64);
        corrupt();
        slot.renew();
        assert!(slot.is_clients());
    }
}
