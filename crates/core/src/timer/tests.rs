//! The wheel against a plain map.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use proptest::prelude::*;

use super::*;
use crate::lock::testing::Tester;
use crate::testing::scaled;

const ME: Tester = Tester(1);
const TIMERS: usize = 16;

#[derive(Clone, Debug)]
enum Step {
    /// Arms a timer; the due time is relative to now.
    Arm(usize, i64),
    Disarm(usize),
    /// Time passes, then the owner fires.
    Pass(u64),
    /// The owner sleeps until something is due.
    Sleep,
}

/// Generates distances up to about two hours, most of them far less.
fn distance() -> impl Strategy<Value = u64> {
    (0u32..43, any::<u64>()).prop_map(|(bits, any)| any % (1 << bits))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..TIMERS, distance()).prop_map(|(i, ns)| Step::Arm(i, ns as i64)),
        1 => (0..TIMERS, 0i64..5000).prop_map(|(i, ns)| Step::Arm(i, -ns)),
        2 => (0..TIMERS).prop_map(Step::Disarm),
        2 => distance().prop_map(Step::Pass),
        2 => Just(Step::Sleep),
    ]
}

struct Checked {
    wheel: Wheel<usize>,
    timers: Vec<Timer<usize>>,
    now: u64,
    /// The due time of each armed timer: in whole ticks, and not before it was armed.
    armed: BTreeMap<usize, u64>,
    disarmed: usize,
    /// Number of times that the owner slept until nothing was due.
    in_vain: usize,
}

impl Checked {
    fn new(timers: usize, now: u64) -> Self {
        let timers = (0..timers).map(Timer::new).collect();
        Self { wheel: Wheel::new(), timers, now, armed: BTreeMap::new(), disarmed: 0, in_vain: 0 }
    }

    fn arm(&mut self, i: usize, due_ns: u64) {
        // SAFETY: in no wheel, and it stays in place as long as this one.
        unsafe { self.wheel.arm(&ME, NonNull::from(&self.timers[i]), due_ns) };
        self.armed.insert(i, due_ns.next_multiple_of(TICK_NS).max(self.now - self.now % TICK_NS));
    }

    fn disarm(&mut self, i: usize) {
        // SAFETY: alive, and only ever in this wheel.
        let unlinked = unsafe { self.wheel.disarm(&ME, NonNull::from(&self.timers[i])) };
        assert_eq!(unlinked == Unlinked::Mine, self.armed.remove(&i).is_some());
        self.disarmed += usize::from(unlinked == Unlinked::Mine);
    }

    /// Fires, and compares with the expected timers. Returns the number of fired timers.
    fn fire(&mut self) -> usize {
        let mut fired = Vec::new();
        let count = self.wheel.fire(&ME, self.now, |waiter| fired.push(waiter));
        let take = |i| self.armed.remove(i).expect("fires once");
        let dues: Vec<_> = fired.iter().map(take).collect();
        assert_eq!(dues.len(), count);
        assert!(dues.is_sorted(), "out of order: {dues:?}");
        assert!(dues.iter().all(|&due| due <= self.now), "early");
        assert!(fired.iter().all(|&i| self.timers[i].state() == TimerState::Fired));
        count
    }

    /// Sleeps until a timer fires; no timer is disarmed meanwhile.
    fn sleep(&mut self) {
        for _ in 0..2 {
            if self.armed.is_empty() {
                return;
            }
            self.now = self.now.max(self.wheel.next_due());
            if self.fire() > 0 {
                return;
            }
            self.in_vain += 1;
        }
        panic!("woke in vain twice in a row");
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Arm(i, _) if self.armed.contains_key(&i) => {}
            Step::Arm(i, ns) => self.arm(i, self.now.saturating_add_signed(ns)),
            Step::Disarm(i) => self.disarm(i),
            Step::Pass(ns) => {
                self.now += ns;
                self.fire();
                assert!(self.armed.values().all(|&due| due > self.now), "late");
            }
            Step::Sleep => self.sleep(),
        }
    }

    fn check(&self) {
        assert!(self.in_vain <= self.disarmed, "woke in vain, and no timer was disarmed");
        let next = self.wheel.next_due();
        let Some(&earliest) = self.armed.values().min() else {
            return assert_eq!(next, u64::MAX);
        };
        assert!(next <= earliest.max(self.now), "the owner oversleeps");
        let exact = next == earliest || earliest <= self.now;
        assert!(exact || self.disarmed > 0, "{next} is too early for {earliest}");
    }
}

proptest! {
    #[test]
    fn behaves_as_a_plain_map(start in 0u64..1 << 60, steps in prop::collection::vec(step(), 0..scaled(200))) {
        let mut checked = Checked::new(TIMERS, start);
        for step in steps {
            checked.take(step);
            checked.check();
        }
    }

    /// Timers close together share slots on every level, and disarming leaves other timers behind.
    #[test]
    fn sleeps_from_one_due_time_to_the_next_meet_each_timer(
        dues in prop::collection::vec((0..LAST_TICK, any::<bool>()), 1..100), close in 0u32..54,
    ) {
        let mut checked = Checked::new(dues.len(), 0);
        for (i, (tick, _)) in dues.iter().enumerate() {
            checked.arm(i, (tick >> close) * TICK_NS);
        }
        for (i, _) in dues.iter().enumerate().filter(|(_, (_, disarm))| *disarm) {
            checked.disarm(i);
        }
        while !checked.armed.is_empty() {
            checked.sleep();
            checked.check();
        }
    }
}

#[test]
fn a_timer_fires_when_its_tick_is_complete_and_not_before() {
    let mut checked = Checked::new(1, 0);
    for due_ns in [1, TICK_NS - 1, TICK_NS] {
        checked.wheel = Wheel::new();
        checked.arm(0, due_ns);
        assert_eq!(checked.wheel.fire(&ME, TICK_NS - 1, |_| panic!("early")), 0);
        checked.now = TICK_NS;
        assert_eq!(checked.fire(), 1);
        checked.now = 0;
    }
}

#[test]
fn one_sleep_reaches_a_lone_timer_however_far_it_is() {
    for bits in 0..64 {
        let mut checked = Checked::new(1, 0);
        checked.arm(0, (1 << bits) - 1);
        let due = ((1u64 << bits) - 1).next_multiple_of(TICK_NS);
        assert_eq!(checked.wheel.next_due(), due);
        checked.now = due;
        assert_eq!(checked.fire(), 1);
    }
}

#[test]
fn a_time_that_never_comes_is_armed_and_disarmed_as_any_other() {
    let (wheel, timer) = (Wheel::new(), Timer::new(()));
    // SAFETY: in no wheel, and it outlives this one.
    unsafe { wheel.arm(&ME, NonNull::from(&timer), u64::MAX) };
    assert!(wheel.next_due() > u64::MAX - TICK_NS && wheel.next_due() < u64::MAX);
    assert_eq!(wheel.fire(&ME, u64::MAX - TICK_NS, |()| panic!("early")), 0);
    // SAFETY: alive, and only ever in this wheel.
    assert_eq!(unsafe { wheel.disarm(&ME, NonNull::from(&timer)) }, Unlinked::Mine);
    assert_eq!((timer.state(), wheel.next_due()), (TimerState::Out, u64::MAX));
}

#[test]
fn a_clock_read_before_the_last_fire_does_not_turn_the_wheel_back() {
    let (mut levels, timer) = (Levels::EMPTY, Timer::new(()));
    let timer = NonNull::from(&timer);
    // SAFETY: the timer outlives the levels, is in them from insert to remove, and no other thread
    // has them.
    unsafe {
        assert_eq!(levels.pop_due(70), None);
        levels.insert(timer, 0);
        assert_eq!(levels.pop_due(5), None);
        levels.remove(timer);
    }
    assert_eq!(levels.earliest(), None);
}

#[test]
fn another_thread_fires_for_the_owner_unless_the_lock_is_held() {
    let (wheel, timer) = (Wheel::new(), Timer::new(7));
    // SAFETY: in no wheel, and it outlives this one.
    unsafe { wheel.arm(&ME, NonNull::from(&timer), TICK_NS) };
    let other = Tester(2);
    let held = wheel.lock.lock(&ME);
    assert_eq!(wheel.try_fire(&other, TICK_NS, |_| unreachable!("the owner may be at it")), 0);
    drop(held);
    assert_eq!(wheel.try_fire(&other, TICK_NS - 1, |_| unreachable!("nothing is due")), 0);
    assert_eq!(wheel.try_fire(&other, TICK_NS, |waiter| assert_eq!(waiter, 7)), 1);
    assert_eq!((timer.state(), wheel.next_due()), (TimerState::Fired, u64::MAX));
}

#[test]
fn a_panic_in_a_call_leaves_the_other_timers_armed() {
    let mut checked = Checked::new(3, 0);
    for i in 0..3 {
        checked.arm(i, i as u64 * TICK_NS);
    }
    let calls =
        AssertUnwindSafe(|| checked.wheel.fire(&ME, TICK_NS, |waiter| assert_eq!(waiter, 0)));
    assert!(panic::catch_unwind(calls).is_err());
    let states: Vec<_> = checked.timers.iter().map(Timer::state).collect();
    assert_eq!(states, [TimerState::Fired, TimerState::Fired, TimerState::Armed]);
    checked.armed.retain(|&i, _| i == 2);
    checked.now = TICK_NS;
    assert_eq!(checked.fire(), 0);
    checked.check();
    checked.sleep();
    checked.check();
}

#[test]
fn a_million_timers_fire_once_each_and_in_order() {
    const MILLION: usize = if cfg!(miri) { 50 } else { 1_000_000 };
    let mut checked = Checked::new(MILLION, 0);
    // A multiple of a number that has no factor in common with a million: a shuffle without a
    // generator.
    let due = |i: usize| (i * 7_654_321 % MILLION) as u64 * 3_600_000;
    for i in 0..MILLION {
        checked.arm(i, due(i));
    }
    for i in (0..MILLION).step_by(3) {
        checked.disarm(i);
    }
    let mut fired = 0;
    while checked.wheel.next_due() != u64::MAX {
        checked.now += 10_000_000_000;
        fired += checked.fire();
    }
    assert_eq!(fired + checked.disarmed, MILLION);
}
