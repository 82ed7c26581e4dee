//! Table and area against simple counterparts.

use std::ptr::{self, NonNull};

use proptest::prelude::*;

use super::*;
use crate::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::testing::scaled;

const ME: Tester = Tester(1);

#[test]
fn conditions_are_levels() {
    use Condition::*;
    let cases = [
        (ChangedFrom(3), [true, false, true]),
        (Equal(3), [false, true, false]),
        (AtLeast(3), [false, true, true]),
        (AnyBit(3), [true, true, false]),
        (AnyBit(0), [false, false, false]),
    ];
    for (condition, expected) in cases {
        assert_eq!([2u32, 3, 4].map(|value| condition.holds(value)), expected, "{condition:?}");
    }
    assert!(AtLeast(1 << 40).holds(1u64 << 41), "all 64 bits count");
}

/// Checks each condition on `value` against std's operators, and a look at the word itself.
macro_rules! check_conditions {
    ($atomic:ty, $value:expr, $operand:expr, $any_bit:expr) => {
        let (value, operand) = ($value, $operand);
        let word = <$atomic>::new(value);
        let cases = [
            (Condition::ChangedFrom(operand), value != operand),
            (Condition::Equal(operand), value == operand),
            (Condition::AtLeast(operand), value >= operand),
            (Condition::AnyBit(operand), $any_bit),
        ];
        for (condition, expected) in cases {
            prop_assert_eq!(condition.holds(value), expected, "{:?} of {:?}", condition, value);
            prop_assert_eq!(WatchedWord::new(&word, condition).holds(), expected);
        }
        let both = [WatchValue::from_bits(value.to_bits()), value];
        prop_assert_eq!(both[0], both[1]);
    };
}

macro_rules! conditions_of_integers {
    ($($test:ident: $value:ty, $atomic:ty;)*) => {
        proptest! {$(
            #[test]
            fn $test(value: $value, other: $value, near in 0..3u8) {
                // Mostly neighbours, where an error of one shows.
                for operand in [other, value.wrapping_add(near as $value), value.wrapping_sub(1)] {
                    check_conditions!($atomic, value, operand, value & operand != 0);
                }
            }
        )*}
    };
}

conditions_of_integers! {
    conditions_of_u8: u8, AtomicU8;
    conditions_of_u16: u16, AtomicU16;
    conditions_of_u32: u32, AtomicU32;
    conditions_of_u64: u64, AtomicU64;
    conditions_of_usize: usize, AtomicUsize;
    conditions_of_i8: i8, AtomicI8;
    conditions_of_i16: i16, AtomicI16;
    conditions_of_i32: i32, AtomicI32;
    conditions_of_i64: i64, AtomicI64;
    conditions_of_isize: isize, AtomicIsize;
}

proptest! {
    #[test]
    fn conditions_of_bool(value: bool, operand: bool) {
        check_conditions!(AtomicBool, value, operand, value & operand);
    }
}

#[test]
fn a_pointer_that_was_seen_leads_to_its_target() {
    let target = Box::into_raw(Box::new(7u32));
    let word = AtomicPtr::new(ptr::null_mut());
    let entry =
        WatchEntry::new(&word, Condition::ChangedFrom(ptr::null_mut::<u32>()), Notice::Polled, ());
    let table = WatchTable::new();
    // SAFETY: in no table; entry and word outlive the table.
    unsafe { table.insert(&ME, NonNull::from(&entry)) };
    assert_eq!(table.scan_all(&ME, |()| panic!("it is null")), 0);
    word.store(target, Ordering::Release);
    assert_eq!(table.scan_all(&ME, |()| ()), 1);
    let EntryState::Hit(bits) = entry.state() else { panic!() };
    let until = Condition::ChangedFrom(ptr::null_mut::<u32>());
    let seen = WatchValue::seen(bits, &word, until).expect("it is there still");
    assert_eq!((seen.to_bits(), bits), (target.to_bits(), target.addr() as u64));
    // SAFETY: a live value that only this test has.
    assert_eq!(*unsafe { Box::from_raw(seen) }, 7);
    word.store(ptr::null_mut(), Ordering::Release);
    assert_eq!(WatchValue::seen(bits, &word, until), None);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize),
    Remove(usize),
    Write(usize),
    Scan(usize),
    ScanAll,
    Notify(usize),
}

const ENTRIES: usize = 8;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..ENTRIES).prop_map(Step::Insert),
        1 => (0..ENTRIES).prop_map(Step::Remove),
        2 => (0..ENTRIES).prop_map(Step::Write),
        1 => (0usize..5).prop_map(Step::Scan),
        1 => Just(Step::ScanAll),
        2 => (0..ENTRIES).prop_map(Step::Notify),
    ]
}

fn notice(i: usize) -> Notice {
    [Notice::Polled, Notice::Notified, Notice::Doorbell, Notice::Elsewhere][i % 4]
}

/// The expected contents of the table: the listed entries, and the polled entries in the order of
/// the scan.
#[derive(Default)]
struct Expected {
    states: [Option<EntryState>; ENTRIES],
    turns: std::collections::VecDeque<usize>,
}

impl Expected {
    fn listed(&self, i: usize) -> bool {
        self.states[i] == Some(EntryState::Listed)
    }

    fn scan(&mut self, budget: usize, words: &[AtomicU64]) -> Vec<usize> {
        let mut hits = Vec::new();
        for _ in 0..budget.min(self.turns.len()) {
            let Some(i) = self.turns.pop_front() else { break };
            match words[i].load(Ordering::Relaxed) {
                0 => self.turns.push_back(i),
                seen => {
                    self.states[i] = Some(EntryState::Hit(seen));
                    hits.push(i);
                }
            }
        }
        hits
    }
}

proptest! {
    #[test]
    fn the_table_behaves_as_a_plain_one(steps in prop::collection::vec(step(), 0..scaled(200))) {
        let words: [AtomicU64; ENTRIES] = Default::default();
        let entries: Vec<_> = (0..ENTRIES)
            .map(|i| WatchEntry::new(&words[i], Condition::AtLeast(1u64), notice(i), i))
            .collect();
        let (table, mut expected) = (WatchTable::new(), Expected::default());
        for (step, now) in steps.into_iter().zip(1u64..) {
            match step {
                Step::Insert(i) if expected.listed(i) => {}
                Step::Insert(i) => {
                    words[i].store(0, Ordering::Relaxed);
                    // SAFETY: in no table; entry and word outlive the table.
                    unsafe { table.insert(&ME, NonNull::from(&entries[i])) };
                    expected.states[i] = Some(EntryState::Listed);
                    if notice(i) != Notice::Notified {
                        expected.turns.push_back(i);
                    }
                }
                Step::Remove(i) => {
                    // SAFETY: alive, and only ever in this table.
                    let removed = unsafe { table.remove(&ME, NonNull::from(&entries[i])) };
                    prop_assert_eq!(removed == Unlinked::Mine, expected.listed(i));
                    if removed == Unlinked::Mine {
                        expected.states[i] = Some(EntryState::Out);
                        expected.turns.retain(|&turn| turn != i);
                    }
                }
                Step::Write(i) => words[i].store(now, Ordering::Relaxed),
                Step::Scan(budget) => {
                    let mut hits = Vec::new();
                    let scan = table.scan(&ME, budget, |waiter| hits.push(waiter));
                    let visited = budget.min(expected.turns.len());
                    prop_assert_eq!(&hits, &expected.scan(budget, &words));
                    prop_assert_eq!(scan, Scan::Done { visited, hits: hits.len() });
                }
                Step::ScanAll => {
                    let mut hits = Vec::new();
                    let count = table.scan_all(&ME, |waiter| hits.push(waiter));
                    prop_assert_eq!(&hits, &expected.scan(ENTRIES, &words));
                    prop_assert_eq!(count, hits.len());
                }
                Step::Notify(i) => {
                    let seen = words[i].load(Ordering::Relaxed);
                    let hit = expected.listed(i) && notice(i) == Notice::Notified && seen != 0;
                    if hit {
                        expected.states[i] = Some(EntryState::Hit(seen));
                    }
                    let mut hits = Vec::new();
                    let address = ptr::from_ref(&words[i]).addr();
                    let count = table.notify(&ME, address, |waiter| hits.push(waiter));
                    prop_assert_eq!((count, hits), if hit { (1, vec![i]) } else { (0, vec![]) });
                }
            }
            for (entry, state) in entries.iter().zip(expected.states) {
                prop_assert_eq!(entry.state(), state.unwrap_or(EntryState::Out));
            }
            let listed = |kind| (0..ENTRIES).filter(|&i| expected.listed(i) && notice(i) == kind).count();
            let elsewhere = listed(Notice::Elsewhere);
            prop_assert_eq!(table.polled(), listed(Notice::Polled) + elsewhere);
            prop_assert_eq!(table.elsewhere(), elsewhere);
            prop_assert_eq!(table.doorbells(), listed(Notice::Doorbell));
            prop_assert_eq!(table.notified(), listed(Notice::Notified));
        }
    }

    #[test]
    fn the_scalar_scan_finds_the_lowest_hit(
        pairs in prop::collection::vec((0u32..4, 0u32..4), 0..scaled(40)), ends: (prop::sample::Index, prop::sample::Index),
    ) {
        let (words, masks): (Vec<_>, Vec<_>) =
            pairs.iter().map(|&(word, mask)| (AtomicU32::new(word), AtomicU32::new(mask))).unzip();
        let mut ends = [ends.0, ends.1].map(|end| end.index(pairs.len() + 1));
        ends.sort_unstable();
        let [from, to] = ends;
        let expected = (from..to).find(|&i| pairs[i].0 & pairs[i].1 != 0);
        prop_assert_eq!(find_hit::<u32>(&words, &masks, from, to), expected);
    }
}

#[test]
fn words_of_both_widths_are_watched() {
    let (narrow, wide) = (AtomicU32::new(5), AtomicU64::new(1 << 40));
    let entries = [
        WatchEntry::new(&narrow, Condition::Equal(5u32), Notice::Polled, "narrow"),
        WatchEntry::new(&wide, Condition::AtLeast(1u64 << 40), Notice::Polled, "wide"),
    ];
    let (table, mut hits) = (WatchTable::new(), Vec::new());
    for entry in &entries {
        // SAFETY: in no table; entry and word outlive the table.
        unsafe { table.insert(&ME, NonNull::from(entry)) };
    }
    let scan = table.scan(&ME, 9, |waiter| hits.push(waiter));
    assert_eq!(scan, Scan::Done { visited: 2, hits: 2 });
    assert_eq!(hits, ["narrow", "wide"]);
    assert_eq!(entries.map(|entry| entry.state()), [EntryState::Hit(5), EntryState::Hit(1 << 40)]);
}

#[test]
fn a_notification_ends_all_notified_watches_of_its_word_and_none_of_another() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let watched = [0, 0, 1, 0];
    let entries: Vec<_> = (0..4)
        .map(|i| WatchEntry::new(&words[watched[i]], Condition::Equal(1u32), Notice::Notified, i))
        .collect();
    let table = WatchTable::new();
    for entry in &entries {
        // SAFETY: in no table; entry and word outlive the table.
        unsafe { table.insert(&ME, NonNull::from(entry)) };
    }
    let notify = |word: usize| {
        let (mut hits, address) = (Vec::new(), ptr::from_ref(&words[word]).addr());
        let count = table.notify(&ME, address, |waiter| hits.push(waiter));
        hits.sort_unstable();
        (count, hits)
    };
    assert_eq!(notify(0), (0, vec![]), "nothing has changed");
    words.iter().for_each(|word| word.store(1, Ordering::Release));
    assert_eq!(notify(0), (3, vec![0, 1, 3]));
    let states: Vec<_> = entries.iter().map(WatchEntry::state).collect();
    let hit = EntryState::Hit(1);
    assert_eq!(states, [hit, hit, EntryState::Listed, hit]);
    assert_eq!(table.notified(), 1);
    assert_eq!(notify(1), (1, vec![2]));
    assert_eq!((notify(0), table.notified()), ((0, vec![]), 0));
}

#[test]
fn a_probe_looks_at_more_than_one_word() {
    struct Sum([AtomicU32; 2]);
    impl Probe for Sum {
        fn sample(&self) -> Option<u64> {
            let sum: u32 = self.0.iter().map(|word| word.load(Ordering::Relaxed)).sum();
            (sum > 4).then_some(u64::from(sum))
        }
    }
    let sum = Sum([AtomicU32::new(3), AtomicU32::new(1)]);
    let (table, entry) = (WatchTable::new(), WatchEntry::probing(&sum, Notice::Doorbell, 7));
    // SAFETY: in no table; entry and probe outlive the table.
    unsafe { table.insert(&ME, NonNull::from(&entry)) };
    assert_eq!(table.scan(&ME, 9, |_| panic!("not yet")), Scan::Done { visited: 1, hits: 0 });
    sum.0[1].store(2, Ordering::Relaxed);
    assert_eq!(table.scan_all(&ME, |waiter| assert_eq!(waiter, 7)), 1);
    assert_eq!((entry.state(), table.doorbells()), (EntryState::Hit(5), 0));
}

#[test]
fn a_scan_does_not_wait_for_another() {
    let words = [AtomicU32::new(1), AtomicU32::new(1)];
    let entries = words
        .each_ref()
        .map(|word| WatchEntry::new(word, Condition::Equal(1u32), Notice::Polled, ()));
    let table = WatchTable::new();
    for entry in &entries {
        // SAFETY: in no table; entry and word outlive the table.
        unsafe { table.insert(&ME, NonNull::from(entry)) };
    }
    let mut within = Vec::new();
    let outer = table.scan(&ME, 1, |()| within.push(table.scan(&Tester(2), 1, |()| ())));
    assert_eq!(outer, Scan::Done { visited: 1, hits: 1 });
    assert_eq!(within, [Scan::Busy]);
}

#[test]
fn the_end_of_a_wait_disarms_the_word() {
    let (words, masks): ([AtomicU32; 2], [AtomicU32; 2]) = Default::default();
    let waiters: [AtomicPtr<u8>; 2] = Default::default();
    let area = Area::<u32, _>::new(&words, &masks, &waiters);
    let waiter = NonNull::from(&7u8);
    area.arm(1, 0b10, waiter);
    assert!(area.any_armed());
    words[1].store(0b01, Ordering::Release);
    assert_eq!((area.find_hit(0, 2), area.claim_hit(1)), (None, None));
    assert_eq!(area.take_waiter(1), Some(waiter));
    words[1].store(0b10, Ordering::Release);
    assert_eq!((area.find_hit(0, 2), area.claim_hit(1), area.take_waiter(1)), (None, None, None));
    assert!(!area.any_armed());
    assert_eq!((area.take(1), area.take(1)), (0b10, 0));
}

#[test]
fn a_close_ends_the_wait_for_each_word() {
    let (words, masks): ([AtomicU32; 3], [AtomicU32; 3]) = Default::default();
    let waiters: [AtomicPtr<u8>; 3] = Default::default();
    let (area, closing) = (Area::<u32, _>::new(&words, &masks, &waiters), Closing::new());
    let fibers = [7u8, 8].each_ref().map(NonNull::from);
    assert_eq!(area.begin_wait(&closing, 0, 1, fibers[0]), Begun::Waits);
    assert_eq!(area.begin_wait(&closing, 2, 1, fibers[1]), Begun::Waits);
    let mut woken = Vec::new();
    area.close(&closing, |waiter| woken.push(waiter));
    assert_eq!(woken, fibers);
    assert_eq!(area.begin_wait(&closing, 1, 1, fibers[0]), Begun::Closed);
}

#[test]
#[should_panic(expected = "one length")]
fn arrays_of_different_lengths_are_refused() {
    Area::<u32, u8>::new(&[AtomicU32::new(0)], &[], &[]);
}
