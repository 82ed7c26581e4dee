use super::list::{AppKind, ThreadList, WorkAmount};
use super::*;
use crate::kit::Unit;
use crate::testing::child::in_child_well;

fn plan(options: &Options) -> Vec<String> {
    EXPERIMENT.plan(options).iter().map(|planned| planned.case.to_string()).collect()
}

fn only(app: &str) -> Options {
    Options { apps: Some(vec![app.into()]), ..Options::default() }
}

#[test]
fn each_application_is_planned_natively_and_with_workers() {
    let two = Options { workers: Some(vec![1, 2]), ..only("redis") };
    assert_eq!(
        plan(&two),
        [
            "apps daiko-run app=redis workers=1",
            "apps daiko-run app=redis workers=2",
            "apps native app=redis"
        ]
    );
    let natively = Options { methods: Some(vec!["native".into()]), ..only("redis") };
    assert_eq!(plan(&natively), ["apps native app=redis"]);
    assert_eq!(plan(&only("redis")).len(), 1 + distinct([1, host::cpus()].into_iter()).len());
}

#[test]
fn applications_are_named_by_their_beginnings() {
    let natively = Options { methods: Some(vec!["native".into()]), ..only("stress-ng") };
    assert_eq!(plan(&natively).len(), 5);
    assert!(names().contains(&"nginx") && !names().contains(&""));
    let both = Options { apps: Some(vec!["ru".into(), "c++".into()]), ..natively };
    assert_eq!(plan(&both), ["apps native app=rust", "apps native app=c++20"]);
}

#[test]
fn a_list_of_threads_replaces_that_of_applications_that_have_one() {
    let natively = |options| Options { methods: Some(vec!["native".into()]), ..options };
    assert_eq!(plan(&natively(only("mariadb"))).len(), 3);
    let quick = natively(Options { quick: true, ..only("mariadb") });
    assert_eq!(
        plan(&quick),
        ["apps native app=mariadb threads=4", "apps native app=mariadb threads=64"]
    );
    let own = Options { threads: Some(vec![7]), ..quick };
    assert_eq!(plan(&own), ["apps native app=mariadb threads=7"]);
    let none = Options { apps: Some(vec!["redis".into()]), ..own };
    assert_eq!(plan(&none), ["apps native app=redis"]);
    let openmp = plan(&natively(only("openmp-gcc-active")));
    let most = format!("apps native app=openmp-gcc-active threads={}", 16 * host::cpus());
    assert!(openmp.contains(&most));
}

#[test]
fn a_quick_run_does_a_quarter_of_the_work() {
    for (app, whole, quarter) in [("redis", 50_000, 12_500), ("postgresql", 4, 1), ("python", 1, 1)]
    {
        let amount = find(app).expect("an application").amount;
        assert_eq!([amount.number(false), amount.number(true)], [whole, quarter], "{app}");
    }
}

#[test]
fn a_point_that_there_is_not_is_refused() {
    let redis = Params::new().with("app", "redis");
    let mariadb = Params::new().with("app", "mariadb").with("threads", 4usize);
    assert!(measure(NATIVE, &redis).is_some());
    assert!(measure(DAIKO_RUN, &mariadb.clone().with("workers", 1usize)).is_some());
    for (method, wrong) in [
        (NATIVE, Params::new()),
        (NATIVE, Params::new().with("app", "nonsense")),
        (NATIVE, Params::new().with("app", "mariadb")),
        (NATIVE, mariadb.clone().with("threads", 0usize)),
        (NATIVE, redis.clone().with("threads", 4usize)),
        (NATIVE, redis.clone().with("threads", 0usize)),
        (NATIVE, redis.clone().with("workers", 1usize)),
        (DAIKO_RUN, mariadb),
        (DAIKO_RUN, redis.clone().with("workers", 0usize)),
        ("nonsense", redis),
    ] {
        assert!(measure(method, &wrong).is_none(), "{method} {wrong:?}");
    }
}

#[test]
fn missing_programs_are_told_with_their_packages() {
    for app in APPS {
        if let Err(skip) = app.supports() {
            assert!(skip.reason.starts_with(&format!("{}: ", app.name)), "{skip}");
            assert!(!skip.packages.is_empty() && !skip.reason.contains('\n'), "{skip}");
        }
    }
}

/// An application of lines that a shell has.
const FAKE: App = App {
    name: "fake",
    unit: "units",
    needs: &[],
    program: None,
    files: &[("file", "text\n")],
    threads: ThreadList::Own,
    amount: WorkAmount::Units(8),
    prepare: "echo text > expected",
    kind: AppKind::Batch { run: "$RUN cp file got", check: "cmp expected got" },
};

const SERVER: App = App {
    kind: AppKind::Server {
        start: "trap 'exit 0' TERM; echo > ready; while :; do sleep 0.01; done",
        is_ready: "test -e ready",
        fill: "echo > filled",
        load: "test -e filled && echo loaded",
        rate: "echo $AMOUNT 25.5",
    },
    ..FAKE
};

fn run_in(app: &App, command: &str, limit: Duration) -> Result<Sample, Failure> {
    AppRun { app, command: command.into(), threads: Some(3), amount: 8, limit }.sample()
}

fn failure(app: &App, command: &str) -> String {
    run_in(app, command, Duration::from_secs(20)).expect_err("a failure").to_string()
}

/// Runs `body` in a process of its own, as a sample kills all children.
#[track_caller]
fn alone(test: &str, body: fn()) {
    in_child_well(&format!("experiments::apps::tests::{test}"), body);
}

#[test]
fn a_run_has_its_throughput_and_cpu_time() {
    alone("a_run_has_its_throughput_and_cpu_time", || {
        let values = |app: &App| {
            let sample = run_in(app, "", LIMIT).expect("a sample");
            assert_eq!(sample.rounds, 8);
            let stats = sample.readings.iter();
            let stats: Vec<_> =
                stats.map(|one| (one.unit, one.stat.clone().expect("a stat"))).collect();
            let wanted = [(Unit::PerSecond, "throughput"), (Unit::Nanoseconds, "cpu")];
            assert_eq!(stats, wanted.map(|(unit, stat)| (unit, stat.to_owned())));
            [sample.readings[0].value, sample.readings[1].value]
        };
        let [per_second, cpu] = values(&FAKE);
        assert!(per_second > 0.1 && cpu > 0.0, "{per_second} {cpu}");
        assert_eq!(values(&SERVER)[0], 25.5);
        let kind = AppKind::Rated { run: "echo $THREADS", rate: "echo 8 $(cat)" };
        assert_eq!(values(&App { kind, ..FAKE })[0], 3.0);
    });
}

#[test]
fn every_failure_is_one_line_with_its_cause() {
    alone("every_failure_is_one_line_with_its_cause", || {
        let batch = |run, check| App { kind: AppKind::Batch { run, check }, ..FAKE };
        let told = failure(&batch("echo one; echo why >&2; exit 3", "true"), "");
        assert_eq!(told, "the application ended with exit status: 3: why");
        let told = failure(&batch("kill -9 $$", "true"), "");
        assert!(told.contains("signal: 9"), "{told}");
        let told = failure(&batch("echo other > got", "cmp expected got"), "");
        assert!(told.starts_with("another result than natively: the check ended"), "{told}");
        let told = failure(&App { prepare: "echo no room; exit 1", ..FAKE }, "");
        assert_eq!(told, "the preparation ended with exit status: 1: no room");
        let native = "sh -c 'echo \"daiko run: no memory; threads are native\" >&2; exec \"$@\"' -";
        let told = failure(&batch("eval $RUN cp file got", "true"), native);
        assert_eq!(told, "daiko run: no memory; threads are native");
        let told =
            failure(&App { kind: AppKind::Rated { run: "true", rate: "echo 5" }, ..FAKE }, "");
        assert_eq!(told, "no throughput in \"5\"");
    });
}

#[test]
fn the_end_of_a_server_is_the_cause_of_later_failures() {
    alone("the_end_of_a_server_is_the_cause_of_later_failures", || {
        let server = |start, is_ready, load| {
            let kind = AppKind::Server { start, is_ready, fill: "true", load, rate: "echo 8 1" };
            App { kind, ..FAKE }
        };
        let told = failure(&server("echo no port; exit 4", "false", "true"), "");
        assert_eq!(told, "the server ended with exit status: 4: no port");
        let told = failure(&server("exec sleep 100", "true", "echo refused >&2; exit 1"), "");
        assert_eq!(told, "the load ended with exit status: 1: refused");
        let told = failure(&server("exec sleep 100", "true", "true"), "");
        assert!(told.starts_with("the server ended with signal: 15"), "{told}");
    });
}

#[test]
fn a_run_that_hangs_is_told_and_all_its_processes_are_killed() {
    alone("a_run_that_hangs_is_told_and_all_its_processes_are_killed", || {
        let hung = "setsid sleep 1000 & echo $! > \"$TMPDIR/pid\"; sleep 1000";
        let folder = tempfile::tempdir().expect("a folder");
        // SAFETY: this process has no other threads.
        unsafe { std::env::set_var("TMPDIR", folder.path()) };
        let app = App { kind: AppKind::Batch { run: hung, check: "true" }, ..FAKE };
        let told = run_in(&app, "", Duration::from_secs(1)).expect_err("it hangs").to_string();
        assert_eq!(told, "the application has not ended within the sample's 1 s");
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("a file");
        let stat = std::path::Path::new("/proc").join(pid.trim());
        assert!(!stat.exists(), "{pid} lives");
        std::fs::remove_file(folder.path().join("pid")).expect("a file");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "the run's folder");
    });
}

#[test]
fn installed_applications_of_the_lab_run_natively() {
    alone("installed_applications_of_the_lab_run_natively", || {
        for app in ["rust", "c++20", "openmp-gcc"].into_iter().filter_map(find) {
            if let Err(skip) = app.supports() {
                println!("skipped: {skip}");
                continue;
            }
            let threads = app.threads.numbers().map(|_| 2);
            let effort = Effort { rounds: 2, limit: LIMIT };
            match sample(app, threads, None, effort) {
                Ok(sample) => assert_eq!(sample.rounds, 2, "{}", app.name),
                Err(Failure::Unavailable(reason)) => println!("skipped: {}: {reason}", app.name),
                Err(failure) => panic!("{}: {failure}", app.name),
            }
        }
    });
}
