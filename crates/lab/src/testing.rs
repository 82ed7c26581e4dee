//! Code shared by tests of several experiments.

use std::time::Duration;

use crate::kit::results::SCHEMA;
use crate::kit::{Failure, Host, Params, Point, Reading, Results, Unit};
use crate::report;

#[path = "../../../tests/child.rs"]
pub(crate) mod child;

#[path = "../../../tests/executable.rs"]
pub(crate) mod executable;

/// Longest window: longer than a busy machine delays a test.
const LONGEST: Duration = Duration::from_secs(60);

/// Takes a sample in `window`. If that is too short for any event, repeats it with twice the time.
pub(crate) fn long_enough<T>(
    mut window: Duration,
    sample: impl Fn(Duration) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match sample(window) {
            Err(Failure::TooShort(_)) if window < LONGEST => window *= 2,
            measured => return measured,
        }
    }
}

/// A point without a range.
pub(crate) fn point(
    experiment: &str,
    method: &str,
    params: Params,
    unit: Unit,
    median: f64,
) -> Point {
    Point {
        unit,
        source: None,
        runs: 5,
        samples: Vec::new(),
        ..Point::published("", experiment, method, params, median)
    }
}

/// Results with these points.
pub(crate) fn results(points: Vec<Point>) -> Results {
    Results {
        schema: SCHEMA,
        host: Host::detect(),
        points,
        skipped: Vec::new(),
        failed: Vec::new(),
        notes: Vec::new(),
        interrupted: false,
    }
}

/// A point for each of `readings`, with a range of 0.9 to 1.2 times its value.
pub(crate) fn points(
    experiment: &str,
    method: &str,
    params: &Params,
    readings: &[Reading],
) -> Vec<Point> {
    let point = |reading: &Reading| {
        let params = params.clone().with_some("stat", reading.stat.as_deref());
        let point = point(experiment, method, params, reading.unit, reading.value);
        Point { min: 0.9 * reading.value, max: 1.2 * reading.value, ..point }
    };
    readings.iter().map(point).collect()
}

/// Builds the report of these points.
pub(crate) fn page(points: Vec<Point>) -> String {
    report::html(&results(points))
}

/// Points with the parameters of real experiments.
pub(crate) mod made_up {
    use super::points;
    use crate::kit::{Params, Point, Reading, Results, Unit};

    pub(crate) fn ring(method: &str, threads: u64, ns: f64) -> Vec<Point> {
        let params = Params::new().with("threads", threads).with("order", "shuffled");
        points("ring", method, &params, &[Reading::new(Unit::Nanoseconds, ns)])
    }

    pub(crate) fn salesman(method: &str, params: Params, ms: f64) -> Vec<Point> {
        let readings = vec![
            Reading::new(Unit::Nanoseconds, ms * 1e6),
            Reading::stat(Unit::Count, "nodes", 320.0),
        ];
        points("tsp", method, &params, &readings)
    }

    pub(crate) fn salesmen() -> Vec<Point> {
        let mut all = Vec::new();
        for (cities, ms) in [(6u64, 0.01), (11, 40.0)] {
            let params = || Params::new().with("cities", cities);
            let relaxed = || params().with("prune", "relaxed");
            all.extend(salesman("sequential", params(), ms));
            all.extend(salesman("nptl", relaxed(), ms * 0.7));
            all.extend(salesman("nptl", params().with("prune", "locked"), ms * 777.0));
            all.extend(salesman("daiko", relaxed().with("workers", 1u64), ms * 1.1));
            all.extend(salesman("daiko", relaxed().with("workers", 2u64), ms * 0.55));
            all.extend(salesman("daiko-processes", relaxed().with("workers", 2u64), ms * 0.6));
        }
        all
    }

    pub(crate) fn cost(method: &str, item: &str, ns: f64) -> Vec<Point> {
        let params = Params::new().with("item", item);
        points("costs", method, &params, &[Reading::new(Unit::Nanoseconds, ns)])
    }

    pub(crate) fn round_trip(method: &str, placement: &str, clients: u64, ns: f64) -> Vec<Point> {
        let params = Params::new().with("bytes", 8u64).with("placement", placement);
        let readings = vec![
            Reading::new(Unit::Nanoseconds, ns),
            Reading::stat(Unit::Nanoseconds, "p50", ns),
            Reading::stat(Unit::Nanoseconds, "max", ns * 1e6),
            Reading::stat(Unit::PerSecond, "throughput", 1e9 / ns),
            Reading::stat(Unit::Ratio, "share", 0.5),
        ];
        points("ipc", method, &params.with("clients", clients), &readings)
    }

    pub(crate) fn round_trips(placement: &str) -> Vec<Point> {
        let mut all = round_trip("spin", placement, 1, 111.0);
        for clients in [16, 1, 4] {
            all.extend(round_trip("tcp", placement, clients, 7000.0 * clients as f64));
        }
        all
    }

    pub(crate) fn served(
        method: &str,
        connections: u64,
        pipeline: u64,
        each_ns: f64,
    ) -> Vec<Point> {
        let params = Params::new().with("connections", connections).with("pipeline", pipeline);
        let readings = vec![
            Reading::stat(Unit::PerSecond, "throughput", 0.8e9 / each_ns),
            Reading::stat(Unit::PerSecond, "cpu-throughput", 1e9 / each_ns),
            Reading::stat(Unit::CpuPercent, "server-cpu", 80.0),
            Reading::stat(Unit::Nanoseconds, "p99", each_ns * 50.0),
        ];
        points("serve", method, &params, &readings)
    }

    pub(crate) fn servers() -> Vec<Point> {
        let mut all = Vec::new();
        for (method, each_ns) in [("kv", 5000.0), ("redis", 6250.0), ("echo-threads", 8000.0)] {
            all.extend(served(method, 10_000, 1, each_ns * 2.0));
            all.extend(served(method, 1, 1, each_ns));
            all.extend(served(method, 1, 16, each_ns / 8.0));
        }
        all
    }

    pub(crate) fn application(
        method: &str,
        params: &Params,
        per_second: f64,
        cpu: f64,
    ) -> Vec<Point> {
        let readings = [
            Reading::stat(Unit::PerSecond, "throughput", per_second),
            Reading::stat(Unit::Nanoseconds, "cpu", cpu),
        ];
        points("apps", method, params, &readings)
    }

    /// Applications, of which the last one has no native run.
    pub(crate) fn applications() -> Vec<Point> {
        let redis = |workers: u64| Params::new().with("app", "redis").with("workers", workers);
        let mariadb = |threads: u64| Params::new().with("app", "mariadb").with("threads", threads);
        [
            application("daiko-run", &redis(1), 50.0, 3.0),
            application("daiko-run", &redis(2), 200.0, 1.0),
            application("daiko-run", &mariadb(64).with("workers", 2u64), 30.0, 1.0),
            application("daiko-run", &mariadb(4).with("workers", 2u64), 30.0, 1.0),
            application("native", &Params::new().with("app", "redis"), 100.0, 2.0),
            application("native", &mariadb(64), 10.0, 2.0),
        ]
        .concat()
    }

    /// Points of P3's experiment at three lags.
    pub(crate) fn followed() -> Vec<Point> {
        let mut all = Vec::new();
        for (lag, unintended, left) in [(0u64, 0.02, 0.6), (20, 0.08, 0.52), (1000, 0.05, 0.5)] {
            for (method, factor) in [("existing", 1.0), ("follow", left)] {
                let params = Params::new().with("cpus", 12u64).with("flows", 512u64);
                let params = params.with("rate", 100u64).with("lag", lag);
                let readings = vec![
                    Reading::stat(Unit::PerSecond, "migrations", 3000.0 * factor),
                    Reading::stat(Unit::Ratio, "unintended", unintended),
                    Reading::stat(Unit::Count, "settle-mean", 1.25),
                    Reading::stat(Unit::Count, "settle-max", 8.0),
                ];
                all.extend(points("follow-sim", method, &params, &readings));
            }
        }
        all
    }

    /// A run with all sections: P1's figures, a governor, costs, salesmen and processes.
    pub(crate) fn full() -> Results {
        let mut all = Vec::new();
        for threads in [2, 3, 10, 100, 1000] {
            for (method, ns) in [
                ("rtsignal", 5000.0),
                ("agent+rtsignal", 5500.0),
                ("daiko-watch-p1", 700.0),
                ("daiko", 10.0),
                ("tokio", 110.0),
            ] {
                all.extend(ring(method, threads, ns * (1.0 + threads as f64 / 1000.0)));
            }
        }
        all.extend(ring("polling", 2, 130.0));
        all.extend(ring("polling", 3, 2_666_665.0));
        for (rate, latency, cpu) in [(10u64, 4000.0, 0.1), (100_000, 300.0, 99.0)] {
            let readings = vec![
                Reading::stat(Unit::Nanoseconds, "p50", latency),
                Reading::stat(Unit::Nanoseconds, "p99", 2.0 * latency),
                Reading::new(Unit::CpuPercent, cpu),
            ];
            all.extend(points(
                "governor",
                "balanced",
                &Params::new().with("rate", rate),
                &readings,
            ));
        }
        all.extend(salesmen());
        all.extend(round_trips("two-cpus"));
        all.extend(round_trips("one-cpu"));
        all.extend(servers());
        all.extend(applications());
        all.extend(followed());
        all.extend(cost("nptl", "mutex", 12.0));
        all.extend(cost("daiko", "mutex", 9.0));
        all.extend(cost("daiko", "yield", 9.0));
        all.extend(cost("semop", "mutex-unlock", 360.0));
        let mut results = super::results(all);
        results.host.cpus = 2;
        results.host.cpu = "A & B <processor> \"quoted\" \u{1b}[1m\0\u{ffff}".into();
        results
    }
}
