//! Core files: of `daiko core`, and of the kernel.

#[path = "../../../tests/child.rs"]
mod child;
#[path = "../../../tests/dumped.rs"]
mod dumped;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use child::{ReadyChild, command, is_child};
use daiko_inspect::{
    Backtracer, FiberState, InspectError, Stack, Subject, Symbols, stack_of, write_core,
};
use dumped::are_waiting;

const FIBERS: usize = 100;

/// Fibers that wait for one lock, and one that runs.
#[inline(never)]
fn crowd() {
    daiko::run(|| {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let _held = lock.lock();
        let _crowd: Vec<_> = (0..FIBERS)
            .map(|index| {
                let lock = Arc::clone(&lock);
                let fiber = daiko::Builder::new().name(format!("waiter-{index}"));
                fiber.spawn(move || waits_for_the_lock(&lock)).unwrap()
            })
            .collect();
        while !are_waiting(FIBERS) {
            daiko::yield_now();
        }
        runs_for_ever();
    });
}

#[inline(never)]
fn runs_for_ever() {
    println!("ready");
    loop {
        std::hint::black_box(());
    }
}

#[inline(never)]
fn waits_for_the_lock(lock: &daiko::sync::Mutex<()>) {
    let held = lock.lock();
    std::hint::black_box(&held);
}

/// Checks that all fibers are there, each with its whole stack.
fn check_crowd(subject: &Subject) {
    let readers = subject.readers().unwrap();
    let (runtimes, mut fibers) = readers[0].all();
    let (mut backtracer, mut symbols) = (Backtracer::new(subject), Symbols::new(subject));
    let (mut waiting, mut running) = (0, 0);
    for fiber in &mut fibers {
        let (count, expected) = match fiber.state {
            FiberState::Running => (&mut running, "runs_for_ever"),
            _ if fiber.name.is_some() => (&mut waiting, "waits_for_the_lock"),
            _ => continue,
        };
        *count += 1;
        let stack = stack_of(&readers[0], &runtimes, &mut backtracer, fiber);
        let Stack::Frames(addresses) = stack else { panic!("{fiber:?}: {stack:?}") };
        let frames = addresses.iter().enumerate();
        let frames: Vec<_> =
            frames.flat_map(|(at, &frame)| symbols.frames(frame, at > 0).to_vec()).collect();
        let has = |name: &str| frames.iter().any(|frame| frame.function.contains(name));
        assert!(has(expected) && has("first_frame"), "{frames:#?}");
    }
    assert_eq!((waiting, running), (FIBERS, 1));
}

#[test]
fn a_core_file_has_all_fibers_and_the_process_goes_on() {
    let running = ReadyChild::of("a_core_file_has_all_fibers_and_the_process_goes_on", crowd);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let written = write_core(running.id(), &path).unwrap();
    assert!(written.threads > 1 && written.bytes > 0, "{written:?}");
    let refused = write_core(running.id(), &path).unwrap_err();
    assert!(matches!(refused, InspectError::File { .. }), "{refused}");
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    assert!(!is_traced());
    let subject = Subject::process(running.id()).unwrap();
    subject.stop().unwrap();
    check_crowd(&subject);
    let refused = write_core(running.id(), &path).unwrap_err();
    assert!(matches!(refused, InspectError::Traced { .. }), "{refused}");
    subject.resume();
    assert!(!is_traced());
    running.child.kill();
    check_crowd(&Subject::core(&path).unwrap());
}

/// gdb is the judge of the notes of threads.
#[test]
fn gdb_reads_the_threads_of_a_core_file() {
    let running = ReadyChild::of("gdb_reads_the_threads_of_a_core_file", crowd);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    write_core(running.id(), &path).unwrap();
    let tasks = fs::read_dir(format!("/proc/{}/task", running.id())).unwrap();
    let tasks: Vec<_> =
        tasks.map(|task| task.unwrap().file_name().into_string().unwrap()).collect();
    let gdb = Command::new("gdb")
        .args(["-batch", "-ex", "info threads", "-ex", "thread apply all bt 30"])
        .arg(env::current_exe().unwrap())
        .arg(&path)
        .output();
    let Ok(output) = gdb else {
        println!("skipped: gdb is not installed: sudo apt install gdb");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for task in tasks {
        assert!(text.contains(&format!("(LWP {task})")), "{task}: {text}");
    }
    assert!(text.contains("runs_for_ever"), "{text}");
}

/// The kernel writes core files where it is told to, and by a pipe to a program mostly.
#[test]
fn a_core_file_of_the_kernel_has_all_fibers() {
    let test = "a_core_file_of_the_kernel_has_all_fibers";
    if is_child() {
        let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: reads the live local. If it is refused, no core file is written.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
        return crowd();
    }
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let pattern = pattern.trim();
    if pattern.is_empty() || pattern.contains(['|', '/', '%']) {
        println!("skipped: the kernel does not write core files to the current folder: {pattern}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(test);
    command.current_dir(folder.path());
    let mut running = ReadyChild::start(command);
    running.child.send(libc::SIGABRT);
    let status = running.child.0.wait().unwrap();
    if !status.core_dumped() {
        println!("skipped: no core file was written: see ulimit -c");
        return;
    }
    let entry = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    check_crowd(&Subject::core(&entry.path()).unwrap());
}

#[test]
fn a_file_that_is_no_core_file_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    for bytes in [&b""[..], b"text", &fs::read(env::current_exe().unwrap()).unwrap()[..4096]] {
        fs::write(&path, bytes).unwrap();
        let error = Subject::core(&path).unwrap_err().to_string();
        assert!(error.contains("is no core file of x86-64") && !error.contains('\n'), "{error}");
    }
    let error = Subject::core(&folder.path().join("absent")).unwrap_err();
    assert!(matches!(error, InspectError::File { .. }), "{error}");
}
