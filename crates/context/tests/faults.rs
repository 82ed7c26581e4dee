//! Output and exit status after a fault of code in a fiber. Every case runs in a child process.

#[path = "../../../tests/child.rs"]
mod child;
mod fiber;

use std::env;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::panic::Location;
use std::process::{Command, Output};
use std::ptr;
use std::thread;

use child::{command, in_child, is_child, stderr};
use daiko_context::overflow::{self, Description};
use daiko_context::stack::{Slab, StackClass};
use daiko_sys::signal::AltStack;
use fiber::Fiber;

/// The lines of Daiko: the test harness and system libraries write to standard error, too.
fn reports(output: &Output) -> Vec<String> {
    stderr(output).lines().filter(|line| line.contains("daiko")).map(str::to_owned).collect()
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    if frame[7] == u64::MAX { 0 } else { recurse(depth + 1) + black_box(frame)[5] }
}

fn overflow_in_a_fiber(class: StackClass, describe: overflow::Describe) {
    // SAFETY: the hooks of the tests copy a few bytes.
    unsafe { overflow::install(describe) }.unwrap();
    let _stack = AltStack::install().unwrap();
    Fiber::with_class(class, |_| {
        black_box(recurse(0));
    })
    .resume();
}

const REMEDY: &str = "larger: Builder::stack_size, RuntimeBuilder::stack_size, DAIKO_STACK_SIZE)";

const HERE: &Location<'_> = Location::caller();

fn describe_order_book(_: *mut u8, fiber: &mut Description) {
    fiber.set_name(b"order\nbook");
    fiber.set_spawned_at(HERE);
}

#[test]
fn an_overflow_is_reported_with_name_origin_and_size() {
    let output = in_child("an_overflow_is_reported_with_name_origin_and_size", || {
        overflow_in_a_fiber(StackClass::default(), describe_order_book);
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    let (file, line, column) = (HERE.file(), HERE.line(), HERE.column());
    let kib = StackClass::default().size() >> 10;
    let origin =
        format!("fiber 'order?book', spawned at {file}:{line}:{column} (stack of {kib} KiB; ");
    assert_eq!(reports(&output), [format!("daiko: stack overflow in {origin}{REMEDY}")]);
}

#[test]
fn an_overflow_without_a_name_is_reported() {
    let output = in_child("an_overflow_without_a_name_is_reported", || {
        let class = StackClass::new(256 * 1024, 64 * 1024).unwrap();
        overflow_in_a_fiber(class, |_, _| ());
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    let expected = "daiko: stack overflow in fiber '<unnamed>' (stack of 256 KiB; ";
    assert_eq!(reports(&output), [format!("{expected}{REMEDY}")]);
}

/// The hook gets the very top that the slab handed out, where a runtime finds its control block.
#[test]
fn the_hook_gets_the_coloured_top() {
    let output = in_child("the_hook_gets_the_coloured_top", || {
        use daiko_context::{StackPointer, prepare, switch};
        use daiko_sys::{arena::Arena, memory::GuardKind};

        unsafe extern "C" fn entry(_: *mut u8) -> ! {
            black_box(recurse(0));
            unreachable!("it overflows")
        }
        let named = |top: *mut u8, fiber: &mut Description| {
            // SAFETY: the test keeps the name there, 64 bytes.
            fiber.set_name(unsafe { &*top.sub(64).cast::<[u8; 5]>() });
        };
        // SAFETY: the hook copies a few bytes.
        unsafe { overflow::install(named) }.unwrap();
        let _stack = AltStack::install().unwrap();
        let slab =
            Slab::new(&Arena::private(), StackClass::default(), 8, GuardKind::probe()).unwrap();
        let mut left = StackPointer::NULL;
        // SAFETY: the name and the first frame fit in the fresh stack 7.
        unsafe {
            slab.top(7).sub(64).cast::<[u8; 5]>().write(*b"seven");
            switch(&mut left, prepare(slab.top(7).sub(64), entry, ptr::null_mut()));
        }
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(reports(&output)[0].contains("fiber 'seven'"), "{}", stderr(&output));
}

/// A supervisor sees SIGABRT, even if the program handles that signal.
#[test]
fn a_handler_of_sigabrt_does_not_swallow_the_abort() {
    let output = in_child("a_handler_of_sigabrt_does_not_swallow_the_abort", || {
        extern "C" fn swallow(_: libc::c_int) {
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: the handler takes the number of the signal and is async-signal-safe.
        unsafe { libc::signal(libc::SIGABRT, swallow as *const () as libc::sighandler_t) };
        overflow_in_a_fiber(StackClass::default(), |_, _| ());
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
}

#[test]
fn a_stray_pointer_in_a_fiber_dies_by_sigsegv() {
    let output = in_child("a_stray_pointer_in_a_fiber_dies_by_sigsegv", || {
        // SAFETY: the hook does nothing.
        unsafe { overflow::install(|_, _| ()) }.unwrap();
        let _stack = AltStack::install().unwrap();
        Fiber::new(|_| {
            let nowhere = black_box(ptr::without_provenance_mut::<u8>(64));
            // SAFETY: none: this is the fault that the test is about.
            unsafe { nowhere.write_volatile(1) };
        })
        .resume();
    });
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", stderr(&output));
    assert_eq!(reports(&output), [""; 0]);
}

#[test]
fn a_signal_that_was_sent_has_its_default_effect() {
    let name = "a_signal_that_was_sent_has_its_default_effect";
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        if !is_child() {
            let output = command(name).env("DAIKO_TEST_SIGNAL", signal.to_string()).output();
            assert_eq!(output.unwrap().status.signal(), Some(signal));
            continue;
        }
        let signal = env::var("DAIKO_TEST_SIGNAL").unwrap().parse().unwrap();
        // SAFETY: neither the default effect nor `raise` runs code of the program. The handler of
        // std, which was installed before, takes the first signal for a fault and lets it pass.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            // The hook does nothing.
            overflow::install(|_, _| ()).unwrap();
            libc::raise(signal);
        }
        std::process::exit(0);
    }
}

/// Earlier handlers with and without SA_SIGINFO still get the faults outside of guards.
#[test]
fn the_previous_handler_is_called() {
    unsafe extern "C" fn plain(signal: libc::c_int) {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(40 + signal) }
    }
    unsafe extern "C" fn full(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the kernel passes a valid `siginfo_t`; ends the process at once.
        unsafe {
            let expected = (*info).si_addr().addr() == 64 && !context.is_null();
            libc::_exit(if expected { 80 + signal } else { 1 })
        }
    }
    fn install(handler: usize, flags: libc::c_int) {
        // SAFETY: zero is a valid `sigaction`, and the handlers above fit their flags.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        }
    }
    fn child() {
        match env::var("DAIKO_TEST_HANDLER").as_deref() {
            Ok("plain") => install(plain as *const () as usize, 0),
            _ => install(full as *const () as usize, libc::SA_SIGINFO),
        }
        // SAFETY: the hook does nothing.
        unsafe { overflow::install(|_, _| ()) }.unwrap();
        // SAFETY: none: this is the fault that the test is about.
        unsafe { black_box(ptr::without_provenance_mut::<u8>(64)).write_volatile(1) };
    }
    let name = "the_previous_handler_is_called";
    if is_child() {
        in_child(name, child);
    }
    for (handler, code) in [("plain", 40 + libc::SIGSEGV), ("full", 80 + libc::SIGSEGV)] {
        let output = command(name).env("DAIKO_TEST_HANDLER", handler).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{handler}: {}", stderr(&output));
    }
}

#[test]
fn an_overflow_of_a_kernel_thread_is_reported_by_std() {
    let output = in_child("an_overflow_of_a_kernel_thread_is_reported_by_std", || {
        // SAFETY: the hook does nothing.
        unsafe { overflow::install(|_, _| ()) }.unwrap();
        let builder = thread::Builder::new().name("plain".to_owned()).stack_size(128 * 1024);
        let _ = builder.spawn(|| black_box(recurse(0))).unwrap().join();
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(stderr(&output).contains("thread 'plain'"), "{}", stderr(&output));
    assert!(stderr(&output).contains("has overflowed its stack"), "{}", stderr(&output));
    assert_eq!(reports(&output), [""; 0]);
}

#[test]
fn a_second_handler_is_refused() {
    let output = in_child("a_second_handler_is_refused", || {
        // SAFETY: the hook does nothing.
        unsafe { overflow::install(|_, _| ()) }.unwrap();
        // SAFETY: as above.
        let error = unsafe { overflow::install(|_: *mut u8, _: &mut Description| ()) }.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    });
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn gdb_ends_its_backtrace_at_the_entry() {
    let name = "gdb_ends_its_backtrace_at_the_entry";
    if is_child() {
        Fiber::new(|_| trap()).resume();
    }
    if child::emulated::is_skipped("which gdb would trace") {
        return;
    }
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: gdb is not installed");
        return;
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
        println!("skipped: gdb may not trace processes here");
        return;
    }
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames.iter().any(|frame| frame.contains("raise")), "{text}");
    assert!(frames[frames.len() - 2].contains("start"), "{text}");
    assert!(frames[frames.len() - 1].contains("first_frame"), "{text}");
    assert!(!text.contains("Backtrace stopped") && !text.contains("corrupt"), "{text}");
}

#[inline(never)]
fn trap() {
    // SAFETY: takes a plain integer. Stops the process for the debugger that runs it.
    unsafe { libc::raise(libc::SIGTRAP) };
}
