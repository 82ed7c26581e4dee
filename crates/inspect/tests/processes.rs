//! Processes that are read from outside, and a process that reads itself.

#[path = "../../../tests/child.rs"]
mod child;

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fs, process};

use child::{ReadyChild, command_of, is_child, ready};
use daiko_inspect::{
    Backtracer, FiberRow, FiberState, Frame, InspectError, Stack, Subject, Symbols, group,
    stack_of, without_runtime,
};
use tempfile::TempDir;

/// A holder, ten waiters for its lock and one more on a pooled stack, a fiber that waits for one of
/// these, and one that has ended.
#[inline(never)]
fn waiting_fibers() {
    daiko::run(|| {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let held = lock.lock();
        let waiters: Vec<_> =
            (0..10).map(|index| waiter(&lock, &format!("waiter-{index}"))).collect();
        let mut waiters = waiters.into_iter();
        let first = waiters.next().unwrap();
        let joiner = daiko::Builder::new().name("joiner");
        let joiner = joiner.spawn(move || first.join().unwrap()).unwrap();
        let (free, pooled) = (Arc::clone(&lock), daiko::Builder::new().name("pooled"));
        let waits = move || daiko::on_pooled_stack(|| waits_for_the_lock(&free));
        let pooled = pooled.spawn(waits).unwrap();
        let ended = daiko::Builder::new().name("ended").spawn(|| ()).unwrap();
        while !ended.is_finished() {
            daiko::yield_now();
        }
        // Each has come to its wait: none of them has more to do.
        while daiko::default_runtime().counters().iter().map(|of| of.starts).sum::<u64>() < 14 {
            daiko::yield_now();
        }
        daiko::blocking(ready);
        drop((held, joiner, pooled, ended, waiters));
    });
}

fn waiter(lock: &Arc<daiko::sync::Mutex<()>>, name: &str) -> daiko::JoinHandle<()> {
    let (lock, fiber) = (Arc::clone(lock), daiko::Builder::new().name(name));
    fiber.spawn(move || waits_for_the_lock(&lock)).unwrap()
}

#[inline(never)]
fn waits_for_the_lock(lock: &daiko::sync::Mutex<()>) {
    let held = lock.lock();
    std::hint::black_box(&held);
}

/// Reads the fibers of the subject until all of them wait.
fn settled(subject: &Subject) -> Vec<FiberRow> {
    let readers = subject.readers().unwrap();
    assert_eq!(readers.len(), 1);
    loop {
        let (_, fibers) = readers[0].all();
        let waits = |fiber: &FiberRow| {
            matches!(fiber.state, FiberState::Waiting | FiberState::Parked | FiberState::Finished)
        };
        if fibers.iter().all(waits) {
            return fibers;
        }
        std::thread::yield_now();
    }
}

fn by_name(fibers: &[FiberRow]) -> HashMap<String, &FiberRow> {
    fibers.iter().filter_map(|row| Some((row.name.as_ref()?.to_string(), row))).collect()
}

/// Checks what is seen of [`waiting_fibers`].
fn check_waiting_fibers(subject: &Subject) {
    let fibers = settled(subject);
    assert_eq!(fibers.len(), 14, "{fibers:#?}");
    let named = by_name(&fibers);
    let kind = |name: &str| named[name].wait.as_ref().map(|wait| wait.kind.to_string());
    let object = |name: &str| named[name].wait.as_ref().map_or(0, |wait| wait.object);
    for index in 0..10 {
        let name = format!("waiter-{index}");
        assert_eq!(kind(&name).as_deref(), Some("Mutex"), "{name}");
        assert_eq!(object(&name), object("waiter-0"), "all wait for one lock");
        let place = named[&name].spawned_at.as_ref().unwrap();
        assert!(place.file.ends_with("tests/processes.rs"), "{place}");
    }
    assert_ne!(object("waiter-0"), 0);
    assert_eq!(kind("joiner").as_deref(), Some("join"));
    assert_eq!(object("joiner"), named["waiter-0"].id);
    assert_eq!((named["ended"].state, kind("ended")), (FiberState::Finished, None));
    let main = fibers.iter().find(|fiber| fiber.name.is_none()).unwrap();
    assert_eq!(main.wait.as_ref().map(|wait| &*wait.kind), Some("blocking"));
    check_stacks(subject, fibers);
}

fn check_stacks(subject: &Subject, mut fibers: Vec<FiberRow>) {
    let readers = subject.readers().unwrap();
    let runtimes = readers[0].runtimes();
    let mut backtracer = Backtracer::new(subject);
    let stacks: Vec<_> = fibers
        .iter_mut()
        .map(|fiber| stack_of(&readers[0], &runtimes, &mut backtracer, fiber))
        .collect();
    let groups = group(&fibers, &stacks);
    assert_eq!(groups[0].fibers.len(), 10, "the stacks of the waiters are equal: {groups:#?}");
    let Stack::Frames(addresses) = &groups[0].stack else { panic!("{groups:#?}") };
    let mut symbols = Symbols::new(subject);
    let mut frames_of = |addresses: &[u64]| -> Vec<_> {
        let frames = addresses.iter().enumerate();
        frames.flat_map(|(at, &address)| symbols.frames(address, at > 0).to_vec()).collect()
    };
    let pooled = fibers.iter().position(|fiber| fiber.name.as_deref() == Some("pooled")).unwrap();
    let Stack::Frames(of_pooled) = &stacks[pooled] else { panic!("{stacks:#?}") };
    let of_pooled = frames_of(of_pooled);
    let waits = |frame: &Frame| frame.function.contains("waits_for_the_lock");
    assert!(of_pooled.iter().any(waits), "{of_pooled:#?}");
    let frames = frames_of(addresses);
    let names: Vec<_> = frames.iter().map(|frame| frame.function.as_str()).collect();
    assert!(names.last().unwrap().contains("first_frame"), "the stack is whole: {names:#?}");
    let seen = frames.iter().find(|frame| frame.function.contains("waits_for_the_lock")).unwrap();
    let (file, line) = seen.line.as_ref().unwrap();
    assert!(file.ends_with("tests/processes.rs") && *line > 0, "{seen:?}");
    let own: Vec<_> = without_runtime(&frames).iter().map(|frame| &frame.function).collect();
    assert!(own.len() < frames.len() && !own[0].contains("switch"), "{own:#?}");
}

#[test]
fn a_running_process_is_read() {
    let running = ReadyChild::of("a_running_process_is_read", waiting_fibers);
    check_waiting_fibers(&Subject::process(running.id()).unwrap());
}

#[test]
fn a_stopped_process_is_read() {
    let running = ReadyChild::of("a_stopped_process_is_read", waiting_fibers);
    settled(&Subject::process(running.id()).unwrap());
    running.child.stop();
    check_waiting_fibers(&Subject::process(running.id()).unwrap());
}

/// Runs a program of the test's environment. Returns false, and says so, if it is not installed.
fn is_run(command: &mut Command) -> bool {
    let name = command.get_program().to_owned();
    match command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => {
            assert!(status.success(), "{}: {status}", name.display());
            true
        }
        Err(_) => {
            println!("skipped: {} is not installed", name.display());
            false
        }
    }
}

/// Copies a program by another process: a process that another test forks meanwhile would keep a
/// file of this one open for writing, and so keep the copy from being executed.
fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").arg(program).arg(to).status().unwrap();
    assert!(copied.success(), "{copied}");
}

/// Runs `looks` with a copy of this test program, which it may start as the subject.
fn with_copy(looks: impl FnOnce(TempDir, &Path)) {
    if is_child() {
        return waiting_fibers();
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("subject");
    copy(&env::current_exe().unwrap(), &program);
    looks(folder, &program);
}

#[test]
fn a_stripped_program_is_read_by_its_separate_file() {
    with_copy(|folder, program| {
        let apart = folder.path().join("subject.debug");
        let mut objcopy = Command::new("objcopy");
        if !is_run(objcopy.arg("--only-keep-debug").arg(program).arg(&apart)) {
            return;
        }
        let link = format!("--add-gnu-debuglink={}", apart.display());
        assert!(is_run(Command::new("objcopy").args(["--strip-all", &link]).arg(program)));
        let test = "a_stripped_program_is_read_by_its_separate_file";
        let running = ReadyChild::start(command_of(program, test));
        check_waiting_fibers(&Subject::process(running.id()).unwrap());
    });
}

#[test]
fn a_program_that_was_deleted_is_read() {
    with_copy(|folder, program| {
        let test = "a_program_that_was_deleted_is_read";
        let running = ReadyChild::start(command_of(program, test));
        drop(folder);
        check_waiting_fibers(&Subject::process(running.id()).unwrap());
    });
}

/// A file of another build in its place would give wrong names.
#[test]
fn a_replaced_program_has_the_symbols_of_its_own_build() {
    with_copy(|_folder, program| {
        let test = "a_replaced_program_has_the_symbols_of_its_own_build";
        let running = ReadyChild::start(command_of(program, test));
        fs::remove_file(program).unwrap();
        copy(Path::new("/bin/sh"), program);
        check_waiting_fibers(&Subject::process(running.id()).unwrap());
    });
}

#[test]
fn a_process_reads_itself() {
    ReadyChild::of("a_process_reads_itself", itself);
}

fn itself() {
    daiko::run(|| {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let held = lock.lock();
        let waiter = waiter(&lock, "waiter-0");
        daiko::blocking(|| {
            let subject = Subject::process(process::id()).unwrap();
            let fibers = settled(&subject);
            assert_eq!(fibers.len(), 2, "{fibers:#?}");
            assert_eq!(by_name(&fibers)["waiter-0"].state, FiberState::Waiting);
        });
        println!("ready");
        drop(held);
        waiter.join().unwrap();
    });
}

#[test]
fn a_process_without_a_runtime_is_refused_in_one_line() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let subject = loop {
        // It may not have executed its program yet.
        let subject = Subject::process(child.id()).unwrap();
        if subject.files().first().is_some_and(|file| !file.path.contains("processes-")) {
            break subject;
        }
    };
    let error = subject.readers().err().unwrap().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    let expected = format!(
        "process {} has no runtime of Daiko; `daiko ps` lists the processes that have one",
        child.id()
    );
    assert_eq!(error, expected);
    let gone = Subject::process(child.id()).err().unwrap();
    assert!(matches!(gone, InspectError::Gone { .. }), "{gone}");
}

/// A process may not be traced if it has made itself undumpable, or has another user.
#[test]
fn a_process_of_another_user_is_refused_in_one_line() {
    /// The variable for the id of the process, in a child with another user.
    const OTHER: &str = "DAIKO_INSPECT_OTHER";
    // SAFETY: it has no argument.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let id = env::var(OTHER).ok().and_then(|id| id.parse::<u32>().ok());
    if let Some(id) = id {
        let error = Subject::process(id).err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("process {id} may not be read; be its user")),
            "{error}"
        );
        return;
    }
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_process_of_another_user_is_refused_in_one_line", "--nocapture"])
        .env(OTHER, child.id().to_string())
        .uid(65534)
        .output();
    child.kill().unwrap();
    child.wait().unwrap();
    match output {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => println!("skipped: another user may not run this program: {error}"),
    }
}
