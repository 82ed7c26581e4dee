use std::time::Duration;

use super::item::*;
use super::*;
use crate::kit::{Case, Effort, Planned, Sample, Unit};

fn plan(options: &Options) -> Vec<Planned> {
    let mut plan = EXPERIMENT.plan(&Options { threads: Some(vec![2, 5]), ..options.clone() });
    // More waiting threads than these take seconds to create.
    plan.retain(|planned| planned.case.params.number("timers").is_none_or(|timers| timers <= 1000));
    plan
}

/// Points that this process can sample. Worker processes need a program of their own, and programs
/// in C a compiler and libraries.
fn plan_here() -> Vec<Planned> {
    let mut plan = plan(&Options::default());
    plan.retain(|planned| planned.case.method != processes::METHOD);
    let in_c = [posix::NATIVE.name, posix::DROPIN.name];
    plan.retain(|planned| !in_c.contains(&planned.case.method.as_str()) || planned.rounds.is_ok());
    plan
}

fn sample(planned: &Planned, rounds: u64, limit: Duration) -> Sample {
    let sample = EXPERIMENT.sample(&planned.case, Effort { rounds, limit });
    sample.unwrap_or_else(|failure| panic!("{}: {failure}", planned.case))
}

fn cases(plan: &[Planned]) -> Vec<String> {
    plan.iter().map(|planned| planned.case.to_string()).collect()
}

fn item(planned: &Planned) -> &str {
    planned.case.params.text("item").expect("every point has an item")
}

/// Number of operations per round, for items where it is constant.
fn times(item: &str) -> Option<u64> {
    let all: [(&[&str], u64); 7] = [
        (&["thread-info"], info::ASKED),
        (&["mutex", "semaphore"], calls::PAIRS),
        (&["mutex-lock", "mutex-unlock"], calls::ARRAY as u64),
        (&["switch-mutex", "switch-semaphore", "switch-condvar", "yield"], 2),
        (&["create", "join"], create::BATCH as u64),
        (&["fork-join"], create::FORKED as u64),
        (&["create-join", "errand", "mutex-contended", "channel"], 1),
    ];
    let row = all.iter().find(|(items, _)| items.contains(&item));
    row.map(|(_, times)| *times)
}

#[test]
fn every_item_of_every_method_gives_all_rounds_and_their_cost() {
    for planned in &plan_here() {
        let sample = sample(planned, 3, Duration::from_secs(60));
        assert_eq!(sample.rounds, 3, "{}", planned.case);
        let value = sample.readings[0].value;
        assert!(value > 0.0, "{}", planned.case);
        let count = sample.elapsed.as_nanos() as f64 / value;
        match times(item(planned)) {
            Some(times) => assert_eq!(count.round() as u64, 3 * times, "{}", planned.case),
            // This value is a median.
            None if item(planned) == "sleep-lateness" => {}
            None => assert!(count >= 2.5, "{}: a write is not all that is counted", planned.case),
        }
    }
}

#[test]
fn only_contended_locks_and_sleeps_have_a_worst_wait() {
    for planned in &plan_here() {
        let sample = sample(planned, 3, Duration::from_secs(60));
        let kinds: Vec<_> =
            sample.readings.iter().map(|reading| (reading.unit, reading.stat.as_deref())).collect();
        let plain = (Unit::Nanoseconds, None);
        let worst = (Unit::Nanoseconds, Some("max"));
        let has_worst = ["mutex-contended", "rwlock-contended", "sleep-lateness"];
        match has_worst.contains(&item(planned)) {
            true => assert_eq!(kinds, [plain, worst], "{}", planned.case),
            false => assert_eq!(kinds, [plain], "{}", planned.case),
        }
    }
}

#[test]
fn a_sample_ends_at_its_limit_with_whole_rounds() {
    for planned in &plan_here() {
        let sample = sample(planned, u64::MAX, Duration::from_millis(5));
        assert!(sample.rounds > 0 && sample.readings[0].value > 0.0, "{}", planned.case);
    }
}

#[test]
fn every_item_has_a_method_and_no_point_is_there_twice() {
    let plan = plan(&Options::default());
    for (name, _) in NAMES {
        assert!(plan.iter().any(|planned| item(planned) == name), "{name}");
    }
    let mut cases = cases(&plan);
    let all = cases.len();
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(cases.len(), all);
    let items: usize = METHODS.iter().map(|method| method.items().count()).sum();
    let many = METHODS.iter().flat_map(CostMethod::items);
    let many = many.filter(|item| !matches!(item.run, SampleRun::Few(..))).count();
    assert_eq!(all, items + many, "all items, contended locks and sleeps for two sizes");
}

#[test]
fn fibers_of_processes_do_all_that_those_of_threads_do() {
    let of = |method: &str| {
        let options = Options { methods: Some(vec![method.into()]), ..Options::default() };
        let params = |planned: Planned| planned.case.params;
        EXPERIMENT.plan(&options).into_iter().map(params).collect::<Vec<_>>()
    };
    assert_eq!(of(processes::METHOD), of("daiko"));
    assert_eq!(of("daiko-borrowed"), of("daiko"));
    assert!(!of("daiko-own-mover").is_empty());
    assert_eq!(of("daiko-borrowed-mover"), of("daiko-own-mover"));
}

#[test]
fn only_the_methods_asked_for_are_planned() {
    let options = Options { methods: Some(vec!["std-mpsc".into()]), ..Options::default() };
    assert_eq!(
        cases(&plan(&options)),
        [
            "costs std-mpsc item=channel kind=rendezvous",
            "costs std-mpsc item=channel kind=bounded",
            "costs std-mpsc item=channel kind=unbounded",
        ]
    );
}

#[test]
fn crowds_are_those_asked_for_or_up_to_a_thousand() {
    let crowds = |options: &Options| {
        let plan = EXPERIMENT.plan(options);
        let nptl = plan.into_iter().filter(|planned| planned.case.method == "nptl");
        let mutex = nptl.filter(|planned| item(planned) == "mutex-contended");
        let sizes = mutex.map(|planned| planned.case.params.number("threads").unwrap());
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(crowds(&Options::default()), [2, 10, 100, 1000]);
    assert_eq!(crowds(&Options { quick: true, ..Options::default() }), [2, 10, 100]);
    let asked = Options { threads: Some(vec![7, 10_001]), quick: true, ..Options::default() };
    assert_eq!(crowds(&asked), [7, 10_001]);
    // The plan of worker processes depends on other installed programs.
    let plan = EXPERIMENT.plan(&asked).into_iter();
    for planned in plan.filter(|planned| planned.case.method != processes::METHOD) {
        if let Some(threads) = planned.case.params.number("threads") {
            assert_eq!(planned.rounds.is_ok(), threads == 7, "{}", planned.case);
        }
    }
}

#[test]
fn sleeps_are_measured_beside_up_to_a_million_timers_where_there_is_room() {
    let timer_counts = |method: &str, quick| {
        let options = Options { methods: Some(vec![method.into()]), quick, ..Options::default() };
        let plan = EXPERIMENT.plan(&options).into_iter();
        let polling = plan.filter(|planned| planned.case.params.text("state") == Some("polling"));
        polling
            .map(|planned| (planned.case.params.number("timers").unwrap(), planned.rounds.is_ok()))
            .collect::<Vec<_>>()
    };
    let all = [(0, true), (1000, true), (100_000, true), (1_000_000, true)];
    assert_eq!(timer_counts("tokio", false), all);
    assert_eq!(timer_counts("tokio", true), all[..3]);
    assert_eq!(timer_counts("nptl", true), [(0, true), (1000, true), (100_000, false)]);
}

#[test]
fn a_point_that_does_not_exist_is_told() {
    let named = |name: &str| Params::new().with("item", name);
    for params in [
        Params::new(),
        named("nonsense"),
        named("thread-info"),
        named("thread-info").with("of", "nonsense"),
        named("mutex").with("threads", 2usize),
        named("mutex-contended"),
        named("mutex-contended").with("threads", 0usize),
        named("sleep-lateness").with("timers", 0usize),
        named("sleep-lateness").with("state", "polling"),
        named("sleep-lateness")
            .with("state", "polling")
            .with("timers", 0usize)
            .with("threads", 2usize),
    ] {
        let case = Case { experiment: "costs".into(), method: "nptl".into(), params };
        let effort = Effort { rounds: 1, limit: Duration::ZERO };
        assert!(EXPERIMENT.sample(&case, effort).is_err(), "{case}");
    }
}
