//! Profiles of processes, decoded by pprof's definition.

#[path = "../../../tests/child.rs"]
mod child;

use std::collections::HashMap;
use std::fs;
use std::hint;
use std::sync::Arc;
use std::time::Duration;

use child::{ReadyChild, ready};
use daiko_inspect::{FiberRow, FiberState, Subject, profile};
use prost::Message;

/// Longer than a profile in these tests ever takes.
const LONG: Duration = Duration::from_secs(3600);
const LOOKS: u64 = 20;

/// A part of `proto/profile.proto` of github.com/google/pprof.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Fibers that park, that wait for a lock, and that run.
fn fibers() {
    let runtime = daiko::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let named = |name: &str| daiko::Builder::new().on(0).name(name);
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let held = lock.lock();
        let _parks = named("parks").spawn(parks_here).unwrap();
        let locks = Arc::clone(&lock);
        let _locks = named("locks").spawn(move || locks_here(&locks)).unwrap();
        let _runs = daiko::Builder::new().on(1).name("runs").spawn(runs_here).unwrap();
        daiko::blocking(ready);
        drop(held);
        std::process::exit(0);
    });
}

#[inline(never)]
fn parks_here() {
    loop {
        daiko::park();
    }
}

#[inline(never)]
fn locks_here(lock: &daiko::sync::Mutex<()>) {
    let held = lock.lock();
    hint::black_box(&held);
}

#[inline(never)]
fn runs_here() {
    loop {
        hint::spin_loop();
    }
}

/// A decoded sample: the names of its functions, the innermost first, its values and labels.
struct Decoded {
    stack: Vec<String>,
    values: Vec<i64>,
    labels: HashMap<String, String>,
}

fn decode(bytes: &[u8]) -> (Profile, Vec<Decoded>) {
    let profile = Profile::decode(bytes).unwrap();
    assert_eq!(profile.string_table[0], "");
    let text = |at: i64| profile.string_table[at as usize].clone();
    let functions: HashMap<_, _> =
        profile.function.iter().map(|function| (function.id, text(function.name))).collect();
    let locations: HashMap<_, _> = profile
        .location
        .iter()
        .map(|location| (location.id, functions[&location.line[0].function_id].clone()))
        .collect();
    assert!(!functions.contains_key(&0) && !locations.contains_key(&0), "0 is none");
    let sample = |sample: &Sample| Decoded {
        stack: sample.location_id.iter().map(|id| locations[id].clone()).collect(),
        values: sample.value.clone(),
        labels: sample.label.iter().map(|label| (text(label.key), text(label.str))).collect(),
    };
    let samples = profile.sample.iter().map(sample).collect();
    (profile, samples)
}

#[test]
fn a_profile_tells_how_long_fibers_wait_and_where() {
    let child = ReadyChild::of("a_profile_tells_how_long_fibers_wait_and_where", fibers);
    // Each has come to its wait.
    let subject = Subject::process(child.id()).unwrap();
    let readers = subject.readers().unwrap();
    let has_come = |row: &FiberRow| match row.name.as_deref() {
        Some("runs") => row.state == FiberState::Running,
        _ => row.state.is_suspended(),
    };
    while readers[0].all().1.iter().filter(|row| row.name.is_some() && has_come(row)).count() < 3 {}
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile");
    let mut left = LOOKS;
    let goes_on = || {
        let goes_on = left > 0;
        left = left.saturating_sub(1);
        goes_on
    };
    let period = Duration::from_millis(1);
    let profiled = profile(child.id(), LONG, period, &path, goes_on).unwrap();
    assert_eq!((profiled.looks, profiled.has_ended), (LOOKS, false));

    let (profile, samples) = decode(&fs::read(&path).unwrap());
    let text = |at: i64| &*profile.string_table[at as usize];
    let types: Vec<_> =
        profile.sample_type.iter().map(|kind| (text(kind.r#type), text(kind.unit))).collect();
    let times = ["waiting", "runnable", "running"].map(|name| (name, "nanoseconds"));
    assert_eq!(types, [&[("looks", "count")][..], &times].concat());
    assert_eq!(text(profile.default_sample_type), "waiting");
    assert_eq!(profile.period, period.as_nanos() as i64);
    assert_eq!(samples.len(), profiled.samples);

    let of = |name: &str| {
        let is_it = |sample: &&Decoded| sample.labels.get("fiber").is_some_and(|of| of == name);
        let mut found = samples.iter().filter(is_it);
        let sample = found.next().unwrap();
        assert!(found.next().is_none(), "{name} does one thing");
        assert_eq!(sample.values[0] as u64, LOOKS);
        assert_eq!(sample.stack[0], format!("[{}]", sample.labels["activity"]));
        let root = sample.stack.last().unwrap();
        assert!(root.starts_with("spawned at ") && root.contains("profiles.rs:"), "{root}");
        sample
    };
    let within = |sample: &Decoded, name: &str| sample.stack.iter().any(|at| at.contains(name));
    let (parks, locks, runs) = (of("parks"), of("locks"), of("runs"));
    assert!(within(parks, "parks_here") && parks.stack[0] == "[park]", "{:?}", parks.stack);
    assert!(within(locks, "locks_here") && locks.stack[0] == "[Mutex]", "{:?}", locks.stack);
    assert_eq!((runs.stack.len(), &*runs.stack[0]), (2, "[running]"), "no stack is known");
    // All of them did the same in all looks.
    let all = parks.values[1];
    assert!(all > 0);
    assert_eq!(parks.values[1..], [all, 0, 0]);
    assert_eq!(locks.values[1..], [all, 0, 0]);
    assert_eq!(runs.values[1..], [0, 0, all]);
}
