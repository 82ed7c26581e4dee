use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::quota::Way;
use super::*;
use crate::kit::{Effort, Sample, Unit};

fn situations_of(quick: bool) -> Vec<Situation> {
    situations(&Options { quick, ..Options::default() })
}

fn specs() -> Vec<ScarceSpec> {
    let limits = [Way::ControlGroup, Way::Stops].into_iter();
    let limit =
        |quota: Option<Quota>| limits.clone().map(move |way| Some(Limit { quota: quota?, way }));
    let mut all = Vec::new();
    for situation in situations_of(false) {
        all.extend(limit(situation.quota).map(|limit| situation.spec(10, limit)));
    }
    all
}

#[test]
fn a_sample_runs_the_point_of_its_params() {
    for spec in specs() {
        assert_eq!(ScarceSpec::from_params(&spec.params()), Some(spec));
    }
}

#[test]
fn params_of_no_point_are_refused() {
    let params = || specs()[0].params();
    assert!(measure("daiko", &params()).is_some());
    assert!(measure("nonsense", &params()).is_none());
    for (key, value) in [("threads", 1_u64), ("workers", 0), ("busy", 1_000_000)] {
        assert!(measure("daiko", &params().with(key, value)).is_none(), "{key}");
    }
    for (key, value) in [("preset", "fast"), ("quota", "0.7")] {
        assert!(measure("daiko", &params().with(key, value)).is_none(), "{key}");
    }
    let without_way = params().with("quota", Quota::Half);
    assert!(measure("daiko", &without_way).is_none());
    assert!(measure("daiko", &without_way.with("quota-by", Way::Stops)).is_some());
}

#[test]
fn a_quick_run_has_fewer_of_the_same_situations() {
    let (quick, full) = (situations_of(true), situations_of(false));
    assert!(quick.len() < full.len() && quick.iter().all(|one| full.contains(one)));
}

#[test]
fn the_base_of_the_situations_is_measured_whatever_workers_are_asked() {
    for workers in [vec![2], vec![1, 64]] {
        let options = Options { workers: Some(workers), ..Options::default() };
        let is_base = |situation: &&Situation| **situation == Situation::plain(FEW_WORKERS);
        assert_eq!(situations(&options).iter().filter(is_base).count(), 1);
    }
}

#[test]
fn only_methods_with_presets_are_measured_with_one() {
    let plan = EXPERIMENT.plan(&Options::default());
    let with_preset = plan.iter().filter(|planned| planned.case.params.get("preset").is_some());
    let methods: BTreeSet<_> = with_preset.map(|planned| &planned.case.method[..]).collect();
    assert_eq!(methods, BTreeSet::from(["daiko", "daiko-own-mover"]));
}

#[test]
fn names_are_those_of_the_result_format() {
    assert_eq!((EXPERIMENT.methods)(), ["daiko", "daiko-own-mover", "tokio", "go"]);
    let plan = EXPERIMENT.plan(&Options { threads: Some(vec![10]), ..Options::default() });
    let cases: BTreeSet<String> = plan.iter().map(|planned| planned.case.to_string()).collect();
    for case in [
        "scarce daiko threads=10 workers=16 busy=0",
        "scarce daiko-own-mover threads=10 workers=2 preset=power busy=2",
        "scarce tokio threads=10 workers=2 busy=4",
    ] {
        assert!(cases.contains(case), "{case}: {cases:?}");
    }
    let halves = cases.iter().filter(|case| case.contains("quota=0.5 quota-by="));
    let (echoes, rings): (Vec<_>, Vec<_>) =
        halves.partition(|case| case.contains("connections=50"));
    assert_eq!([rings.len(), echoes.len()], [METHODS.len(), echo::SERVERS.len()]);
    assert!(cases.contains("scarce go connections=50 workers=2"), "{cases:?}");
}

#[test]
fn an_echo_runs_the_point_of_its_params() {
    for limit in [None, Some(Limit { quota: Quota::OneAndHalf, way: Way::ControlGroup })] {
        let spec = EchoSpec { connections: 50, limit };
        assert_eq!(EchoSpec::from_params(&spec.params()), Some(spec));
        assert!(measure("daiko", &spec.params()).is_some());
        assert!(measure("daiko-own-mover", &spec.params()).is_none());
        assert!(measure("daiko", &spec.params().with("workers", 3_u64)).is_none());
    }
}

fn assert_echoes(limit: Option<Limit>) {
    for (name, server) in echo::SERVERS {
        if let Err(skip) = server.supports() {
            println!("skipped: {name}: {skip}");
            continue;
        }
        let spec = EchoSpec { connections: 5, limit };
        // A sample binds its thread.
        let sampled = || spec.sample(server, Duration::from_millis(200));
        let sample = thread::scope(|threads| threads.spawn(sampled).join().expect("no panic"));
        let sample = sample.unwrap_or_else(|failure| panic!("{name}, {spec:?}: {failure}"));
        let has = |stat| sample.readings.iter().any(|one| one.stat.as_deref() == Some(stat));
        assert!(sample.rounds > 0 && has("throughput") && has("p99"), "{name}: {sample:?}");
    }
}

#[test]
fn every_echo_answers_while_it_is_stopped_and_continued() {
    assert_echoes(Some(Limit { quota: Quota::Half, way: Way::Stops }));
}

#[test]
fn every_echo_answers_in_a_control_group() {
    match control_group::choose(Quota::Half) {
        (limit, Ok(())) => assert_echoes(Some(limit)),
        (_, Err(skip)) => println!("skipped: every_echo_answers_in_a_control_group: {skip}"),
    }
}

fn sampled(method: &Method, spec: &ScarceSpec) -> Option<Sample> {
    if let Err(skip) = method.supports() {
        println!("skipped: {}: {skip}", method.name);
        return None;
    }
    let measure = measure(method.name, &spec.params()).expect("a point");
    let sample = measure(Effort { rounds: 1, limit: Duration::from_secs(60) });
    Some(sample.unwrap_or_else(|failure| panic!("{}, {spec:?}: {failure}", method.name)))
}

fn assert_sampled(spec: &ScarceSpec) {
    for method in METHODS {
        let Some(sample) = sampled(&method, spec) else { continue };
        let [reading] = &sample.readings[..] else { panic!("{}: {sample:?}", method.name) };
        assert_eq!((reading.unit, &reading.stat), (Unit::Nanoseconds, &None));
        assert!(sample.rounds > 0 && reading.value > 0.0, "{}: {sample:?}", method.name);
    }
}

fn spec() -> ScarceSpec {
    ScarceSpec { threads: 10, workers: 2, preset: None, busy: 0, limit: None }
}

#[test]
fn every_method_turns_with_more_workers_than_cpus() {
    assert_sampled(&ScarceSpec { workers: 4, ..spec() });
}

#[test]
fn every_method_turns_beside_busy_processes() {
    assert_sampled(&ScarceSpec { busy: 2, ..spec() });
}

#[test]
fn every_method_turns_while_it_is_stopped_and_continued() {
    let limit = Some(Limit { quota: Quota::Half, way: Way::Stops });
    assert_sampled(&ScarceSpec { limit, ..spec() });
}

#[test]
fn every_method_turns_in_a_control_group() {
    match control_group::choose(Quota::One) {
        (limit, Ok(())) => assert_sampled(&ScarceSpec { limit: Some(limit), ..spec() }),
        (_, Err(skip)) => println!("skipped: every_method_turns_in_a_control_group: {skip}"),
    }
}
