use super::*;
use crate::kit::{Options, Reading, Unit};
use crate::testing::long_enough;

/// Parameters of a short sample on the available CPUs.
pub(super) fn spec(bytes: usize, clients: usize) -> IpcSpec {
    let cpus = host::cpu_list();
    let (server_cpu, client_cpu) = (cpus[0], cpus[cpus.len().min(2) - 1]);
    IpcSpec { clients, bytes, server_cpu, client_cpu, window: Duration::from_millis(5) }
}

fn cases(options: &Options) -> Vec<String> {
    EXPERIMENT.plan(options).iter().map(|planned| planned.case.to_string()).collect()
}

#[test]
fn names_are_those_of_the_result_format() {
    let format = "spin, mailbox, spin-futex, futex, pipe, unix-socket, eventfd, semaphore, tcp, mpi, \
                  redis, iceoryx2, daiko, daiko-watch, daiko-poller";
    assert_eq!((EXPERIMENT.methods)().join(", "), format);
}

#[test]
fn every_combination_has_one_point() {
    let mut cases = cases(&Options::default());
    assert_eq!(cases.len(), METHODS.len() * BYTES.len() * Placement::NAMES.len() * CLIENTS.len());
    assert!(cases.contains(&"ipc tcp bytes=64 placement=one-cpu clients=16".to_owned()));
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(cases.len(), METHODS.len() * 24, "none is there twice");
}

#[test]
fn a_quick_run_has_the_points_of_the_shortest_and_longest_messages_that_are_quick() {
    let quick = cases(&Options { quick: true, ..Options::default() });
    let all = cases(&Options::default());
    assert!(quick.iter().all(|case| all.contains(case)));
    assert!(quick.iter().all(|case| case.contains("bytes=8 ") || case.contains("bytes=65536 ")));
    for method in (EXPERIMENT.methods)() {
        let points = quick.iter().filter(|case| case.starts_with(&format!("ipc {method} ")));
        assert_eq!(points.count(), if POLLING.contains(&method) { 5 } else { 6 }, "{method}");
    }
}

#[test]
fn a_sample_runs_the_point_of_its_params() {
    for point in points() {
        assert_eq!(Point::from_params(&point.params()), Some(point));
    }
    for spoiled in [("placement", "no-cpu"), ("clients", "many")] {
        let params = points().next().expect("a point").params().with(spoiled.0, spoiled.1);
        assert_eq!(Point::from_params(&params), None);
    }
}

#[test]
fn every_method_measures_calls_of_every_length() {
    for method in METHODS {
        if let Err(skip) = (method.supports)() {
            println!(
                "skipped: every_method_measures_calls_of_every_length: {}: {skip}",
                method.name
            );
            continue;
        }
        for (bytes, clients) in [(8, 1), (64, 1), (1024, 1), (65536, 1), (64, 3), (65536, 3)] {
            let spec = spec(bytes, clients);
            let sample = long_enough(spec.window, |window| {
                (method.run)(&IpcSpec { window, ..spec })?.into_sample()
            });
            let sample = sample.unwrap_or_else(|failure| {
                panic!("{}, {bytes} bytes, {clients} clients: {failure}", method.name)
            });
            assert_sane(&sample.readings, method.name);
        }
    }
}

fn assert_sane(readings: &[Reading], method: &str) {
    let kinds: Vec<_> =
        readings.iter().map(|reading| (reading.unit, reading.stat.as_deref())).collect();
    let format = [
        (Unit::Nanoseconds, None),
        (Unit::Nanoseconds, Some("p50")),
        (Unit::Nanoseconds, Some("p99")),
        (Unit::Nanoseconds, Some("p999")),
        (Unit::Nanoseconds, Some("max")),
        (Unit::PerSecond, Some("throughput")),
        (Unit::Ratio, Some("share")),
    ];
    assert_eq!(kinds, format, "{method}");
    let values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
    assert!(values[0] > 0.0 && values[5] > 0.0, "{method}: {values:?}");
    assert!(values[1] > 0.0 && values[1..5].is_sorted(), "{method}: {values:?}");
    assert!((0.0..=1.0).contains(&values[6]), "{method}: {values:?}");
}

#[test]
fn a_length_that_no_method_has_is_refused() {
    let params = points().next().expect("a point").params().with("bytes", 12usize);
    let measure = measure(Spin::NAME, &params).expect("its params can be read");
    let effort = crate::kit::Effort { rounds: 1, limit: Duration::from_secs(1) };
    assert!(matches!(measure(effort), Err(Failure::Broken(_))));
}
