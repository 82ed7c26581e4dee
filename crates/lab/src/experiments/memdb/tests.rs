use std::thread;
use std::time::Duration;

use super::*;
use crate::kit::Options;
use crate::testing::long_enough;

const FEW: [usize; 2] = [1, 20];

#[test]
fn every_method_carries_out_transactions_of_every_kind_of_session() {
    if let Err(skip) = host::two_cpus() {
        return println!("skipped: {skip}");
    }
    for point in points(&FEW) {
        if point.log == LogKind::Always
            && let Err(skip) = files::check_device()
        {
            println!("skipped: {skip}");
            continue;
        }
        for method in METHODS.iter().filter(|method| method.has(point)) {
            if let Err(skip) = supports(method, point) {
                println!("skipped: {}: {skip}", method.name);
                continue;
            }
            let window = Duration::from_millis(40);
            // Of a thread of its own, as it is bound to a CPU.
            let sample = |window| {
                thread::scope(|scope| scope.spawn(|| method.sample(point, window)).join().unwrap())
            };
            let sample = long_enough(window, sample);
            let sample =
                sample.unwrap_or_else(|failure| panic!("{} {point:?}: {failure}", method.name));
            let stats: Vec<_> =
                sample.readings.iter().map(|reading| reading.stat.as_deref().unwrap()).collect();
            assert_eq!(
                stats,
                ["throughput", "cpu-throughput", "server-cpu", "client-stall", "p50", "p99"]
            );
            assert!(sample.rounds > 0 && sample.readings[0].value > 0.0, "{}", method.name);
        }
    }
}

#[test]
fn a_point_is_that_of_its_params() {
    for point in points(&SESSIONS) {
        assert_eq!(SessionPoint::from_params(&point.params()), Some(point));
    }
    let params = points(&[10]).next().unwrap().params();
    assert_eq!(SessionPoint::from_params(&params.clone().with("sessions", 0usize)), None);
    assert_eq!(SessionPoint::from_params(&params.with("log", "some")), None);
}

#[test]
fn a_server_is_measured_at_an_address_only() {
    let params = points(&[10]).next().unwrap().params();
    assert!(served::measure("threads", &params).is_none());
    let at = params.clone().with("address", "127.0.0.1:1");
    assert!(served::measure("threads", &at).is_some());
    assert!(served::measure("tokio", &at).is_none());
    assert!(served::measure("threads", &params.with("address", "nowhere")).is_none());
}

#[test]
fn a_program_that_is_run_has_sessions_over_tcp_only() {
    let plan = EXPERIMENT.plan(&Options::default());
    let cases: Vec<_> = plan.iter().map(|planned| planned.case.to_string()).collect();
    assert!(cases.contains(&"memdb daiko-run transport=tcp log=none sessions=10000".to_owned()));
    assert!(!cases.iter().any(|case| case.starts_with("memdb daiko-run transport=in-process")));
    assert_eq!(cases.len(), SESSIONS.len() * 2 * (3 + 4));
}
