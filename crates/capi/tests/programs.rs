//! Programs in C against the static and the shared library.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use daiko::shm::bytemuck::{Pod, Zeroable};
use daiko::shm::{Channel, RecvError, Segment};

#[path = "../../../tests/segments.rs"]
mod segments;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// The libraries of the system that the static library needs, as `daiko.pc` names them.
const SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-lm", "-ldl"];

/// The variable that names a static library for AddressSanitizer.
const SANITIZED: &str = "DAIKO_CAPI_ASAN";

/// The way in which a program is linked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Static,
    Shared,
    /// Static and for AddressSanitizer, with the library that `tools/sanitize` builds.
    Sanitized,
}

/// Returns the folder of the built files.
fn folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs a command, which must succeed.
#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

/// Returns the static library that cargo has built for this test: the latest one.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let is_library = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_string_lossy();
            name.starts_with("libdaiko_capi") && name.ends_with(".a")
        };
        let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
        let latest = files
            .filter(is_library)
            .max_by_key(|file| file.metadata().unwrap().modified().unwrap());
        latest.expect("cargo builds the static library for this test")
    })
}

/// The begin of the name of a folder of built programs. The rest is the id of the process.
const FOLDER: &str = "capi-programs-";

/// Removes the folders of processes that have ended.
fn forget_ended_runs() {
    for entry in fs::read_dir(folder()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(process) = name.strip_prefix(FOLDER)
            && !Path::new("/proc").join(process).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns a folder with the shared library.
fn shared() -> &'static Path {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    SHARED.get_or_init(|| {
        forget_ended_runs();
        let folder = folder().join(format!("{FOLDER}{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libdaiko.so.0");
        run(Command::new(Path::new(HERE).join("link")).arg(archive()).arg(&library));
        std::os::unix::fs::symlink(&library, folder.join("libdaiko.so")).unwrap();
        folder
    })
}

/// Compiles and links a program.
fn program(source: &str, link: Link) -> PathBuf {
    let source = Path::new(HERE).join(source);
    let stem = source.file_stem().unwrap().to_string_lossy().into_owned();
    // Tests build the same program at the same time.
    static BUILT: AtomicU32 = AtomicU32::new(0);
    let number = BUILT.fetch_add(1, Ordering::Relaxed);
    let to = shared().join(format!("{stem}-{link:?}-{number}"));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=gnu99",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
    ]);
    compiler.arg("-I").arg(Path::new(HERE).join("include")).arg("-o").arg(&to).arg(&source);
    match link {
        Link::Sanitized => {
            let library = std::env::var_os(SANITIZED).expect("the caller has looked");
            compiler.arg("-fsanitize=address").arg(library).args(SYSTEM)
        }
        Link::Static => compiler.arg(archive()).args(SYSTEM),
        Link::Shared => compiler
            .arg("-L")
            .arg(shared())
            .arg("-ldaiko")
            .arg(format!("-Wl,-rpath,{}", shared().display())),
    };
    run(&mut compiler);
    to
}

/// Runs a program by both kinds of libraries, and returns the lines of the last one.
fn lines(source: &str, arguments: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for link in [Link::Static, Link::Shared] {
        let program = program(source, link);
        out = run(Command::new(&program).args(arguments)).stdout;
        fs::remove_file(program).unwrap();
    }
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the ends of the lines with this begin.
fn names(lines: &[String], begin: &str) -> BTreeSet<String> {
    lines.iter().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
}

/// Compares two sets of names, of which a failure names the difference.
#[track_caller]
fn assert_same(found: &BTreeSet<String>, listed: &BTreeSet<String>) {
    let difference: Vec<_> = found.symmetric_difference(listed).collect();
    assert!(difference.is_empty(), "only one of the two has {difference:?}; abi.txt lists all");
}

/// Returns the lines of `abi.txt` for this kind.
fn listed(kind: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(HERE).join("abi.txt")).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    names(&lines, &format!("{kind} "))
}

/// Returns the functions of the header; those that may wait, if `wait`.
fn listed_functions(wait: bool) -> BTreeSet<String> {
    let functions = listed("function").into_iter();
    let of_line = |line: String| match line.strip_suffix(" waits") {
        Some(name) => Some(name.to_owned()),
        None => (!wait).then_some(line),
    };
    functions.filter_map(of_line).collect()
}

#[test]
fn the_header_compiles_as_c99_and_as_cxx11_without_a_warning() {
    let compilers = [("gcc", "c99"), ("clang", "c99"), ("g++", "c++11"), ("clang++", "c++11")];
    for (compiler, standard) in compilers {
        if !has(compiler) {
            println!("skipped: {compiler} is not installed");
            continue;
        }
        let language = if standard == "c99" { "c" } else { "c++" };
        let mut command = Command::new(compiler);
        command.args(["-x", language, &format!("-std={standard}"), "-fsyntax-only"]);
        command.args(["-pedantic", "-Wall", "-Wextra", "-Werror"]);
        command.arg("-I").arg(Path::new(HERE).join("include"));
        run(command.arg(Path::new(HERE).join("tests/c/header.c")));
    }
}

#[test]
fn the_exports_are_those_of_the_header_and_of_the_list() {
    let header = fs::read_to_string(Path::new(HERE).join("include/daiko.h")).unwrap();
    let declared = header.split("daiko_").skip(1).filter_map(|rest| {
        let name: String =
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        rest[name.len()..].starts_with('(').then(|| format!("daiko_{name}"))
    });
    let declared: BTreeSet<_> = declared.collect();
    assert_same(&declared, &listed_functions(false));
    let mut nm = Command::new("nm");
    let output = run(nm.args(["-D", "--defined-only"]).arg(shared().join("libdaiko.so.0")));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<_> = symbols
        .lines()
        .filter(|line| line.contains(" T "))
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect();
    let versioned = listed_functions(false).into_iter().map(|name| name + "@@DAIKO_0.1").collect();
    assert_same(&exported, &versioned);
}

#[test]
fn the_sizes_and_values_are_those_of_the_list() {
    assert_same(&names(&lines("tests/c/sizes.c", &[]), "size "), &listed("size"));
}

#[test]
fn bad_input_to_each_function_gives_a_code() {
    let mut called = names(&lines("tests/c/bad_input.c", &[]), "bad input ");
    called.extend(names(&lines("tests/c/cancel_shared.c", &[]), "bad input "));
    assert_same(&called, &listed_functions(false));
}

#[test]
fn each_function_that_may_wait_tells_a_cancelled_fiber_at_once() {
    let mut called = names(&lines("tests/c/cancelled.c", &[]), "cancelled ");
    called.extend(names(&lines("tests/c/cancel_shared.c", &[]), "cancelled "));
    assert_same(&called, &listed_functions(true));
}

#[test]
fn a_cancel_ends_each_wait_and_leaves_nothing_behind() {
    let mut called = names(&lines("tests/c/cancel_locks.c", &[]), "cancels ");
    called.extend(names(&lines("tests/c/cancel_io.c", &[]), "cancels "));
    called.extend(names(&lines("tests/c/cancel_shared.c", &[]), "cancels "));
    // These do not wait for an event that a test could hold back.
    let not_held_back = [
        "blocking",
        "connect",
        "poller_unregister",
        "runtime_free",
        "runtime_shutdown",
        "server_stop",
    ];
    called.extend(not_held_back.map(|name| format!("daiko_{name}")));
    assert_same(&called, &listed_functions(true));
}

#[test]
fn a_cancel_before_the_start_or_the_wait_is_told_and_can_be_cleared() {
    lines("tests/c/cancel_early.c", &[]);
}

#[test]
fn fibers_locks_keys_and_pollers_work_on_two_workers() {
    lines("tests/c/works.c", &[]);
}

#[test]
fn objects_of_a_segment_work_between_processes_and_tell_of_a_killed_one() {
    lines("tests/c/shared_objects.c", &[]);
}

#[test]
fn a_killed_peer_ends_the_waits_at_a_shared_channel() {
    lines("tests/c/shared_channel.c", &[]);
}

/// `struct trade` of `typed_peer.c`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Trade {
    id: u64,
    price: u64,
    amount: u32,
    unused: u32,
}

// SAFETY: integers, whose zeros are valid.
unsafe impl Zeroable for Trade {}
// SAFETY: integers without padding.
unsafe impl Pod for Trade {}

#[test]
fn a_program_in_c_shares_channels_with_one_in_rust_by_the_size_of_the_type() {
    for link in [Link::Static, Link::Shared] {
        let name = segments::segment_name(format!("typed-{link:?}"));
        let segment = Segment::create(&name, 1 << 20).unwrap();
        let trades = Channel::<Trade>::create(&segment, "trades", Channel::options()).unwrap();
        let mut sender = trades.sender().unwrap();
        for id in 1..=10 {
            sender.send(Trade { id, price: 2 * id, amount: 3, unused: 0 }).unwrap();
        }
        drop(sender);
        run(Command::new(program("tests/c/typed_peer.c", link)).arg(&name));
        segment.remove().unwrap();

        assert!(Channel::<[u64; 2]>::open(&segment, "sums").is_err(), "of another size");
        let sums = Channel::<Trade>::open(&segment, "sums").unwrap();
        let mut receiver = sums.receiver().unwrap();
        let sum = Trade { id: 55, price: 110, amount: 30, unused: 0 };
        assert_eq!(receiver.recv(), Ok(sum));
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    }
}

#[test]
fn the_examples_end_well() {
    assert_eq!(lines("examples/ring.c", &["50", "20"]).len(), 1);
    assert_eq!(lines("examples/producer_consumer.c", &[]), ["the sum is 50005000"]);
    assert_eq!(lines("examples/echo_server.c", &[]), ["20 clients were answered"]);
    assert_eq!(lines("examples/segment_client.c", &[]), ["7 squared is 49"]);
}

#[test]
fn valgrind_finds_no_error_in_cancelled_waits() {
    if !has("valgrind") {
        println!("skipped: valgrind is not installed");
        return;
    }
    // Not those of segments: valgrind does not know the calls by which these watch processes.
    for source in ["tests/c/cancel_locks.c", "tests/c/cancel_io.c"] {
        let program = program(source, Link::Shared);
        let mut valgrind = Command::new("valgrind");
        let output = run(valgrind.args(["--error-exitcode=9", "--"]).arg(program));
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(report.contains("ERROR SUMMARY: 0 errors"), "{report}");
    }
}

#[test]
fn address_sanitizer_finds_a_planted_fault_and_no_other() {
    if std::env::var_os(SANITIZED).is_none() {
        println!("skipped: {SANITIZED} names no library for AddressSanitizer; tools/sanitize does");
        return;
    }
    let run_sanitized = |source: &str| {
        let mut command = Command::new(program(source, Link::Sanitized));
        // The stacks of fibers are not searched for pointers, and frames are larger.
        command.env("ASAN_OPTIONS", "detect_leaks=0").env("DAIKO_STACK_SIZE", "2M");
        command
    };
    let fault = run_sanitized("tests/c/planted_fault.c").output().unwrap();
    let report = String::from_utf8_lossy(&fault.stderr);
    assert!(
        report.contains("heap-buffer-overflow") && report.contains("in writes_too_far"),
        "{report}"
    );
    for name in [
        "cancel_locks",
        "cancel_io",
        "cancel_shared",
        "shared_channel",
        "shared_objects",
        "cancelled",
        "bad_input",
    ] {
        run(&mut run_sanitized(&format!("tests/c/{name}.c")));
    }
}
