//! A worker and its ledger.

use super::*;
use crate::lock::testing::Tester;

fn jobs<const N: usize>() -> [Job<usize>; N] {
    std::array::from_fn(Job::new)
}

fn ask(ledger: &JobLedger<usize>, job: &Job<usize>) -> bool {
    // SAFETY: new, and it outlives the ledger's use.
    unsafe { ledger.ask(&Tester(1), NonNull::from(job)) }
}

fn number(job: NonNull<Job<usize>>) -> usize {
    // SAFETY: the jobs of these tests outlive their ledgers.
    *unsafe { job.as_ref() }.payload()
}

/// Runs the jobs that were asked for; returns their numbers.
fn work(ledger: &JobLedger<usize>) -> Vec<usize> {
    let make = |job: NonNull<Job<usize>>| {
        // SAFETY: as in `number`.
        unsafe { job.as_ref() }.run(|exec_mode| assert!(exec_mode.is_in_own_code()));
        let number = number(job);
        // SAFETY: just taken, and not used any more.
        unsafe { ledger.tell(job) };
        number
    };
    ledger.asked().map(make).collect()
}

fn taken(ledger: &JobLedger<usize>) -> Vec<usize> {
    let mut numbers = Vec::new();
    ledger.take_over(&Tester(1), |job| numbers.push(number(job)));
    numbers
}

fn settled(ledger: &JobLedger<usize>) -> Vec<(usize, bool)> {
    let mut numbers = Vec::new();
    // SAFETY: as in `number`.
    let is_lost = |job: NonNull<Job<usize>>| unsafe { job.as_ref() }.is_lost();
    // SAFETY: the tests have one thread, which is done with the jobs that it has taken.
    unsafe { ledger.settle(&Tester(1), |job| numbers.push((number(job), is_lost(job)))) };
    numbers
}

fn died_in_a_call(ledger: &JobLedger<usize>) -> bool {
    // SAFETY: the tests have one thread, which stands for the dead one between its calls.
    unsafe { ledger.died_in_a_call(&Tester(3), Tester(1).id()) }
}

#[test]
fn calls_are_made_in_the_order_in_which_they_were_asked_for() {
    let (ledger, jobs) = (JobLedger::new(), jobs::<3>());
    assert_eq!(jobs.each_ref().map(|job| ask(&ledger, job)), [true, false, false]);
    assert!(!ledger.has_news());
    assert_eq!(work(&ledger), [0, 1, 2]);
    assert!(ledger.has_news());
    assert_eq!(taken(&ledger), [0, 1, 2]);
    assert!(!ledger.has_news() && ledger.oldest().is_none());
}

#[test]
fn jobs_leave_in_any_order() {
    let (ledger, jobs) = (JobLedger::new(), jobs::<4>());
    let _ = jobs.each_ref().map(|job| ask(&ledger, job));
    assert_eq!(ledger.asked().count(), 4);
    for left in [1, 3, 0, 2] {
        // SAFETY: taken above.
        unsafe { ledger.tell(NonNull::from(&jobs[left])) };
        assert_eq!(taken(&ledger), [left]);
    }
    assert!(ledger.oldest().is_none());
    assert!(ledger.newest.load(Ordering::Relaxed).is_null());
}

#[test]
fn a_closed_ledger_gives_nothing_out_until_it_is_settled() {
    let (ledger, jobs) = (JobLedger::new(), jobs::<3>());
    let _ = [&jobs[0], &jobs[1]].map(|job| ask(&ledger, job));
    ledger.close();
    assert!(ledger.is_closed() && ledger.has_news());
    ask(&ledger, &jobs[2]);
    assert!(work(&ledger).is_empty());
    assert!(settled(&ledger).is_empty());
    assert!(!ledger.has_news());
    assert_eq!(work(&ledger), [0, 1, 2]);
}

#[test]
fn calls_of_the_dead_are_repeated_lost_or_over() {
    let (ledger, jobs) = (JobLedger::new(), jobs::<5>());
    let _ = jobs.each_ref().map(|job| ask(&ledger, job));
    let in_hand: Vec<_> = ledger.asked().collect();
    for &job in &in_hand[1..4] {
        // SAFETY: as in `number`.
        unsafe { job.as_ref() }.run(|_| ());
    }
    // SAFETY: taken, and not used any more.
    unsafe { ledger.tell(in_hand[1]) };
    // Over, and not reported.
    jobs[2].state.store(OVER, Ordering::Relaxed);
    ledger.close();
    assert_eq!(settled(&ledger), [(1, false), (2, false), (3, true)]);
    assert_eq!(work(&ledger), [0, 4]);
    assert_eq!(taken(&ledger), [0, 4]);
    assert!(ledger.oldest().is_none());
}

#[test]
fn only_a_death_inside_of_a_call_of_the_runtime_is_one() {
    let (ledger, [job]) = (JobLedger::new(), jobs());
    ask(&ledger, &job);
    assert!(!died_in_a_call(&ledger));
    job.run(|exec_mode| {
        assert!(!died_in_a_call(&ledger));
        assert!(exec_mode.enter(false));
        assert!(died_in_a_call(&ledger));
        assert!(exec_mode.leave());
        assert!(!died_in_a_call(&ledger));
    });
    assert!(!died_in_a_call(&ledger));
}

#[test]
fn another_takes_over_for_a_worker_that_is_busy_but_not_in_the_midst_of_that() {
    let (ledger, jobs) = (JobLedger::new(), jobs::<2>());
    let _ = jobs.each_ref().map(|job| ask(&ledger, job));
    let taken = || {
        let mut numbers = Vec::new();
        ledger.try_take_over(&Tester(2), |job| numbers.push(number(job)));
        numbers
    };
    assert!(taken().is_empty());
    assert_eq!(work(&ledger), [0, 1]);
    let held = ledger.lock.lock(&Tester(1));
    assert!(taken().is_empty());
    assert!(!died_in_a_call(&ledger), "a dead holder is not waited for");
    drop(held);
    assert_eq!(taken(), [0, 1]);
    assert!(!ledger.has_news() && ledger.oldest().is_none());
}
