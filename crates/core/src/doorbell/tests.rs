use super::*;

fn bells(all: usize) -> Vec<Doorbell> {
    (0..all).map(|_| Doorbell::new()).collect()
}

fn rung(listeners: &Listeners, bells: &[Doorbell]) -> Vec<usize> {
    let mut rung = Vec::new();
    let _ = listeners.ring(bells, None, |bell| rung.push(bell));
    rung.sort();
    rung
}

#[test]
fn listeners_that_sleep_are_rung_for_once() {
    let (listeners, bells) = (Listeners::new(), bells(5));
    [1, 2, 3].iter().for_each(|&bell| listeners.listen(bell));
    [0, 1, 3].iter().for_each(|&bell: &usize| bells[bell].park());
    assert_eq!(rung(&listeners, &bells), [1, 3]);
    assert_eq!(rung(&listeners, &bells), []);
    assert!(bells[0].is_parked() && !bells[1].is_parked());
}

#[test]
fn doorbells_beyond_64_share_bits() {
    let (listeners, bells) = (Listeners::new(), bells(200));
    listeners.listen(70);
    [6, 70, 71, 134, 198].iter().for_each(|&bell: &usize| bells[bell].park());
    assert_eq!(rung(&listeners, &bells), [6, 70, 134, 198]);
}

#[test]
fn zeroed_memory_is_awake_and_has_no_listeners() {
    // SAFETY: the types are atomics alone.
    let (bell, listeners, seat): (Doorbell, Listeners, SpinSeat) = unsafe { std::mem::zeroed() };
    assert!(!bell.is_parked() && bell.cpu().is_none());
    assert_eq!(rung(&listeners, std::slice::from_ref(&bell)), []);
    assert!(!seat.is_of(0));
}

#[test]
fn an_awake_owner_on_another_cpu_may_answer() {
    let (listeners, bells) = (Listeners::new(), bells(3));
    listeners.listen(1);
    let answers = |cpu| listeners.ring(&bells, cpu, |_| ());
    assert!(answers(None) && answers(Some(4)), "the owner may be anywhere");
    bells[1].set_cpu(Some(4));
    assert!(answers(None) && answers(Some(0)) && !answers(Some(4)));
    bells[1].park();
    assert!(!answers(Some(0)), "the owner slept");
    assert!(answers(Some(0)), "and does no more");
    listeners.listen(2);
    bells[2].rest();
    assert!(answers(Some(0)), "though the last listener does not");
}

#[test]
fn a_sleeper_for_another_event_is_not_rung_for_and_does_not_answer() {
    let (listeners, bells) = (Listeners::new(), bells(1));
    listeners.listen(0);
    bells[0].rest();
    assert!(!bells[0].is_awake() && !bells[0].is_parked());
    assert!(!listeners.ring(&bells, None, |_| panic!("no waiter is owed a wake")));
    bells[0].unpark();
    assert!(bells[0].is_awake() && listeners.ring(&bells, None, |_| ()));
    bells[0].park();
    assert!(!bells[0].is_awake());
}

#[test]
fn where_the_owner_runs_is_told() {
    let bell = Doorbell::new();
    for cpu in [Some(0), Some(511), None] {
        bell.set_cpu(cpu);
        assert_eq!(bell.cpu(), cpu);
    }
}
