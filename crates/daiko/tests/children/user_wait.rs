//! Agents that wait for their inbox by an instruction of the processor.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::support::child::{command, is_child, stderr, stdout};
use crate::support::{PRESETS, end, skip};
use daiko::sync::channel::bounded;
use daiko::{BuildError, Builder, Runtime};
use daiko_sys::user_wait::UserWait;

/// Wakes across workers, from a thread, by a timer, by a start on any worker.
fn events_of_all_kinds(runtime: &Runtime) {
    let (to, from_thread) = bounded(1);
    let (on, from_first) = bounded(1);
    let first = runtime.spawn_with(Builder::new().on(0), move || {
        from_thread.iter().for_each(|number: u64| on.send(number + 1).unwrap());
    });
    let second = runtime.spawn_with(Builder::new().on(1), move || {
        let sum: u64 = from_first.iter().sum();
        daiko::sleep(Duration::from_millis(1));
        sum
    });
    (0..5000).for_each(|number| to.send(number).unwrap());
    drop(to);
    first.unwrap().join().unwrap();
    assert_eq!(second.unwrap().join().unwrap(), 5000 * 4999 / 2 + 5000);
    for _ in 0..100 {
        runtime.spawn(daiko::yield_now).join().unwrap();
    }
}

#[test]
fn events_arrive_where_agents_wait_in_user_mode() {
    if is_child() {
        for preset in PRESETS {
            let runtime = Runtime::builder().workers(2).preset(preset).build().unwrap();
            events_of_all_kinds(&runtime);
            end(runtime);
        }
        return;
    }
    if UserWait::detect().is_none() {
        skip("no umwait, no mwaitx: agents that are asked to wait so look as ever");
    }
    let mut child = command("user_wait::events_arrive_where_agents_wait_in_user_mode");
    let output = child.env("DAIKO_USER_WAIT", "1").output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_variable_that_asks_for_nothing_known_is_an_error_in_one_line() {
    const NAME: &str = "user_wait::a_variable_that_asks_for_nothing_known_is_an_error_in_one_line";
    if is_child() {
        let error = Runtime::builder().workers(1).build().unwrap_err();
        assert!(matches!(error, BuildError::UserWaitVariable { .. }), "{error:?}");
        println!("error: {error}");
        daiko::run(|| ());
    }
    let values = ["", "0", "01", "true", "umwait", "1\n"].map(OsStr::new);
    for value in values.into_iter().chain([OsStr::from_bytes(b"\xff")]) {
        let output = command(NAME).env("DAIKO_USER_WAIT", value).output().unwrap();
        let (out, err) = (stdout(&output), stderr(&output));
        let told = format!("DAIKO_USER_WAIT is {value:?}: set it to 1, or unset it");
        let lines: Vec<_> = out.lines().filter(|line| line.contains("error: ")).collect();
        assert!(matches!(lines[..], [line] if line.contains(&told)), "{out} {err}");
        // The default runtime cannot start either, and says so by the same words.
        assert!(err.contains("the default runtime cannot start") && err.contains(&told), "{err}");
        assert!(!output.status.success());
    }
}
