//! Fibers under valgrind, which knows their stacks.
#![cfg(not(daiko_sanitize))]

use std::process::Command;

use crate::support::child::{command, emulated, is_child, stderr};
use daiko::{Builder, Runtime};

/// Writes and reads an array in its frame, between suspensions.
fn counts_in_its_frame(start: u64) -> u64 {
    let mut array = [start; 64];
    for _ in 0..10 {
        daiko::yield_now();
        array.iter_mut().for_each(|element| *element += 1);
    }
    array.iter().sum()
}

fn twenty_fibers() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let sum: u64 = runtime.run(|| {
        let spawn = |i| {
            let builder = if i % 2 == 0 { Builder::new() } else { Builder::new().migratable() };
            builder.spawn(move || counts_in_its_frame(i)).unwrap()
        };
        let fibers: Vec<_> = (0..20).map(spawn).collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum()
    });
    runtime.shutdown();
    assert_eq!(sum, 64 * (20 * 10 + 190));
}

#[test]
fn memcheck_finds_no_error_in_twenty_fibers() {
    if is_child() {
        return twenty_fibers();
    }
    if emulated::is_skipped("not valgrind") {
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let target = command("valgrind::memcheck_finds_no_error_in_twenty_fibers");
    let output = Command::new("valgrind")
        .args(["--error-exitcode=9", "--"])
        .arg(target.get_program())
        .args(target.get_args())
        .envs(target.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .output()
        .unwrap();
    let report = stderr(&output);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("ERROR SUMMARY: 0 errors"), "{report}");
    assert!(!report.contains("client switching stacks"), "{report}");
}
