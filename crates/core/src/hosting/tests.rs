//! The words of one thread after the other.

use super::*;

fn asleep() -> Hosting {
    let hosting = Hosting::new();
    hosting.sleep();
    hosting
}

#[test]
fn only_a_sleeping_worker_is_taken() {
    let hosting = Hosting::new();
    assert!(!hosting.take(0) && !hosting.is_taken());
    hosting.sleep();
    assert!(hosting.take(0) && hosting.is_taken());
    assert!(!hosting.take(1));
}

#[test]
fn a_guest_is_run_by_its_own_host_again_and_again() {
    let hosting = asleep();
    assert!(hosting.take(3));
    for _ in 0..2 {
        assert!(!hosting.enter(4) && hosting.enter(3) && !hosting.enter(3));
        assert_eq!(hosting.leave(3), Left::Done);
    }
    assert!(hosting.enter(3));
    let put_back = hosting.put_back(3, || false, || unreachable!("no thread wants it"));
    assert_eq!(put_back, Left::Done);
    assert!(!hosting.is_taken() && hosting.take(4));
}

#[test]
fn a_thread_that_comes_back_has_its_worker_at_once_unless_it_runs() {
    assert_eq!(asleep().come_back(), Return::Alone);
    let hosting = asleep();
    assert!(hosting.take(0));
    assert_eq!(hosting.come_back(), Return::TakenBack);
    assert!(!hosting.enter(0));

    let hosting = asleep();
    assert!(hosting.take(0) && hosting.enter(0));
    assert_eq!(hosting.come_back(), Return::AwaitsToken);
    assert_eq!(hosting.leave(0), Left::OwesToken);
    assert!(!hosting.take(1));
    hosting.arrive();
    assert!(!hosting.is_taken());
}

#[test]
fn a_guest_that_is_wanted_is_not_put_back_without_a_token() {
    for takes in [true, false] {
        let hosting = asleep();
        assert!(hosting.take(0) && hosting.enter(0));
        assert_eq!(hosting.come_back(), Return::AwaitsToken);
        // Without the mark another thread has it, and owes the token.
        let owed = if takes { Left::OwesToken } else { Left::Done };
        assert_eq!(hosting.put_back(0, || false, || takes), owed);
    }
}

#[test]
fn a_guest_with_a_change_to_act_on_is_not_put_back() {
    for takes in [true, false] {
        let hosting = asleep();
        assert!(hosting.take(0) && hosting.enter(0));
        let owed = if takes { Left::OwesToken } else { Left::Done };
        assert_eq!(hosting.put_back(0, || true, || takes), owed);
        assert!(!hosting.take(1));
        assert_eq!(hosting.come_back(), Return::AwaitsToken);
        hosting.arrive();
        assert!(!hosting.is_taken());
    }
}

#[test]
fn a_recall_takes_a_guest_that_does_not_run() {
    assert!(!Hosting::new().recall() && !asleep().recall());
    let hosting = asleep();
    assert!(hosting.take(0) && hosting.recall());
    assert!(!hosting.enter(0) && !hosting.recall());

    let hosting = asleep();
    assert!(hosting.take(0) && hosting.enter(0) && !hosting.recall());
    assert_eq!(hosting.leave(0), Left::OwesToken);
}
