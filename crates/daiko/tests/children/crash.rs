//! The output and the exit of programs with a faulty fiber. A test that may kill runs in a child
//! process.

use std::backtrace::Backtrace;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::child::{command, emulated, in_child, is_child, stderr, stdout};
use crate::support::{self, OnDrop, migratable, run_on, skip, small_stack, until, workers};
use daiko::{Builder, JoinHandle, Runtime};

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    if frame[7] == u64::MAX { 0 } else { recurse(depth + 1) + black_box(frame)[5] }
}

/// Dies by an overflow, while other fibers are suspended.
fn overflow(runtime: Runtime, builder: Builder) {
    overflow_in(runtime, builder, || recurse(0));
}

/// Dies by an overflow in `body`.
fn overflow_in(runtime: Runtime, builder: Builder, body: fn() -> u64) {
    for _ in 0..10 {
        drop(runtime.spawn(daiko::park));
    }
    // Not before its place has been printed: it ends the process.
    let body = move || {
        daiko::park();
        black_box(body())
    };
    let (fiber, line) = (runtime.spawn_with(builder, body), line!());
    println!("{SPAWNED_IN}{line}");
    let fiber = fiber.unwrap();
    fiber.fiber().unpark();
    let _ = fiber.join();
}

/// Precedes the line of the spawn in the output of the child.
const SPAWNED_IN: &str = "spawned in line ";

/// The default size of stacks.
const DEFAULT: &str = if cfg!(debug_assertions) { "1024 KiB" } else { "256 KiB" };

/// Checks that the child died by a signal, with one line from Daiko.
#[track_caller]
fn assert_overflow(output: &Output, fiber: &str, size: &str) {
    let text = stderr(output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("daiko:")).collect();
    let [report] = lines[..] else { panic!("{text}") };
    let out = stdout(output);
    let (_, line) = out.lines().find_map(|line| line.split_once(SPAWNED_IN)).unwrap();
    let origin = format!("in fiber '{fiber}', spawned at {}:{line}:", file!());
    assert!(report.contains(&origin), "{report}");
    let remedy = "larger: Builder::stack_size, RuntimeBuilder::stack_size, DAIKO_STACK_SIZE";
    assert!(report.ends_with(&format!(" (stack of {size}; {remedy})")), "{report}");
}

#[test]
fn an_overflow_names_the_fiber() {
    let output = in_child("crash::an_overflow_names_the_fiber", || {
        overflow(workers(2), Builder::new().name("order book"));
    });
    assert_overflow(&output, "order book", DEFAULT);
}

#[test]
fn an_overflow_of_a_pooled_stack_names_the_fiber() {
    let output = in_child("crash::an_overflow_of_a_pooled_stack_names_the_fiber", || {
        let builder = Builder::new().name("deep").stack_size(64 << 10);
        overflow_in(workers(1), builder, || daiko::on_pooled_stack(|| recurse(0)));
    });
    assert_overflow(&output, "deep", DEFAULT);
}

#[test]
fn an_overflow_of_another_size_names_it() {
    let output = in_child("crash::an_overflow_of_another_size_names_it", || {
        overflow(workers(1), Builder::new().name("deep").stack_size(256 << 10));
    });
    assert_overflow(&output, "deep", "256 KiB");
}

#[test]
fn an_overflow_of_a_migratable_fiber_without_a_name_names_the_size_of_the_runtime() {
    let output = in_child(
        "crash::an_overflow_of_a_migratable_fiber_without_a_name_names_the_size_of_the_runtime",
        || {
            overflow(
                Runtime::builder().stack_size(small_stack(128 << 10)).build().unwrap(),
                migratable(),
            );
        },
    );
    assert_overflow(&output, "<unnamed>", &format!("{} KiB", small_stack(128)));
}

#[test]
fn an_overflow_into_a_protected_guard_is_reported() {
    let output = in_child("crash::an_overflow_into_a_protected_guard_is_reported", || {
        let kind = Some(daiko_sys::memory::GuardKind::Protect);
        let runtime = Runtime::builder().fallbacks(kind, false).build().unwrap();
        overflow(runtime, Builder::new().name("protected"));
    });
    assert_overflow(&output, "protected", DEFAULT);
}

#[test]
fn an_overflow_while_unwinding_is_reported() {
    let output = in_child("crash::an_overflow_while_unwinding_is_reported", || {
        let runtime = workers(1);
        let body = || {
            let _late = support::OnDrop(|| _ = black_box(recurse(0)));
            daiko::park();
        };
        let (fiber, line) = (runtime.spawn_with(Builder::new().name("late"), body), line!());
        println!("{SPAWNED_IN}{line}");
        drop(fiber.unwrap());
        runtime.run(daiko::yield_now);
        runtime.shutdown();
    });
    assert_overflow(&output, "late", DEFAULT);
}

/// `std` has no name for a fiber.
#[test]
fn a_panic_names_its_fiber_and_the_place_of_its_spawn() {
    let output = support::child::in_child(
        "crash::a_panic_names_its_fiber_and_the_place_of_its_spawn",
        || {
            let runtime = Runtime::builder().workers(1).build().unwrap();
            let named = Builder::new().name("request-7");
            let (fiber, line) = (runtime.spawn_with(named, || panic!("boom")), line!());
            println!("{SPAWNED_IN}{line}");
            let fiber: daiko::JoinHandle<()> = fiber.unwrap();
            assert!(fiber.join().is_err());
            // Neither a cancel nor a panic of a thread.
            let parked = runtime.spawn(daiko::park);
            parked.cancel();
            assert!(parked.join().is_err());
            assert!(std::thread::spawn(|| panic!("of a thread")).join().is_err());
        },
    );
    let (out, err) = (support::child::stdout(&output), support::child::stderr(&output));
    let place = out.lines().find_map(|line| line.split(SPAWNED_IN).nth(1)).unwrap();
    let line = format!("in fiber 'request-7' on worker 0, spawned at {}:{place}:", file!());
    assert!(err.contains(&line), "{out}{err}");
    assert_eq!(err.matches("on worker").count(), 1, "{err}");
}

/// A backtrace leads from the panic to the entry of the fiber, and no further.
#[test]
fn a_backtrace_ends_at_the_entry() {
    for builder in [Builder::new(), migratable()] {
        run_on(Runtime::builder().workers(1), move || {
            let fiber = builder.spawn(|| {
                daiko::yield_now();
                named_frame()
            });
            let trace = fiber.unwrap().join().unwrap();
            let frames: Vec<_> = trace
                .lines()
                .filter_map(|line| line.trim_start().split_once(": "))
                .filter(|(index, _)| index.parse::<u32>().is_ok())
                .map(|(_, name)| name)
                .collect();
            assert!(frames.iter().any(|frame| frame.contains("named_frame")), "{trace}");
            let last = frames.last().unwrap();
            assert!(last.contains("first_frame"), "{trace}");
            let entry = frames[frames.len() - 2];
            assert!(entry.contains("entry"), "{trace}");
        });
    }
}

#[inline(never)]
fn named_frame() -> String {
    black_box(Backtrace::force_capture().to_string())
}

#[test]
fn a_panic_prints_a_backtrace_that_ends_at_the_entry() {
    let name = "crash::a_panic_prints_a_backtrace_that_ends_at_the_entry";
    if is_child() {
        let runtime = workers(1);
        let _ = runtime.spawn(|| panic!("for the sake of the trace")).join();
        std::process::exit(0);
    }
    let output = command(name).env("RUST_BACKTRACE", "full").output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("for the sake of the trace"), "{text}");
    // As for any thread, the return address of the outermost frame is 0.
    let end = |line: &&str| line.contains(" - ") && !line.ends_with("0x0 - <unknown>");
    let last = text.lines().rfind(end).unwrap_or_default();
    assert!(last.contains("first_frame"), "{text}");
}

#[test]
fn a_panic_in_a_detached_fiber_does_no_harm() {
    let ends = Arc::new(AtomicUsize::new(0));
    let count = ends.clone();
    run_on(Runtime::builder().workers(2), move || {
        for i in 0..100 {
            let ends = count.clone();
            let body = move || {
                let _late = support::OnDrop(|| _ = ends.fetch_add(1, Ordering::Relaxed));
                daiko::yield_now();
                std::panic::resume_unwind(Box::new(i));
            };
            let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
            drop(builder.spawn(body).unwrap());
        }
        let sum: u32 = (0..10).map(|i| daiko::spawn(move || i).join().unwrap()).sum();
        assert_eq!(sum, 45);
        // A fiber that still yielded at the shutdown would be unwound instead.
        support::yield_until("the ends", || count.load(Ordering::Relaxed) == 100);
    });
    assert_eq!(ends.load(Ordering::Relaxed), 100);
}

/// A panic in the drop of a result has no joiner that could return it.
#[test]
fn a_panic_in_the_drop_of_a_result_does_no_harm() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("bomb"));
        }
    }
    run_on(Runtime::builder().workers(1), || {
        drop(daiko::spawn(|| Bomb));
        for _ in 0..10 {
            daiko::yield_now();
        }
        assert_eq!(daiko::spawn(|| 3).join().unwrap(), 3);
    });
}

#[test]
fn a_process_may_exit_while_fibers_run() {
    let name = "crash::a_process_may_exit_while_fibers_run";
    let output = in_child(name, || {
        let running = Arc::new(AtomicUsize::new(0));
        let runtime = workers(2);
        for runtime in [&runtime, daiko::default_runtime()] {
            for _ in 0..100 {
                drop(runtime.spawn(daiko::park));
                drop(runtime.spawn(|| {
                    loop {
                        daiko::yield_now();
                    }
                }));
            }
            let tell = running.clone();
            drop(runtime.spawn(move || {
                tell.fetch_add(1, Ordering::Release);
                loop {
                    std::hint::spin_loop();
                }
            }));
        }
        until("both that compute", || running.load(Ordering::Acquire) == 2);
        std::mem::forget(runtime);
        std::process::exit(7);
    });
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
}

#[test]
fn a_fiber_may_exit_the_process() {
    let output = in_child("crash::a_fiber_may_exit_the_process", || {
        let runtime = workers(2);
        drop(runtime.spawn(daiko::park));
        runtime.run(|| std::process::exit(9));
    });
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
}

/// Spawns a fiber that is suspended with a destructor that panics.
fn suspend_badly(runtime: &Runtime) -> JoinHandle<()> {
    let fiber = runtime.spawn(|| {
        let _bad = OnDrop(|| panic!("in a destructor"));
        daiko::park();
    });
    runtime.run(daiko::yield_now);
    fiber
}

#[test]
fn a_destructor_that_panics_in_a_cancel_ends_the_process() {
    let output = in_child("crash::a_destructor_that_panics_in_a_cancel_ends_the_process", || {
        let runtime = workers(1);
        let fiber = suspend_badly(&runtime);
        fiber.cancel();
        let _ = fiber.join();
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
}

#[test]
fn a_destructor_that_panics_in_a_shutdown_ends_the_process() {
    let output = in_child("crash::a_destructor_that_panics_in_a_shutdown_ends_the_process", || {
        let runtime = workers(1);
        let _fiber = suspend_badly(&runtime);
        runtime.shutdown();
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
}

#[test]
fn gdb_ends_its_backtrace_at_the_entry() {
    let name = "crash::gdb_ends_its_backtrace_at_the_entry";
    if is_child() {
        workers(1).run(|| {
            daiko::yield_now();
            trap();
        });
    }
    if emulated::is_skipped("which gdb would trace") {
        return;
    }
    if Command::new("gdb").arg("--version").output().is_err() {
        return skip("gdb is not installed");
    }
    let target = command(name);
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt"])
        .arg("--args")
        .arg(target.get_program())
        .args(target.get_args())
        .envs(target.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    if text.contains("Could not trace the inferior") || text.contains("ptrace:") {
        return skip("gdb may not trace processes here");
    }
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames.iter().any(|frame| frame.contains("trap")), "{text}");
    assert!(frames[frames.len() - 2].contains("entry"), "{text}");
    assert!(frames[frames.len() - 1].contains("first_frame"), "{text}");
    assert!(!text.contains("Backtrace stopped") && !text.contains("corrupt"), "{text}");
}

#[inline(never)]
fn trap() {
    // SAFETY: stops the process for the debugger that runs it.
    unsafe { libc::raise(libc::SIGTRAP) };
    // Keeps this call from being the last of the function, and so from becoming a jump.
    std::hint::black_box(());
}
