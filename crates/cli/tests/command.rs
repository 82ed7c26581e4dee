//! The command from a user's view: refusals, output and files.

#[path = "../../../tests/signals.rs"]
mod signals;

use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use daiko_sys::topology::described::Described;
use serde_json::{Value, json};
use signals::with_default_signals;

fn daiko(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daiko"));
    command.args(arguments).current_dir(std::env::temp_dir());
    with_default_signals(&mut command);
    command
}

fn output(arguments: &[&str]) -> Output {
    daiko(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Asserts exit code 2, an empty standard output, and one line that contains all of `wanted`.
#[track_caller]
fn assert_refused(arguments: &[&str], wanted: &[&str]) {
    let output = output(arguments);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(complaint.lines().count(), 1, "{arguments:?}: {complaint}");
    assert!(complaint.starts_with("daiko: "), "{arguments:?}: {complaint}");
    for word in wanted {
        assert!(complaint.contains(word), "{arguments:?}: no '{word}' in: {complaint}");
    }
}

fn results(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("results.json")).expect("results.json");
    serde_json::from_str(&text).expect("JSON")
}

fn measured(results: &Value) -> Vec<&Value> {
    let points = results["points"].as_array().expect("points");
    points.iter().filter(|point| point.get("source").is_none()).collect()
}

#[test]
fn an_unknown_experiment_is_refused_with_those_there_are() {
    assert_refused(&["lab", "run", "nonsense"], &["'nonsense'", "limits", "ring"]);
    assert_refused(&["lab", "run", "limits", "nonsense"], &["'nonsense'"]);
    assert_refused(&["lab", "run", "non\nsense\u{1b}"], &["'non\\nsense\\u{1b}'"]);
}

#[test]
fn an_unknown_method_is_refused_with_those_there_are() {
    assert_refused(&["lab", "run", "limits", "--methods", "nonsense"], &["'nonsense'", "rmw-pair"]);
    assert_refused(&["lab", "run", "limits", "--methods", "switch,"], &["--methods"]);
    let both = output(&["lab", "run", "ring", "channels", "--methods", "nonsense"]);
    assert_eq!(text(&both.stderr).matches(" kanal,").count(), 1);
    assert_eq!(text(&both.stderr).matches(" crossbeam-channel,").count(), 1, "named twice");
}

#[test]
fn a_list_that_is_none_is_refused() {
    for list in ["", "x", "10,,20", "1e3", "-5", "10;20"] {
        let option = format!("--threads={list}");
        assert_refused(&["lab", "run", "limits", &option], &["--threads", "like"]);
        let option = format!("--workers={list}");
        assert_refused(&["lab", "run", "ring", &option], &["--workers", "like"]);
    }
}

#[test]
fn a_number_out_of_range_is_refused_with_the_range() {
    assert_refused(&["lab", "run", "limits", "--threads", "1"], &["1 is not within 2 to"]);
    assert_refused(&["lab", "run", "limits", "--threads", "100M"], &["100M is not within"]);
    assert_refused(&["lab", "run", "ring", "--workers", "0"], &["0 is not within 1 to"]);
    assert_refused(&["lab", "run", "ring", "--workers", "5000"], &["5000 is not within"]);
}

/// Two wake-ups of the paper's figure 2.
const TRACE: &str = "daiko-wakes 1\ncpus 2\n1000 7 0 0 2 1\n2000 7 0 1 3 0\nlost 0\nend 2\n";

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace");
    fs::write(&file, TRACE).expect("a file");
    let output = output(&["lab", "replay", file.to_str().expect("UTF-8")]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    let row = |name: &str| -> Vec<String> {
        let row = told.lines().find(|line| line.starts_with(name)).expect("a row");
        row.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("recorded")[1..5], ["2", "1,000", "500", "500"], "{told}");
    assert_eq!(row("existing")[1..], row("recorded")[1..], "{told}");
    assert_eq!(row("follow")[1..5], ["1", "500", "0", "0"], "{told}");
}

#[test]
fn a_trace_that_is_none_is_refused_with_line_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace");
    let name = file.to_str().expect("UTF-8");
    assert_refused(&["lab", "replay", name], &["cannot read", name, "name a recorded trace"]);
    assert_refused(&["lab", "replay"], &["<FILE>", "see daiko lab replay --help"]);
    assert_refused(&["lab", "replay", "/"], &["cannot replay /: line 1: "]);
    for (trace, wanted) in [
        ("", "line 1: no trace"),
        (&TRACE[..TRACE.len() - 7], "line 6: truncated: no 'end' behind 2 wake-ups; copy all"),
        (&TRACE.replace("cpus 2", "cpus 1"), "line 3: '2' is no mask of 1 CPUs; record it again"),
        (&TRACE.replace("end 2", "end 3"), "line 6: 'end 3' behind 2 wake-ups"),
    ] {
        fs::write(&file, trace).expect("a file");
        assert_refused(&["lab", "replay", name], &["cannot replay", name, wanted]);
    }
}

#[test]
fn a_recorded_machine_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().to_str().expect("UTF-8");
    let machine = Described::parse("1x2x2 allowed=0,2 offline=3").expect("a machine");
    machine.write_to(folder.path()).expect("files");
    let drawn = output(&["topology", "--root", root]);
    let expected = "\
1 package, 1 node, 2 cores, 3 online CPUs
package 0, node 0
  L3 16 MiB: CPUs 0-2
    1 core: CPUs 0+2; L1d 48 KiB, L1i 32 KiB, L2 1 MiB
    1 core: CPU (1); L1d 48 KiB, L1i 32 KiB, L2 1 MiB
offline CPUs: 3
in parentheses: not allowed
pairing is available: siblings are there and allowed
";
    assert_eq!(text(&drawn.stdout), expected, "{}", text(&drawn.stderr));
    let told: Value =
        serde_json::from_slice(&output(&["topology", "--json", "--root", root]).stdout)
            .expect("JSON");
    assert_eq!(
        told["cpus"][2],
        json!({"id": 2, "package": 0, "node": 0, "core": 0, "thread": 1, "capacity": 1024, "allowed": true})
    );
    assert_eq!(told["cpus"][1]["allowed"], false);
    assert_eq!(told["offline"], json!([3]));
    assert_eq!(told["nodes"], json!([{"id": 0, "cpus": [0, 1, 2]}]));
    assert_eq!(
        told["caches"].as_array().expect("caches").last(),
        Some(&json!({"level": 3, "kind": "unified", "bytes": 16 << 20, "cpus": [0, 1, 2]}))
    );
    assert_eq!((&told["smt"], &told["pairing"]), (&json!("usable"), &json!(true)));
    assert_eq!((&told["quota"], &told["workers"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_root_without_a_description_is_refused_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().to_str().expect("UTF-8");
    let online = folder.path().join("sys/devices/system/cpu/online");
    let wanted = online.to_str().expect("UTF-8");
    assert_refused(&["topology", "--root", root], &["--root: cannot read", wanted, "name a root"]);
    assert_refused(&["topology", "--root", "/no\nwhere", "--json"], &["/no\\nwhere/sys/devices"]);
    assert_refused(&["topology", "--root"], &["--root", "see daiko --help"]);
    Described::parse("1x2x1").expect("a machine").write_to(folder.path()).expect("files");
    fs::write(&online, "0-99999999999\n").expect("a file");
    assert_refused(&["topology", "--root", root], &[wanted, "\"0-99999999999\"", "CPU list"]);
}

#[test]
fn this_machine_is_told_as_json() {
    let output = output(&["topology", "--json"]);
    if output.status.code() == Some(1) {
        println!("skipped: {}", text(&output.stderr));
        return;
    }
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed =
        told["cpus"].as_array().expect("CPUs").iter().filter(|cpu| cpu["allowed"] == true);
    assert!(told["workers"].as_u64().is_some_and(|workers| workers as usize <= allowed.count()));
}

#[test]
fn an_incomplete_or_unknown_command_line_is_refused() {
    assert_refused(
        &[],
        &[
            "run, lab, doctor, follow, schedule, topology, pair, ps, deadlock, core, top, trace, profile, completions; see daiko --help",
        ],
    );
    assert_refused(&["lab"], &["list, run, compare, replay; see daiko lab --help"]);
    assert_refused(&["lab", "run"], &["<EXPERIMENT>", "see daiko lab run --help"]);
    assert_refused(&["follow"], &["status, start, stop, record; see daiko follow --help"]);
    assert_refused(&["schedule"], &["status, start, stop; see daiko schedule --help"]);
    assert_refused(
        &["follow", "record"],
        &["--seconds", "--out", "see daiko follow record --help"],
    );
    assert_refused(&["nonsense"], &["nonsense", "see daiko --help"]);
    assert_refused(&["lab", "nonsense"], &["nonsense", "see daiko lab --help"]);
    assert_refused(
        &["lab", "run", "limits", "--nonsense"],
        &["--nonsense", "see daiko lab run --help"],
    );
}

#[test]
fn a_policy_bound_or_time_that_there_is_not_is_refused() {
    assert_refused(&["follow", "start", "--policy", "best"], &["'best'", "existing, follow"]);
    for bound in ["256", "-1", "x", ""] {
        assert_refused(&["follow", "start", &format!("--bound={bound}")], &["--bound"]);
    }
    for seconds in ["0", "86401", "1.5"] {
        let option = format!("--seconds={seconds}");
        assert_refused(&["follow", "record", &option, "--out", "x"], &["--seconds"]);
        let option = format!("--interval={seconds}");
        assert_refused(&["follow", "start", &option], &["--interval"]);
    }
}

#[test]
fn options_of_the_scheduler_that_need_others_are_refused() {
    assert_refused(&["schedule", "start", "--class", "1=stall"], &["--pair"]);
    assert_refused(&["schedule", "start", "--bound", "3"], &["--follow"]);
    for class in ["1", "x=stall", "0=stall", "1=fast"] {
        assert_refused(&["schedule", "start", "--pair", "--class", class], &["--class"]);
    }
    for pid in ["0", "-1", "x", ""] {
        assert_refused(&["schedule", "start", &format!("--only={pid}")], &["--only"]);
    }
}

#[test]
fn means_of_placement_that_there_are_not_are_refused() {
    assert_refused(&["pair", "--by", "force", "--", "true"], &["'force'", "masks, schedule"]);
    assert_refused(&["pair", "--by", "masks", "--advise", "--", "true"], &["--advise"]);
    assert_refused(&["schedule", "pair"], &["--only"]);
}

#[test]
fn a_kernel_without_sched_ext_is_named() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        println!("skipped: a_kernel_without_sched_ext_is_named: this one has it");
        return;
    }
    for rest in [&["start"][..], &["stop"], &["record", "--seconds", "1", "--out", "/nowhere/x"]] {
        assert_refused(&[&["follow"], rest].concat(), &["no sched_ext", "CONFIG_SCHED_CLASS_EXT"]);
    }
    for rest in [&["start"][..], &["start", "--only", "1"], &["stop"]] {
        assert_refused(
            &[&["schedule"], rest].concat(),
            &["no sched_ext", "CONFIG_SCHED_CLASS_EXT"],
        );
    }
    let output = output(&["follow", "status"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(told.contains("no sched_ext") && told.contains("Receive Flow Steering: "), "{told}");
}

#[test]
fn a_list_that_changes_nothing_is_refused_with_its_purpose() {
    assert_refused(
        &["lab", "run", "governor", "--threads", "10"],
        &["--threads changes nothing in governor", "limits, ring, scarce, costs, many, memory"],
    );
    assert_refused(
        &["lab", "run", "costs", "memory", "--workers", "1"],
        &[
            "--workers changes nothing in costs, memory",
            "ring, scarce, channels, fork-join, governor",
        ],
    );
    assert_refused(
        &["lab", "run", "ring", "--cpu-task", "a=true"],
        &["--cpu-task changes nothing in ring; it is for smt"],
    );
    assert_refused(&["lab", "run", "ring", "--pmem", "/"], &["--pmem changes nothing in ring"]);
}

#[test]
fn tasks_and_folders_that_are_none_are_refused() {
    assert_refused(&["lab", "run", "smt", "--cpu-task", "mcf"], &["'mcf' is no task", "mcf="]);
    let twice = ["lab", "run", "smt", "--cpu-task", "a=b", "--cpu-task", "a=c"];
    assert_refused(&twice, &["'a' is there twice"]);
    for folder in ["/nonexistent", "/proc/version"] {
        assert_refused(
            &["lab", "run", "smt", "--pmem", folder],
            &["--pmem", folder, "name a folder"],
        );
    }
}

#[test]
fn an_out_that_cannot_be_a_folder_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    for out in [file.as_path(), &file.join("below"), Path::new("/proc/nowhere")] {
        let out = out.to_str().expect("UTF-8");
        assert_refused(&["lab", "run", "limits", "--out", out], &["--out", out]);
    }
}

#[test]
fn an_out_without_permission_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("permissions");
    if fs::write(folder.path().join("probe"), "").is_ok() {
        println!("skipped: an_out_without_permission_is_refused: root may write anywhere");
        return;
    }
    let out = folder.path().to_str().expect("UTF-8");
    assert_refused(&["lab", "run", "limits", "--out", out], &["--out", out]);
}

#[test]
fn a_sample_without_a_request_is_refused() {
    assert_refused(&["lab", "sample"], &["daiko lab run"]);
}

#[test]
fn help_version_list_doctor_and_topology_succeed() {
    for (arguments, wanted) in [
        (vec!["--help"], "Usage: daiko"),
        (vec!["--version"], "daiko 0."),
        (vec!["lab", "list"], "assembly-ring"),
        (vec!["doctor"], "allowed CPUs"),
        (vec!["topology"], "workers by default"),
    ] {
        let output = output(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(wanted), "{arguments:?}: {}", text(&output.stdout));
    }
}

#[test]
fn doctor_tells_whether_the_threads_of_a_program_could_be_taken_over() {
    let this = std::env::current_exe().expect("a path").display().to_string();
    let output = output(&["doctor", &this]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with(&format!("{this}: dynamic, glibc 2.")), "{told}");
    assert!(told.ends_with("creates threads: could be taken over\n"), "{told}");
    assert_refused(&["doctor", "/etc"], &["/etc is no regular file"]);
    assert_refused(&["doctor", "/etc/passwd"], &["/etc/passwd is not executable: chmod +x"]);
    assert_refused(&["doctor", "no\nprogram"], &["no\\nprogram is not found"]);
}

#[test]
fn doctor_tells_of_a_variable_that_names_no_kind_of_blocks() {
    let output = daiko(&["doctor"]).env("DAIKO_THREAD_BLOCKS", "light").output();
    let output = output.expect("the command starts");
    let told = "DAIKO_THREAD_BLOCKS is \"light\": set it to home, or unset it";
    assert!(text(&output.stdout).contains(told), "{}", text(&output.stdout));
}

#[test]
fn doctor_tells_of_a_variable_with_which_no_runtime_starts() {
    let output = daiko(&["doctor"]).env("DAIKO_USER_WAIT", "yes").output();
    let output = output.expect("the command starts");
    let told = "DAIKO_USER_WAIT is \"yes\"; set it to 1, or unset it";
    assert!(text(&output.stdout).contains(told), "{}", text(&output.stdout));
}

#[test]
fn a_closed_reader_is_no_error() {
    let mut child = daiko(&["lab", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_run_leaves_results_of_the_schema_and_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("new").join("folder");
    let path = out.to_str().expect("UTF-8");
    let run = ["lab", "run", "limits", "--methods", "rmw-pair,switch,assembly-ring"];
    let run = [&run[..], &["--threads", "2,10", "--quick", "--out", path]].concat();
    let output = output(&run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("4 points measured, 0 skipped, 0 failed"));

    let results = results(&out);
    assert_eq!(results["schema"], 3);
    for field in ["cpu", "cpus", "kernel", "glibc", "date", "load", "conditions"] {
        assert!(!results["host"][field].is_null(), "host.{field}");
    }
    let points = measured(&results);
    assert_eq!(points.len(), 4);
    for point in points {
        let number =
            |field: &str| point[field].as_f64().unwrap_or_else(|| panic!("{field}: {point}"));
        assert_eq!(point["experiment"], "limits");
        assert_eq!(point["unit"], "ns");
        assert!(point["params"].is_object(), "{point}");
        let samples = point["samples"].as_array().expect("samples");
        assert_eq!(samples.len() as f64, number("runs"), "{point}");
        for field in ["value", "load", "stolen", "others", "involuntary"] {
            assert!(samples.iter().all(|sample| sample[field].is_number()), "{field}: {point}");
        }
        assert!(number("runs") >= 5.0, "{point}");
        assert!(0.0 < number("min") && number("min") <= number("median"), "{point}");
        assert!(number("median") <= number("max"), "{point}");
    }
    let report = fs::read_to_string(out.join("report.html")).expect("report.html");
    assert!(report.starts_with("<!DOCTYPE html>") && report.ends_with("</html>\n"));
    assert_compared(&out, &results);
}

#[test]
fn the_lab_records_traces_of_points_with_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let run = ["lab", "run", "ring", "--methods", "daiko,semaphore", "--threads", "100"];
    let output =
        output(&[&run[..], &["--workers", "1", "--quick", "--trace", "--out", path]].concat());
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    let traces = fs::read_dir(folder.path().join("traces")).expect("a folder");
    let names: Vec<_> =
        traces.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.contains("-daiko-")), "{names:?}");
    assert!(told.contains(&format!("traces of {} points of", names.len())), "{told}");
}

/// Compares a run with itself, with the same run on another machine, and with those that cannot be
/// compared.
fn assert_compared(out: &Path, results: &Value) {
    let path = out.to_str().expect("UTF-8");
    let same = output(&["lab", "compare", path, &format!("{path}/results.json")]);
    let told = text(&same.stdout);
    assert!(same.status.success(), "{}", text(&same.stderr));
    assert!(told.contains("rmw-pair") && told.contains("1.00x"), "{told}");
    assert!(told.ends_with("4 points compared, the ranges of 0 are apart\n"), "{told}");
    assert!(!told.contains("the machines differ"), "{told}");

    let changed = |key: &str, value: Value| {
        let file = out.join(key);
        let mut results = results.clone();
        match key {
            "cpu" => results["host"]["cpu"] = value,
            _ => results[key] = value,
        }
        fs::write(&file, results.to_string()).expect("a file");
        file.into_os_string().into_string().expect("UTF-8")
    };
    let elsewhere = output(&["lab", "compare", path, &changed("cpu", json!("another"))]);
    let told = text(&elsewhere.stdout);
    assert_eq!(
        told.lines().filter(|line| line.starts_with("note: the machines differ")).count(),
        1
    );
    assert!(told.contains("against another; measure both runs on one machine"), "{told}");

    let old = changed("schema", json!(2));
    assert_refused(&["lab", "compare", path, &old], &[&old, "version 2", "not 3; measure again"]);
    let none = changed("points", json!([]));
    assert_refused(&["lab", "compare", path, &none], &[&none, "without a measured point"]);
    let mut points = results["points"].clone();
    for point in points.as_array_mut().expect("points") {
        point["method"] = json!("another");
    }
    let others = changed("points", points);
    assert_refused(&["lab", "compare", path, &others], &["no point in common", "measure the same"]);
    let coloured = changed("cpu", json!("a\u{1b}[31mb"));
    assert!(text(&output(&["lab", "compare", path, &coloured]).stdout).contains("a\u{fffd}[31mb"));
    assert_refused(&["lab", "compare", path, "/nowhere"], &["cannot read /nowhere", "name the"]);
    assert_refused(&["lab", "compare", path, "/proc/version"], &["no results", "daiko lab run"]);
    assert_refused(&["lab", "compare", path], &["<B>", "see daiko lab compare --help"]);
}

#[test]
fn a_peer_that_is_missing_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = ["lab", "run", "ipc", "--methods", "redis", "--quick", "--out"];
    let output = daiko(&run).arg(folder.path()).env("PATH", "/nowhere").output();
    let output = output.expect("the command starts");
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let skipped: Vec<&str> = told.lines().filter(|line| line.starts_with("skipped: ")).collect();
    assert_eq!(skipped.len(), 1, "{told}");
    assert!(skipped[0].contains("ipc redis") && skipped[0].contains("not installed"), "{told}");
    assert!(told.ends_with("skipped points: apt-get install redis-server\n"), "{told}");
    assert_eq!(results(folder.path())["skipped"][0]["method"], "redis");
}

#[test]
fn applications_that_are_missing_are_told_with_one_command_that_installs_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = ["lab", "run", "apps", "--methods", "native", "--apps", "redis,memcached", "--out"];
    let output = daiko(&run).arg(folder.path()).env("PATH", "/nowhere").output();
    let told = text(&output.expect("the command starts").stdout);
    let packages = "libmemcached-tools memcached redis-server redis-tools";
    assert!(told.ends_with(&format!("apt-get install {packages}\n")), "{told}");
    assert!(told.contains("skipped: apps native (1 point): memcached: not installed: memcached,"));
    assert_eq!(results(folder.path())["skipped"].as_array().expect("points").len(), 2);
}

#[test]
fn an_application_that_is_not_known_is_refused_with_those_there_are() {
    assert_refused(&["lab", "run", "apps", "--apps", "nonsense"], &["'nonsense'", "mariadb, "]);
    assert_refused(&["lab", "run", "apps", "--apps", "redis,"], &["--apps", "redis,stress-ng"]);
    assert_refused(&["lab", "run", "ring", "--apps", "redis"], &["--apps changes nothing", "apps"]);
}

#[test]
fn a_quick_run_has_the_shapes_of_channels_and_the_reasons_for_those_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = ["lab", "run", "channels", "--methods", "daiko,tokio-current", "--workers", "1"];
    let output = daiko(&run).args(["--quick", "--out"]).arg(folder.path()).output();
    let output = output.expect("the command starts");
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    assert!(told.contains("12 points measured, 4 skipped, 0 failed"), "{told}");
    assert!(
        told.contains("skipped: channels tokio-current (3 points): the channel has one consumer")
    );
    assert!(told.contains("skipped: channels tokio-current (1 point): tokio has no rendezvous"));
    assert_eq!(measured(&results(folder.path()))[0]["method"], "daiko");
}

/// A run of 8 points, of 8 samples of 50 ms each, that is past its second tenth: it is beyond
/// calibration, with seconds left.
struct BegunRun {
    child: Child,
    progress: Lines<BufReader<ChildStderr>>,
}

impl BegunRun {
    fn start(program: &mut Command, folder: &Path) -> Self {
        program.args(["lab", "run", "limits", "--methods", "rmw-pair,switch,assembly-ring"]);
        program.arg("--out").arg(folder).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().expect("the command starts");
        let mut progress = BufReader::new(child.stderr.take().expect("piped")).lines();
        for _ in 0..3 {
            progress.next().expect("a line of progress").expect("UTF-8");
        }
        Self { child, progress }
    }

    /// Sends `signal` to the process `target`, or to the group `-target`.
    fn kill(&self, target: i32, signal: i32) {
        // SAFETY: takes plain integers; the child was not waited for, so its id is not reused.
        assert_eq!(unsafe { libc::kill(target, signal) }, 0);
    }

    /// Asserts that the run ends early, tells so, and leaves results and report.
    fn assert_kept(self, folder: &Path) {
        let rest = self.progress.count();
        let output = self.child.wait_with_output().expect("the command ends");
        assert_eq!(output.status.code(), Some(130));
        assert!(rest < 9, "it went on to the end");
        assert!(text(&output.stdout).contains("stopped early"), "{}", text(&output.stdout));
        assert_measured(folder);
    }
}

/// Asserts that the results and the report of a part of a run are there.
fn assert_measured(folder: &Path) {
    let results = results(folder);
    assert_eq!(results["interrupted"], true);
    assert!(!measured(&results).is_empty());
    let report = fs::read_to_string(folder.join("report.html")).expect("a report");
    assert!(report.contains("Stopped before its end"), "{report}");
}

#[test]
fn an_interrupt_keeps_the_measurements() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = BegunRun::start(&mut daiko(&[]), folder.path());
        run.kill(run.child.id() as i32, signal);
        run.assert_kept(folder.path());
    }
}

#[test]
fn an_interrupt_of_command_and_group_keeps_the_measurements() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = BegunRun::start(daiko(&[]).process_group(0), folder.path());
    let child = run.child.id() as i32;
    run.kill(child, libc::SIGTERM);
    run.kill(-child, libc::SIGTERM);
    run.assert_kept(folder.path());
}

#[test]
fn a_timeout_keeps_the_measurements() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut timeout = Command::new("timeout");
    with_default_signals(timeout.args(["1000", env!("CARGO_BIN_EXE_daiko")]));
    let run = BegunRun::start(&mut timeout, folder.path());
    // As at the end of its time, it sends the signal to the command, then to the group of both. It
    // only returns another code then.
    run.kill(run.child.id() as i32, libc::SIGTERM);
    run.assert_kept(folder.path());
}

#[test]
fn a_killed_run_has_written_its_measurements() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = BegunRun::start(&mut daiko(&[]), folder.path());
    run.child.kill().expect("it runs");
    run.child.wait().expect("it ends");
    assert_measured(folder.path());
}
