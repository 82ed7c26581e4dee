//! The lock for readers and writers, from any words.

use super::*;

proptest! {
    #[test]
    fn with_any_words_a_holder_is_alone_or_among_readers(
        word: u64, generations in prop::collection::vec(prop_oneof![Just(0u32), any::<u32>()], 2..8), salt: u32,
    ) {
        let lock = RobustRwLock::new();
        lock.writer().spoil(word);
        let reads: Vec<_> = generations.iter().map(|_| Reads::new()).collect();
        reads.iter().zip(&generations).for_each(|(reads, &generation)| reads.spoil(generation));
        let (me, dead) = (holder(1, 1), dead(salt));
        match lock.try_read(me, &reads, dead) {
            Lock::Locked(_) => {
                prop_assert!(reads[1].is(me) && lock.writer().holder().is_none());
                prop_assert_eq!(lock.unlock_read(me, &reads), Unlock::Quiet);
            }
            Lock::Held { by, .. } => prop_assert!(!dead(by) && !reads[1].is(me)),
            Lock::Contended => prop_assert!(false, "there is no other process"),
        }
        if let Lock::Locked(_) = lock.writer().try_lock(me, dead) {
            let alive = |(index, &generation)| {
                let holder = (generation != 0 && index != 1).then(|| holder(index as u16, generation));
                holder.filter(|&holder| !dead(holder))
            };
            let readers: Vec<_> = generations.iter().enumerate().filter_map(alive).collect();
            let mut found = Vec::new();
            while let Some(by) = {
                let from = found.last().map_or(0, |by: &Holder| usize::from(by.index()) + 1);
                lock.reader(&reads, from, dead)
            } {
                found.push(by);
            }
            prop_assert_eq!(found, readers);
        }
    }
}

#[test]
fn an_entry_of_a_dead_generation_is_its_successors() {
    let (lock, reads) = (RobustRwLock::new(), [const { Reads::new() }]);
    let [dead, successor] = [1, 2].map(|generation| holder(0, generation));
    assert_eq!(lock.try_read(dead, &reads, NONE_DEAD), Lock::Locked(FoundData::Clean));
    assert_eq!(
        lock.try_read(successor, &reads, |actor| actor == dead),
        Lock::Locked(FoundData::Clean)
    );
    assert_eq!(lock.unlock_read(dead, &reads), Unlock::NotMine);
}

#[test]
fn a_writer_that_a_reader_finds_dead_leaves_poison() {
    let (lock, reads) = (RobustRwLock::new(), [const { Reads::new() }; 2]);
    let [dead, reader] = [0, 1].map(|index| holder(index, 1));
    assert_eq!(lock.writer().try_lock(dead, NONE_DEAD), Lock::Locked(FoundData::Clean));
    for found in [FoundData::OwnerDied, FoundData::Poisoned] {
        assert_eq!(lock.try_read(reader, &reads, |actor| actor == dead), Lock::Locked(found));
        assert_eq!(lock.unlock_read(reader, &reads), Unlock::Quiet);
    }
}
