use std::thread;

use super::*;
use crate::kit::{Options, Unit};
use crate::testing::long_enough;

fn cases(options: &Options) -> Vec<String> {
    EXPERIMENT.plan(options).iter().map(|planned| planned.case.to_string()).collect()
}

#[test]
fn names_are_those_of_the_result_format() {
    assert_eq!(
        (EXPERIMENT.methods)(),
        [
            "kv",
            "redis",
            "echo-daiko",
            "echo-daiko-epoll",
            "echo-daiko-uring",
            "echo-daiko-uring-irq",
            "echo-tokio",
            "echo-tokio-single",
            "echo-threads"
        ]
    );
}

#[test]
fn every_combination_has_one_point() {
    let mut cases = cases(&Options::default());
    let points = CONNECTIONS.len() * PIPELINES.len() + IDLE.len();
    let logged = Fsync::all().count() * WRITES.len() * CONNECTIONS_LOGGED.len() * PIPELINES.len();
    let all = methods().count() * points + 2 * logged;
    assert_eq!(cases.len(), all);
    let logged = "serve redis connections=50 pipeline=16 fsync=everysec writes=10";
    assert!(cases.contains(&logged.to_owned()));
    assert!(cases.contains(&"serve redis connections=10000 pipeline=16".to_owned()));
    assert!(cases.contains(&"serve echo-tokio connections=100000 socket=unix".to_owned()));
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(cases.len(), all, "none is there twice");
}

#[test]
fn a_quick_run_has_the_points_of_up_to_a_thousand_connections() {
    let quick = cases(&Options { quick: true, ..Options::default() });
    let all = cases(&Options::default());
    assert!(quick.iter().all(|case| all.contains(case) && !case.contains("0000 ")));
    assert_eq!(quick.len(), methods().count() * 7 + 48);
}

#[test]
fn a_sample_runs_the_point_of_its_params() {
    for point in points() {
        assert_eq!(Point::from_params(&point.params()), Some(point));
    }
    let params = points().next().expect("a point").params();
    assert_eq!(Point::from_params(&params.clone().with("connections", 0usize)), None);
    assert_eq!(Point::from_params(&params.clone().with("pipeline", "many")), None);
    assert_eq!(Point::from_params(&params.with("socket", "udp")), None);
}

#[test]
fn kernel_threads_end_where_the_machine_does() {
    let plan = EXPERIMENT.plan(&Options::default());
    let reason = |case: &str| {
        let planned = plan.iter().find(|planned| planned.case.to_string() == case);
        planned.expect("a case").rounds.clone().err().map(|skip| skip.reason)
    };
    let most = reason("serve echo-threads connections=100000 socket=unix");
    assert_eq!(most.as_deref(), Some("kernel threads are measured up to 10000"));
}

const NAME: &str = "every_method_serves_as_many_requests_as_are_sent";

#[test]
fn every_method_serves_as_many_requests_as_are_sent() {
    if let Err(skip) = host::two_cpus() {
        println!("skipped: {NAME}: {skip}");
        return;
    }
    for method in methods() {
        if let Err(skip) = (method.supports)(3) {
            println!("skipped: {NAME}: {}: {skip}", method.name);
            continue;
        }
        for pipeline in PIPELINES {
            assert_load(method, pipeline, None);
            for fsync in Fsync::all().filter(|_| method.serve_logged.is_some()) {
                assert_load(method, pipeline, Some(LogLoad { fsync, writes: 50 }));
            }
        }
        for socket in [Socket::Tcp, Socket::Unix] {
            assert_idle(method, socket);
        }
    }
}

fn stats(sample: &Sample) -> Vec<(Unit, &str)> {
    let readings = sample.readings.iter();
    readings.map(|reading| (reading.unit, reading.stat.as_deref().expect("a stat"))).collect()
}

/// Takes a sample on a thread of its own, as the thread is bound to a CPU.
fn sample_on_a_thread(method: ServerMethod, point: Point) -> Result<Sample, Failure> {
    long_enough(Duration::from_millis(50), |window| {
        let sample = || point.sample(method, window);
        thread::scope(|scope| scope.spawn(sample).join()).expect("no panic")
    })
}

fn sample_of(method: ServerMethod, kind: ConnectionLoad) -> Sample {
    let sample = sample_on_a_thread(method, Point { connections: 3, kind });
    sample.unwrap_or_else(|failure| panic!("{}, {kind:?}: {failure}", method.name))
}

fn assert_load(method: ServerMethod, pipeline: usize, log: Option<LogLoad>) {
    let sample = sample_of(method, ConnectionLoad::Load { pipeline, log });
    let format = [
        (Unit::PerSecond, "throughput"),
        (Unit::PerSecond, "cpu-throughput"),
        (Unit::CpuPercent, "server-cpu"),
        (Unit::CpuPercent, "client-cpu"),
        (Unit::Ratio, "share"),
        (Unit::CpuPercent, "client-stall"),
        (Unit::Nanoseconds, "p50"),
        (Unit::Nanoseconds, "p99"),
        (Unit::Nanoseconds, "p999"),
    ];
    assert_eq!(stats(&sample), format, "{}", method.name);
    let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
    let [share, stalls] = [4, 5];
    let positive = |(index, value): (usize, &f64)| *value > 0.0 || [share, stalls].contains(&index);
    assert!(values.iter().enumerate().all(positive), "{}: {values:?}", method.name);
    assert!(
        values[share] <= 1.0 && values[6..].is_sorted() && values[3] <= 100.0,
        "{}: {values:?}",
        method.name
    );
    assert!(sample.rounds.is_multiple_of(pipeline as u64), "{}: {sample:?}", method.name);
}

fn assert_idle(method: ServerMethod, socket: Socket) {
    let sample = sample_of(method, ConnectionLoad::Idle { socket });
    let format = [(Unit::Bytes, "idle-memory"), (Unit::CpuPercent, "idle-cpu")];
    assert_eq!(stats(&sample), format, "{}", method.name);
    assert_eq!(sample.rounds, 3);
}

#[test]
fn a_server_that_cannot_begin_is_told_with_its_reason() {
    let refused =
        ServerMethod::echo("refused", |_, _| Err(std::io::Error::from_raw_os_error(libc::EMFILE)));
    let point = Point { connections: 1, kind: ConnectionLoad::Load { pipeline: 1, log: None } };
    match sample_on_a_thread(refused, point) {
        Err(Failure::Limit(reason)) => {
            assert!(reason.starts_with("the server has ended: Too many"))
        }
        Err(Failure::Unavailable(skip)) => println!("skipped: a_server_that_cannot_begin: {skip}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_point_that_there_is_not_is_refused() {
    let params = points().next().expect("a point").params();
    assert!(measure("kv", &params).is_some());
    assert!(measure("nginx", &params).is_none());
    let logged = params.with("fsync", "always").with("writes", 10usize);
    assert!(measure("redis", &logged).is_some() && measure("echo-tokio", &logged).is_none());
}
