//! Plans, and samples on the available CPUs: they test counts and protocol, never times.

use std::collections::BTreeSet;

use super::run::{StartGate, all};
use super::*;
use crate::kit::{Case, Planned, host};

fn cases(options: &Options) -> Vec<Planned> {
    EXPERIMENT.plan(options)
}

#[test]
fn every_point_is_there_once_and_can_be_read_again() {
    let own = CpuTask { name: "mine".into(), command: "true; true".into() };
    for options in [
        Options::default(),
        Options { quick: true, ..Options::default() },
        Options {
            cpu_tasks: Some(vec![own]),
            pmem: Some("/mnt/pmem".into()),
            ..Options::default()
        },
    ] {
        let plan = cases(&options);
        let names: BTreeSet<String> = plan.iter().map(|one| one.case.to_string()).collect();
        assert_eq!(names.len(), plan.len());
        for Planned { case, .. } in plan {
            assert!(SmtJob::of(&case.method, &case.params).is_some(), "{case}");
        }
    }
}

#[test]
fn points_say_which_memory_and_how_much_of_it() {
    let plan = cases(&Options { pmem: Some("/mnt/pmem".into()), ..Options::default() });
    for Planned { case: Case { params, .. }, .. } in plan {
        let memory = if params.text("io") == Some("dram") { "dram" } else { "dax" };
        assert_eq!(params.text("memory"), Some(memory), "{params:?}");
        assert_eq!(params.text("folder").is_some(), memory == "dax", "{params:?}");
        let threads = params.text("io") != Some("rbtree");
        assert_eq!(
            params.number("region-mib").is_some_and(|mib| mib >= 1024),
            threads,
            "{params:?}"
        );
    }
}

#[test]
fn programs_of_users_take_the_place_of_the_set() {
    let task = |name: &str| CpuTask { name: name.into(), command: format!("run {name}") };
    let options = Options { cpu_tasks: Some(vec![task("a"), task("b")]), ..Options::default() };
    let plan = cases(&options);
    let set2 = plan.iter().filter(|one| one.case.params.text("io") == Some("rbtree"));
    let commands: Vec<_> = set2.filter_map(|one| one.case.params.text("command")).collect();
    assert_eq!(commands.len(), 2 * Setting::NAMES.len());
    assert_eq!([commands[0], commands[5]], ["run a", "run b"]);
}

fn machine() -> Topology {
    Topology::read().expect("this machine's topology")
}

#[test]
fn without_siblings_nothing_is_measured_and_the_remedy_is_told() {
    if let Ok(cores) = Cores::find(&machine()) {
        println!("skipped: without_siblings_nothing_is_measured: there are {cores:?}");
        return;
    }
    let plan = cases(&Options::default());
    assert!(!plan.is_empty());
    for Planned { case, rounds } in plan {
        let told = rounds.expect_err("no siblings").to_string();
        assert!(told.contains("smt-model"), "{told}");
        let effort = Effort { rounds: 1, limit: Duration::from_secs(1) };
        let refused = EXPERIMENT.sample(&case, effort).expect_err("no siblings");
        assert_eq!(refused, Failure::Unavailable(told), "{case}");
    }
}

#[test]
fn points_that_there_are_not_are_refused() {
    let params = || Params::new().with("io", "dram").with("cpu", "idiv").with("size", 9u64);
    let of = |method: &str, params: Params| SmtJob::of(method, &params).is_some();
    assert!(of("cross", params().with("region-mib", 1u64)));
    assert!(!of("nonsense", params().with("region-mib", 1u64)));
    assert!(!of("cross", params()));
    assert!(!of("cross", params().with("region-mib", 0u64)));
    assert!(!of("cross", params().with("region-mib", u64::MAX)));
    assert!(!of("cross", params().with("region-mib", 1u64).with("size", 0u64)));
    assert!(!of("cross", params().with("region-mib", 1u64).with("size", u64::MAX)));
    assert!(!of("cross", params().with("region-mib", 1u64).with("io", "pmem")));
    assert!(!of("cross", params().with("region-mib", 1u64).with("cpu", "gzip")));
    let set2 = |cpu: &str| Params::new().with("io", "rbtree").with("cpu", cpu);
    assert!(of("cross", set2("gzip").with("memory", "emulated")));
    assert!(!of("cross", set2("nonsense").with("memory", "emulated")));
    assert!(!of("cross", set2("gzip").with("memory", "dax")));
    assert!(!of("cross", set2("gzip")));
}

/// CPUs in the role of cores. If there are too few, several places share one.
fn described() -> Cores {
    let cpus = host::cpu_list();
    let at = |index: usize| cpus[index % cpus.len()];
    Cores([[at(0), at(1)], [at(2), at(3)]])
}

fn sampled(job: &SmtJob, rounds: u64) -> Sample {
    let effort = Effort { rounds, limit: Duration::from_secs(60) };
    job.sample(&described(), effort).unwrap_or_else(|failure| panic!("{job:?}: {failure}"))
}

fn check(job: &SmtJob, rounds: u64) {
    let sample = sampled(job, rounds);
    let is_all = if job.setting.has_threads_alone() { u64::eq } else { u64::ge };
    assert!(is_all(&sample.rounds, &rounds), "{job:?}: {}", sample.rounds);
    let value = |stat: &str| {
        let same = |reading: &&Reading| reading.stat.as_deref() == Some(stat);
        sample.readings.iter().find(same).expect("a reading").value
    };
    for stat in [IO_THROUGHPUT, CPU_TIME, "io-share", "cpu-share"] {
        assert!(value(stat) > 0.0 && value(stat).is_finite(), "{job:?}: {stat} {}", value(stat));
    }
    assert!(value("repeats") <= 4.0 && value("disturbed") <= 1.0, "{sample:?}");
}

#[test]
fn threads_run_in_every_setting_on_described_cores() {
    let mut targets = vec![WriteTarget { memory: None, bytes: 1 << 20 }];
    match pmem::require_libpmem() {
        Ok(()) => targets.push(WriteTarget { memory: Some(Memory::Emulated), bytes: 1 << 20 }),
        Err(skip) => println!("skipped: {skip}"),
    }
    for target in targets {
        for (setting, kind) in Setting::all().zip(ComputeKind::all().cycle()) {
            let kernel = ComputeKernel { kind, size: 100 };
            let tasks = Tasks::Threads { target: target.clone(), kernel };
            check(&SmtJob { setting, tasks }, 3);
        }
    }
}

#[test]
fn programs_run_in_every_setting_on_described_cores() {
    if let Err(skip) = tree::supports() {
        println!("skipped: programs_run_in_every_setting_on_described_cores: {skip}");
        return;
    }
    for setting in Setting::all() {
        let command = "seq 200000".into();
        check(
            &SmtJob {
                setting,
                tasks: Tasks::Programs { memory: Memory::Emulated, command, own: true },
            },
            2,
        );
    }
}

#[test]
fn a_task_alone_does_the_work_of_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    let work =
        Work { command: "echo >>runs; seq 100000".into(), folder: Some(folder.path().into()) };
    if let Err(skip) = tree::supports() {
        println!("skipped: a_task_alone_does_the_work_of_two: {skip}");
        return;
    }
    for setting in [Setting::NoSmt, Setting::Cross] {
        let pairs = setting.pairs(&described());
        let limit = Duration::from_secs(60);
        let amount = Amount { times: setting.work(), least: Duration::ZERO, limit };
        processes::run(&pairs, &Memory::Emulated, &work, amount).expect("done");
        assert_eq!(std::fs::read(&runs).expect("runs").len(), 2, "{}", setting.name());
        std::fs::remove_file(&runs).expect("runs");
    }
}

#[test]
fn a_program_that_fails_ends_its_map_and_is_told() {
    if let Err(skip) = tree::supports() {
        println!("skipped: a_program_that_fails_ends_its_map_and_is_told: {skip}");
        return;
    }
    let command = "echo no such benchmark >&2; exit 9".into();
    let job = SmtJob {
        setting: Setting::Cross,
        tasks: Tasks::Programs { memory: Memory::Emulated, command, own: true },
    };
    let effort = Effort { rounds: 1, limit: Duration::from_secs(60) };
    let told = job.sample(&described(), effort).unwrap_err().to_string();
    assert!(told.ends_with("exit status: 9: no such benchmark"), "{told}");
}

#[test]
fn an_unprepared_task_stops_all_and_is_reported() {
    let start = StartGate::of(3);
    let task = |index| {
        let start = &start;
        move || {
            let prepared =
                if index == 1 { Err(Failure::Broken("not one".into())) } else { Ok(index) };
            start.wait(prepared)
        }
    };
    let results = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..3).map(|index| scope.spawn(task(index))).collect();
        tasks.into_iter().map(|task| task.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(matches!(results[0], Err(None)), "{results:?}");
    assert_eq!(all(results), Err(Failure::Broken("not one".into())));
}

#[test]
fn a_region_that_cannot_be_had_stops_all_and_is_told() {
    if let Err(skip) = pmem::require_libpmem() {
        println!("skipped: a_region_that_cannot_be_had_stops_all_and_is_told: {skip}");
        return;
    }
    let target = WriteTarget { memory: Some(Memory::Emulated), bytes: 1 << 50 };
    let kernel = ComputeKernel { kind: ComputeKind::Idiv, size: 100 };
    let amount = Amount { times: u64::MAX, least: Duration::ZERO, limit: Duration::MAX };
    let pairs = Setting::Cross.pairs(&described());
    let told = threads::run(&pairs, &target, kernel, amount).unwrap_err().to_string();
    assert!(told.starts_with("cannot have "), "{told}");
}

#[test]
fn work_ends_at_its_number_behind_its_least_time_or_at_its_limit() {
    let minute = Duration::from_secs(60);
    let run = |times, least, limit| {
        let begin = Instant::now() - minute;
        Amount { times, least, limit }.run(begin, || Ok(())).expect("done")
    };
    let count = |times, limit| run(times, Duration::ZERO, limit).0;
    assert_eq!(count(7, Duration::MAX), 7);
    assert_eq!(count(7, minute), 1);
    assert_eq!(count(0, Duration::MAX), 1);
    let least = minute + Duration::from_millis(20);
    assert!(run(1, least, Duration::MAX).1 >= least);
}

/// Holds for a task that runs late as well.
#[test]
fn all_tasks_have_one_start() {
    let start = StartGate::of(3);
    let begins = std::thread::scope(|scope| {
        let tasks =
            [(); 3].map(|()| scope.spawn(|| start.wait(Ok(())).expect("all are prepared").1));
        tasks.map(|task| task.join().expect("no panic"))
    });
    assert!(begins.iter().all(|begin| *begin == begins[0]), "{begins:?}");
}

/// Calculated by hand: two pairs in 2 s and 4 s, with 3 rounds each.
#[test]
fn throughputs_add_up_and_times_are_averaged() {
    let done = |count, seconds| run::Done {
        count,
        elapsed: Duration::from_secs(seconds),
        cpu: Duration::from_secs(seconds) / 2,
    };
    let pair = |io, seconds| PairDone { io: done(io, seconds), cpu: done(6, seconds) };
    let outcome = vec![pair(10, 2), pair(40, 4)];
    let best = Duration::from_nanos(7);
    let quiet = Quiet { outcome, repeats: 2, disturbed: true, best };
    let values = |setting| -> Vec<f64> {
        sample_of(setting, &quiet).readings.iter().map(|reading| reading.value).collect()
    };
    assert_eq!(values(Setting::Cross), [15.0, 0.5e9, 50.0, 50.0, 2.0, 1.0, 7.0]);
    assert_eq!(values(Setting::NoSmt)[1], 1e9, "two rounds' work");
    assert_eq!(sample_of(Setting::NoSmt, &quiet).rounds, 3);
}
