//! Sampling of methods with worker processes by the second program.

#[path = "../../../tests/executable.rs"]
mod executable;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use daiko_lab::{
    experiments,
    kit::{Case, Effort, Options, Sample, Unit, processes},
    runner::{Sampler, child::ChildSampler},
};

const DAIKO: &str = env!("CARGO_BIN_EXE_daiko");
const PROGRAM: &str = env!("CARGO_BIN_EXE_daiko-lab-processes");

/// The small cases of an experiment with this method.
fn cases(experiment: &str) -> Vec<Case> {
    let options = Options {
        threads: (experiment != "tsp").then(|| vec![2, 5]),
        workers: Some(vec![1, 2]),
        methods: Some(vec![processes::METHOD.into()]),
        quick: true,
        ..Options::default()
    };
    let plan = experiments::find(experiment).expect("an experiment").plan(&options);
    let cases = plan.into_iter().map(|planned| planned.case);
    let size = |case: &Case| case.params.number("cities").or(case.params.number("timers"));
    cases.filter(|case| size(case).is_none_or(|size| size <= 7)).collect()
}

/// As many as a ring does at least.
const ROUNDS: u64 = 5;

#[track_caller]
fn sample(case: &Case) -> Sample {
    let mut sampler = ChildSampler::new("/bin/false".into(), vec![]).with_processes(PROGRAM.into());
    let effort = Effort { rounds: ROUNDS, limit: Duration::from_secs(60) };
    sampler.sample(case, effort).unwrap_or_else(|failure| panic!("{case}: {failure}"))
}

#[track_caller]
fn assert_all_are_sampled(experiment: &str, least: usize) {
    let cases = cases(experiment);
    assert!(cases.len() >= least, "{} cases", cases.len());
    for case in cases {
        let sample = sample(&case);
        assert_eq!(sample.rounds, ROUNDS, "{case}");
        let value = &sample.readings[0];
        assert!(value.unit == Unit::Nanoseconds && value.value > 0.0, "{case}: {value:?}");
    }
}

#[test]
fn a_ring_of_worker_processes_does_all_its_laps_in_every_layout() {
    assert_all_are_sampled("ring", 2 * (2 + 3));
}

#[test]
fn worker_processes_do_every_item_of_costs() {
    assert_all_are_sampled("costs", 24);
}

#[test]
fn worker_processes_find_the_shortest_tour() {
    assert_all_are_sampled("tsp", 2 * 2 * 2);
}

#[test]
fn the_command_measures_worker_processes_beside_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let run = run(Path::new(DAIKO), &out);
    let results = fs::read_to_string(out.join("results.json")).expect("results");
    let points: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let points = points["points"].as_array().expect("points");
    for method in ["daiko-borrowed-mover", processes::METHOD] {
        let measured = points.iter().filter(|point| point["method"] == method);
        assert_eq!(measured.count(), 2, "{run}");
    }
}

#[test]
fn without_its_program_the_method_is_left_out_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("daiko");
    executable::copy(DAIKO, &alone);
    let told = run(&alone, &folder.path().join("out"));
    let reason =
        format!("skipped: ring {} (2 points): {}", processes::METHOD, folder.path().display());
    assert!(told.contains(&reason), "{told}");
    assert!(
        told.contains("make install") && told.contains("2 points measured, 2 skipped"),
        "{told}"
    );
}

/// The output of `program` for a short ring with threads and with processes.
#[track_caller]
fn run(program: &Path, out: &Path) -> String {
    let methods = format!("daiko-borrowed-mover,{}", processes::METHOD);
    let mut command = Command::new(program);
    command.args(["lab", "run", "ring", "--quick", "--threads=5", "--workers=1", "--methods"]);
    let output = command.arg(methods).arg("--out").arg(out).output().expect("the command starts");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[test]
fn only_the_program_names_its_starter() {
    for (arguments, input) in [(&["--help"][..], ""), (&[], ""), (&[], "nonsense")] {
        let mut child = Command::new(PROGRAM)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // A program that refuses its arguments does not read.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the program ends");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains("`daiko lab run`") && output.stdout.is_empty(), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}
