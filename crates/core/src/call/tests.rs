use super::*;

/// The number of the server.
const SERVER: u32 = 5;

fn slot() -> (CallSlot, CallMark) {
    (CallSlot::new(), CallMark::new())
}

#[test]
fn a_call_is_made_and_answered_in_order() {
    let (slot, mark) = slot();
    assert!(slot.is_clients() && slot.take(&mark, SERVER) == Taken::Nothing);
    let ticket = slot.post(8, 77, Some(3));
    assert_eq!(slot.progress(ticket), Progress::Requested);
    assert!(!slot.is_clients());
    assert_eq!(slot.take(&mark, SERVER), Taken::Call(ticket));
    assert_eq!(slot.progress(ticket), Progress::Requested);
    assert!(!slot.is_requested(&mark), "it is in hand");
    assert_eq!((slot.len(100), slot.timeout_ns(), slot.bell()), (8, Some(77), Some(3)));
    assert!(slot.take(&mark, SERVER) == Taken::Nothing);
    assert_eq!(slot.reply(ticket, 5, 9), Delivered::ToClient);
    assert_eq!((slot.progress(ticket), slot.len(4), slot.code()), (Progress::Replied, 4, 9));
    assert_eq!(slot.leave(ticket, &mark), Left::Over);
    let next = slot.post(0, 0, None);
    assert_eq!(slot.progress(ticket), Progress::Corrupt);
    assert_eq!(
        (slot.timeout_ns(), slot.bell(), slot.leave(next, &mark)),
        (None, None, Left::Withdrawn)
    );
}

#[test]
fn numbers_wrap_around() {
    let (slot, mark) = slot();
    slot.word().store(u32::MAX, Ordering::Relaxed);
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.progress(ticket), Progress::Requested);
    assert_eq!(slot.take(&mark, SERVER), Taken::Call(ticket));
    assert_eq!(slot.reply(ticket, 0, 0), Delivered::ToClient);
}

#[test]
fn an_abandoned_call_ends_with_its_reply_or_its_server() {
    let (slot, mark) = slot();
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(&mark, SERVER), Taken::Call(ticket));
    assert_eq!(slot.leave(ticket, &mark), Left::Abandoned);
    assert!(!slot.is_clients());
    assert_eq!(slot.in_hand(&mark), Some((ticket, SERVER)));
    assert_eq!(slot.reply(ticket, 0, 0), Delivered::CallerLeft);
    assert!(slot.is_clients() && slot.in_hand(&mark).is_none());

    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(&mark, SERVER), Taken::Call(ticket));
    assert_eq!(slot.leave(ticket, &mark), Left::Abandoned);
    slot.server_has_died(ticket);
    assert!(slot.is_clients());
}

#[test]
fn the_slot_of_a_dead_client_is_nobodys_once_no_server_has_it() {
    let (slot, mark) = slot();
    assert!(slot.client_has_died(slot.seen(), &mark));
    let _ = slot.post(0, 0, None);
    assert!(slot.client_has_died(slot.seen(), &mark) && slot.take(&mark, SERVER) == Taken::Nothing);
    let ticket = slot.post(0, 0, None);
    assert_eq!(slot.take(&mark, SERVER), Taken::Call(ticket));
    assert!(!slot.client_has_died(slot.seen(), &mark));
    assert_eq!(
        slot.reply(ticket, 0, 0),
        Delivered::CallerLeft,
        "so that other waiters hear of the slot"
    );
    assert!(slot.client_has_died(slot.seen(), &mark));
}

/// Another client has claimed the slot between the look and the sweep.
#[test]
fn a_sweep_for_a_dead_client_that_is_late_leaves_the_next_call_alone() {
    for taken in [false, true] {
        let (slot, mark) = slot();
        let call = || (slot.post(0, 0, None), taken.then(|| slot.take(&mark, SERVER)));
        call();
        let seen = slot.seen();
        slot.renew();
        let (next, _) = call();
        assert!(!slot.client_has_died(seen, &mark));
        assert_eq!(slot.progress(next), Progress::Requested);
        assert_eq!(slot.in_hand(&mark), taken.then_some((next, SERVER)));
    }
}

/// Every call returns for any contents of the slot, and its result can be acted upon.
#[test]
fn any_word_is_survived() {
    let words = || (0..if cfg!(miri) { 8 } else { 64 }).chain([u32::MAX, u32::MAX - 9, 1 << 31]);
    for (word, marked) in words().flat_map(|word| words().map(move |marked| (word, marked))) {
        let (slot, mark) = slot();
        let corrupt = || {
            slot.word().store(word, Ordering::Relaxed);
            mark.0.store(u64::from(marked) << 32 | u64::from(marked), Ordering::Relaxed);
        };
        corrupt();
        if let Taken::Call(ticket) = slot.take(&mark, SERVER) {
            corrupt();
            let _ = slot.reply(ticket, u32::MAX, 0);
        }
        corrupt();
        let _ = (slot.is_clients(), slot.in_hand(&mark), slot.client_has_died(slot.seen(), &mark));
        corrupt();
        let ticket = slot.post(u32::MAX, u64::MAX, Some(u32::MAX));
        corrupt();
        let _ = (slot.progress(ticket), slot.leave(ticket, &mark), slot.bell());
        slot.server_has_died(ticket);
        assert!(slot.len(64) <= 64);
        corrupt();
        slot.renew();
        assert!(slot.is_clients());
    }
}
