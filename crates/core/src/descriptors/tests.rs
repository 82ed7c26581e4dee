//! The table, compared with sets.

use std::collections::BTreeSet;
use std::ptr;

use super::*;

/// Places for some descriptors.
struct Places([FirstWait<()>; 8]);

impl Firsts for Places {
    type Waiter = ();

    fn places(&self) -> &[FirstWait<()>] {
        &self.0
    }

    fn place(&mut self, descriptor: usize) -> Option<&mut FirstWait<()>> {
        self.0.get_mut(descriptor)
    }
}

fn table() -> Table<Places> {
    Table::new(Places(std::array::from_fn(|_| FirstWait::default())))
}

/// Random changes.
#[test]
fn a_table_has_the_waits_that_were_entered_and_not_taken_out() {
    let waits: Vec<_> =
        (0..40).map(|number| DescriptorWait::new(number % 7, 1 << (number % 3), &())).collect();
    let mut table = table();
    let mut entered = BTreeSet::new();
    let mut random = 1_u64;
    for _ in 0..2000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (random >> 33) as usize % waits.len();
        if entered.insert(number) {
            // SAFETY: not in, and it outlives the table.
            assert_eq!(unsafe { table.add(&waits[number]) }, Some(number % 7));
        } else {
            entered.remove(&number);
            table.remove(&waits[number]);
        }
        for descriptor in 0..8 {
            let of = |number: &&usize| waits[**number].descriptor == descriptor;
            let expected: BTreeSet<_> =
                entered.iter().filter(of).map(|&number| &raw const waits[number]).collect();
            let found: BTreeSet<_> = table.of(descriptor as usize).map(ptr::from_ref).collect();
            assert_eq!(found, expected);
            let events = entered.iter().filter(of).map(|&number| 1 << (number % 3));
            assert_eq!(table.events(descriptor as usize), events.fold(0, |all, one| all | one));
        }
    }
}

#[test]
fn a_wait_without_a_place_is_neither_entered_nor_taken_out() {
    let mut table = table();
    for descriptor in [-1, 8, i32::MAX] {
        let wait = DescriptorWait::new(descriptor, 1, &());
        // SAFETY: not in, and not taken.
        assert_eq!(unsafe { table.add(&wait) }, None);
        table.remove(&wait);
    }
    assert!((0..9).all(|descriptor| table.of(descriptor).next().is_none()));
}
