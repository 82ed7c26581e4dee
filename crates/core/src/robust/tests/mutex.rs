//! The mutex, one step after the other, and from any word.

use super::*;

#[test]
fn a_mutex_given_up_poisoned_stays_so_until_it_is_repaired() {
    let (mutex, me) = (RobustMutex::new(), holder(7, 9));
    assert_eq!(mutex.try_lock(me, NONE_DEAD), Lock::Locked(FoundData::Clean));
    assert_eq!(mutex.unlock_poisoned(me), Unlock::Quiet);
    assert_eq!(mutex.try_lock(me, NONE_DEAD), Lock::Locked(FoundData::Poisoned));
    assert_eq!(mutex.unlock(me), Unlock::Quiet);
    assert_eq!(mutex.try_lock(me, NONE_DEAD), Lock::Locked(FoundData::Poisoned));
    mutex.clear_poison();
    assert_eq!(mutex.unlock(me), Unlock::Quiet);
    assert_eq!(mutex.try_lock(me, NONE_DEAD), Lock::Locked(FoundData::Clean));
}

#[test]
fn a_death_without_a_repair_is_reported_as_well() {
    let (mutex, actor) = (RobustMutex::new(), [1, 2, 3].map(|generation| holder(0, generation)));
    let before = |generation: u32| move |holder: Holder| holder.generation().get() < generation;
    assert_eq!(mutex.try_lock(actor[0], NONE_DEAD), Lock::Locked(FoundData::Clean));
    assert_eq!(mutex.try_lock(actor[1], before(2)), Lock::Locked(FoundData::OwnerDied));
    assert_eq!(mutex.try_lock(actor[2], before(3)), Lock::Locked(FoundData::OwnerDied));
    assert!(mutex.is_poisoned() && mutex.holder() == Some(actor[2]));
}

#[test]
fn waiters_are_rung_for_by_the_next_holder_too() {
    let (mutex, [dead, successor, waits]) =
        (RobustMutex::new(), [0, 1, 2].map(|index| holder(index, 1)));
    assert_eq!(mutex.try_lock(dead, NONE_DEAD), Lock::Locked(FoundData::Clean));
    let Lock::Held { by, seen } = mutex.try_lock(waits, NONE_DEAD) else { panic!("two holders") };
    assert_eq!(by, dead);
    let seen = mutex.wait_for(seen).unwrap();
    assert_eq!(mutex.wait_for(seen), Some(seen));
    assert!(!mutex.has_changed(seen));
    assert_eq!(
        mutex.try_lock(successor, |actor| actor == dead),
        Lock::Locked(FoundData::OwnerDied)
    );
    assert!(mutex.has_changed(seen));
    assert_eq!(mutex.unlock(successor), Unlock::Ring);
    assert_eq!(mutex.wait_for(seen), None);
}

#[test]
fn an_unlock_by_another_is_noticed() {
    let (mutex, [me, other]) = (RobustMutex::new(), [0, 1].map(|index| holder(index, 1)));
    assert_eq!(mutex.unlock(me), Unlock::NotMine);
    assert_eq!(mutex.try_lock(me, NONE_DEAD), Lock::Locked(FoundData::Clean));
    assert_eq!(mutex.unlock(other), Unlock::NotMine);
}

proptest! {
    #[test]
    fn any_word_of_a_mutex_means_locked_or_held(word: u64, salt: u32) {
        let (mutex, me) = (RobustMutex::new(), holder(1, 1));
        mutex.spoil(word);
        match mutex.try_lock(me, dead(salt)) {
            Lock::Locked(_) => prop_assert_eq!(mutex.unlock(me) == Unlock::NotMine, false),
            Lock::Held { by, seen } => {
                prop_assert!(!dead(salt)(by) && mutex.holder() == Some(by));
                prop_assert!(mutex.wait_for(seen).is_some());
            }
            Lock::Contended => prop_assert!(false, "there is no other process"),
        }
    }
}
