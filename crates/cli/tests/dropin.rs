//! Programs in C and C++ that check promises of threads, natively and under `daiko run`.
//! `tests/dropin/README.md` has the rules for these programs.

#[path = "dropin/deadlocks.rs"]
mod deadlocks;
mod installed;
#[path = "../../../tests/signals.rs"]
mod signals;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, mem, thread};

use signals::with_default_signals;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/dropin");
const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dropin");
const OPTIONS: [&str; 6] = ["-O1", "-fexceptions", "-pthread", "-Wall", "-Wextra", "-Werror"];
const LIMIT: Duration = Duration::from_secs(60);
const LARGE_LIMIT: Duration = Duration::from_secs(1800);
/// The exit code of a program that this machine cannot run.
const SKIPPED: i32 = 77;

/// A way to start the programs.
struct Launch {
    /// Returns the words in front of the program.
    prefix: fn() -> Vec<OsString>,
    /// The programs that do not keep their promise, with the reason.
    differences: &'static [Difference],
}

struct Difference {
    /// The group and the name.
    program: &'static str,
    /// Whether the program fails in each run. A pass is then an error: the row is stale.
    is_certain: bool,
    reason: &'static str,
}

const fn differs(program: &'static str, reason: &'static str) -> Difference {
    Difference { program, is_certain: true, reason }
}

const fn may_differ(program: &'static str, reason: &'static str) -> Difference {
    Difference { program, is_certain: false, reason }
}

/// `DAIKO_DROPIN_PREFIX` puts words in front of the programs, for trials.
const NATIVE: Launch = Launch { prefix: Vec::new, differences: &[] };
const ONE_WORKER: Launch = Launch { prefix: || run(1), differences: DIFFERENCES };
const TWO_WORKERS: Launch = Launch { prefix: || run(2), differences: DIFFERENCES };

const DISPATCHED: Launch = Launch { prefix: run_dispatched, differences: &[] };

/// The differences under `daiko run`.
const DIFFERENCES: &[Difference] = &[
    may_differ("identity/cpu_time", "CPU time accrues to workers"),
    may_differ("io/standard_input", "open"),
    differs("instructions/results", "the worker makes the calls, unless --dispatch is given"),
    differs("instructions/signals", "the worker makes the calls, unless --dispatch is given"),
    differs("renewal/error_number", "the message of dlerror is lost when the runtime starts"),
    differs("signals/faults", "handlers of faults run on the alternate stack of the worker"),
    differs("signals/overflow", "handlers of faults run on the alternate stack of the worker"),
];

fn run(workers: u32) -> Vec<OsString> {
    let daiko = installed::daiko().into_os_string();
    [daiko].into_iter().chain(["run".into(), format!("--workers={workers}").into()]).collect()
}

fn run_dispatched() -> Vec<OsString> {
    run(2).into_iter().chain(["--dispatch".into()]).collect()
}

/// Calls a macro with all groups and their programs.
macro_rules! programs {
    ($then:ident $($arguments:tt)*) => {
        $then! { $($arguments)*
            mutex: adaptive errorcheck freed_after_unlock hand_over normal priority_inherit
                priority_protect process_shared recursive robust robust_process timed;
            cond: broadcast clocks destroy handlers owner ping_pong process_shared queue;
            semaphore: handler_interrupts_post handler_posts interrupted process_shared ring timed values;
            rwlock: preference process_shared readers_writers timed;
            barrier: destroy process_shared rounds;
            once: cancelled forked once;
            spin: lock;
            threads: allocation create_join default_attributes detach failures keys locals many
                raw_clone results returned without_tables;
            renewal: cancel_state error_number exceptions keys locale name rounding scheduling
                signal_mask thread_locals;
            cancel: asynchronous cleanup destructors ended_by_handler mutex_held_again native_waits
                points signal_passed_on state;
            signals: context faults handler_in_wait kill_sleeper leaf longjmp mask overflow
                process_wide profiling sigwait spinner stop storm suspend timers;
            time: order sleeps;
            futex: bitset requeue shared_memory timeouts wait_wake waitv wake_op;
            instructions: lock many_waiters results signals;
            io: aio closed_numbers files interrupted lost_instance nonblocking pipes readiness select_errors
                selects shared_waits sockets standard_input timeouts unasked;
            stdio: file_lock streams;
            processes: atfork atfork_uses credentials credentials_storm exec fork fork_beside_closes fork_storm spawn;
            exits: by_signal by_signal_after_main deadlock exit_of_main handler_raises with_suspended;
            loading: constructor first_thread own_allocator thread_local;
            stack: attributes contexts scan;
            spinning: barrier flag;
            identity: affinity cpu_time ids inherited names priorities unshared;
            c11: mutexes threads;
            cpp: atomic_waits exceptions futures mutexes once thread_local;
        }
    };
}

/// The programs with a count argument, and the count for `make soak`.
const LARGE: &[(&str, &str, &str)] = &[
    ("cond", "handlers", "200000"),
    ("processes", "credentials_storm", "20000"),
    ("processes", "fork_storm", "1000"),
    ("semaphore", "ring", "1000000"),
    ("signals", "storm", "600"),
    ("threads", "create_join", "1000000"),
    ("threads", "many", "32000"),
];

macro_rules! listed {
    ($($group:ident: $($program:ident)+;)+) => {
        const PROGRAMS: &[(&str, &str)] = &[$($((stringify!($group), stringify!($program)),)+)+];
    };
}

macro_rules! launched {
    ($launch:ident as $module:ident; $($group:ident: $($program:ident)+;)+) => {
        mod $module {
            $(mod $group {
                $(#[test]
                fn $program() {
                    let (group, program) = (stringify!($group), stringify!($program));
                    crate::check(&crate::$launch, group, program, &[], crate::LIMIT);
                })+
            })+
        }
    };
}

programs!(listed);
programs!(launched NATIVE as native;);
programs!(launched ONE_WORKER as one_worker;);
programs!(launched TWO_WORKERS as two_workers;);

/// Programs that run with `--dispatch`, too: all that make system calls by their own instructions,
/// and groups that change signals, kernel threads and processes.
macro_rules! programs_of_dispatch {
    ($then:ident $($arguments:tt)*) => {
        $then! { $($arguments)*
            instructions: lock many_waiters results signals;
            cancel: asynchronous cleanup destructors native_waits points state;
            futex: bitset requeue shared_memory timeouts wait_wake waitv wake_op;
            identity: affinity unshared;
            io: interrupted pipes;
            loading: constructor first_thread own_allocator thread_local;
            processes: atfork atfork_uses credentials credentials_storm exec fork fork_beside_closes fork_storm spawn;
            signals: context handler_in_wait kill_sleeper longjmp mask process_wide profiling sigwait spinner
                stop storm suspend timers;
            threads: create_join failures many raw_clone;
        }
    };
}

programs_of_dispatch!(launched DISPATCHED as dispatched;);

#[test]
fn large_counts() {
    if env::var_os("DAIKO_SOAK_SECONDS").is_none() {
        println!("skipped: large counts are for make soak, which sets DAIKO_SOAK_SECONDS");
        return;
    }
    for (group, program, count) in LARGE {
        let began = Instant::now();
        check(&NATIVE, group, program, &[count], LARGE_LIMIT);
        println!("{group}/{program} {count}: {:.1} s", began.elapsed().as_secs_f64());
    }
}

#[test]
fn every_program_has_a_row_and_a_promise() {
    let mut found = BTreeSet::new();
    for group in fs::read_dir(SOURCES).expect("a folder").map(|entry| entry.expect("an entry")) {
        if group.path().is_dir() {
            let files = fs::read_dir(group.path()).expect("a folder");
            found.extend(files.filter_map(|file| described(&file.expect("an entry").path())));
        }
    }
    let in_groups = PROGRAMS.iter().map(|(group, program)| format!("{group}/{program}"));
    let of_deadlocks = deadlocks::PROGRAMS.iter().map(|program| format!("deadlock/{program}"));
    let listed = in_groups.chain(of_deadlocks);
    assert_eq!(
        found,
        listed.collect::<BTreeSet<_>>(),
        "programs in tests/dropin, and rows of `programs`"
    );
    for (group, program, _) in LARGE {
        assert!(PROGRAMS.contains(&(group, program)), "{group}/{program} of LARGE is no program");
    }
    for Difference { program, .. } in DIFFERENCES {
        assert!(found.contains(*program), "{program} of DIFFERENCES is no program");
    }
}

/// Returns the group and name of a program. Its length and first line are checked.
fn described(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).expect("a text");
    assert!(text.starts_with("// "), "{file:?} does not begin with a comment: name the promise");
    assert!(text.lines().count() <= 100, "{file:?} has over 100 lines: split it");
    let name = file.strip_prefix(SOURCES).expect("a file in there").with_extension("");
    (name.extension() != Some("so".as_ref())).then(|| name.to_str().expect("UTF-8").to_owned())
}

/// Builds the program, runs it and asserts that it succeeded, unless it is a difference of the
/// launch.
/// Prints why it was skipped.
#[track_caller]
fn check(launch: &Launch, group: &str, program: &str, arguments: &[&str], limit: Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let built = match build(group, program) {
        Ok(built) => built,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let mut child = start(launch, &built, arguments, &log);
    let ended = ends_within(&mut child, limit);
    let status = kill_group(&mut child);
    let output = String::from_utf8_lossy(&fs::read(&log).expect("a log")).into_owned();
    if ended && status.code() == Some(SKIPPED) {
        return println!("skipped: {}", output.trim_end());
    }
    let name = format!("{group}/{program}");
    let difference = launch.differences.iter().find(|difference| difference.program == name);
    if let Some(Difference { is_certain, reason, .. }) = difference {
        let passes = ended && status.success();
        assert!(!passes || !is_certain, "{name} passes; its row in DIFFERENCES is stale: {reason}");
        return println!("{name} differs: {reason}");
    }
    assert!(ended, "{name} did not end within {limit:?}; it printed:\n{output}");
    let core = if status.core_dumped() { " with a core" } else { "" };
    assert!(status.success(), "{name}: {status}{core}; it printed:\n{output}");
}

fn start(launch: &Launch, program: &Path, arguments: &[&str], log: &Path) -> Child {
    let trial = env::var("DAIKO_DROPIN_PREFIX").unwrap_or_default();
    let trial = trial.split_whitespace().map(OsString::from);
    let mut words = trial.chain((launch.prefix)()).chain([program.into()]);
    let mut command = Command::new(words.next().expect("the program at least"));
    let output = fs::File::create(log).expect("a log");
    command.args(words).args(arguments);
    command.current_dir(log.parent().expect("a folder")).stdin(Stdio::null()).process_group(0);
    command.stdout(output.try_clone().expect("a descriptor")).stderr(output);
    with_default_signals(&mut command).spawn().expect("the program starts")
}

/// Returns false if the program runs for longer than `limit`. It is not waited for yet, so that the
/// id of its group stays taken.
fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        // SAFETY: zero is a valid `siginfo_t`, and the result goes to a live local.
        let pid = unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, child.id(), &mut info, options), 0);
            info.si_pid()
        };
        if pid != 0 || Instant::now() >= end {
            return pid != 0;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the program and its children, as far as they are left.
fn kill_group(child: &mut Child) -> ExitStatus {
    // SAFETY: takes plain integers; the leader was not waited for, so the group is this one.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait().expect("a status")
}

/// Compiles the program, and its library if there is one, unless both are up to date. Fails with
/// the compiler that is missing.
#[track_caller]
fn build(group: &str, program: &str) -> Result<PathBuf, String> {
    let [plain, plus, library] = ["c", "cpp", "so.c"]
        .map(|end| Path::new(SOURCES).join(group).join(program).with_extension(end));
    let built = Path::new(BUILT).join(group).join(program);
    fs::create_dir_all(Path::new(BUILT).join(group)).expect("a folder");
    if library.exists() {
        compile("cc", &library, &built.with_extension("so"), &["-shared", "-fPIC"])?;
    }
    if plain.exists() {
        compile("cc", &plain, &built, &[])?;
    } else {
        compile("c++", &plus, &built, &["-std=c++20"])?;
    }
    Ok(built)
}

#[track_caller]
fn compile(compiler: &str, source: &Path, built: &Path, options: &[&str]) -> Result<(), String> {
    let header = Path::new(SOURCES).join("check.h");
    if changed(built).is_some_and(|time| Some(time) > changed(source).max(changed(&header))) {
        return Ok(());
    }
    // Another test may run the file that is there.
    let name = built.file_name().expect("a name").to_str().expect("UTF-8");
    let new =
        built.with_file_name(format!("{name}.{}-{:?}", process::id(), thread::current().id()));
    let mut command = Command::new(compiler);
    command.args(OPTIONS).args(options).arg("-o").arg(&new).arg(source).arg("-lm");
    let Ok(output) = command.output() else {
        return Err(format!("no {compiler} to compile C or C++ with: install build-essential"));
    };
    assert!(output.status.success(), "{source:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(new, built).expect("a program");
    Ok(())
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
