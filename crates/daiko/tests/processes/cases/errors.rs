//! Refused calls, and their messages.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;

use daiko::net::Selector;
use daiko::process::{ProcessError, SharedHeap};
use daiko::sync::{Event, Mutex};
use daiko::{BuildError, Runtime};

use super::{end, processes};
use crate::End;

super::cases! {
    threads_that_exist_are_an_error End::Well,
    a_second_runtime_is_an_error End::Well,
    options_that_processes_cannot_have_are_errors End::Well,
    waits_of_the_maker_that_need_its_frame_panic End::Well,
    there_is_no_default_runtime_meanwhile End::Well,
    a_number_of_workers_that_is_not_possible_is_an_error End::Well,
}

#[track_caller]
fn assert_names(error: &impl Display, remedy: &str) {
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(remedy), "{text:?} does not name {remedy:?}");
}

/// Returns the message of the panic of `f`.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(|| _ = f())).unwrap_err();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

fn threads_that_exist_are_an_error() {
    let (end_thread, ends) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ends.recv());
    let error = processes(2).build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::Threads { count: 2 })), "{error:?}");
    assert_names(&error, "build the runtime first thing in main");
    drop(end_thread);
    let _ = thread.join();
    end(processes(2).build().unwrap());
}

fn a_second_runtime_is_an_error() {
    let runtime = processes(2).build().unwrap();
    let nested = |error: BuildError| {
        assert!(matches!(error, BuildError::Process(ProcessError::Nested)), "{error:?}");
        assert_names(&error, "shut that down before");
    };
    nested(processes(1).build().unwrap_err());
    nested(Runtime::builder().workers(1).build().unwrap_err());
    runtime.run(move || nested(processes(1).build().unwrap_err()));
    end(runtime);
}

fn options_that_processes_cannot_have_are_errors() {
    let error = processes(2).on_deadlock(|_| ()).build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::Option { name: "on_deadlock" })));
    assert_names(&error, "leave it out");
    let private = daiko_sys::arena::Arena::private();
    let error = processes(2).arena(private).build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::Option { name: "arena" })));
    let error = processes(2).selector(Selector::IoUring).build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::Option { name: "selector" })));
    end(processes(2).selector(Selector::Epoll).on_stuck(|_| ()).build().unwrap());
}

fn waits_of_the_maker_that_need_its_frame_panic() {
    let runtime = processes(1).build().unwrap();
    let event = Event::manual();
    let text = panic_of(|| event.wait());
    assert!(
        text.contains("a thread cannot wait in Event::wait where workers are processes"),
        "{text}"
    );
    let text = panic_of(|| runtime.scope(|_| ()));
    assert!(text.contains("let a fiber, by Runtime::run"), "{text}");
    let lock = Mutex::new(7);
    assert_eq!(*lock.lock().unwrap(), 7, "a free object needs no wait");
    end(runtime);
    event.set();
    event.wait();
}

fn there_is_no_default_runtime_meanwhile() {
    let runtime = processes(1).build().unwrap();
    let text = panic_of(|| daiko::spawn(|| ()));
    assert!(text.contains("no default runtime beside a runtime of worker processes"), "{text}");
    end(runtime);
    assert_eq!(daiko::run(|| 7), 7);
}

fn a_number_of_workers_that_is_not_possible_is_an_error() {
    for workers in [0, 513] {
        assert!(matches!(processes(workers).build(), Err(BuildError::Workers { .. })));
    }
    let _unused = SharedHeap::default();
}
