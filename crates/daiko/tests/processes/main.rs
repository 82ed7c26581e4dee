//! Workers that are processes. Each case runs in a program of its own with a single thread; libtest
//! has more.

mod cases;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Output};

use daiko::process::SharedHeap;
use support::child::emulated::{self, LinuxPart};

#[global_allocator]
static HEAP: SharedHeap = SharedHeap::with_reserve(4 << 30);

/// Names the case that a child runs.
const CASE: &str = "DAIKO_PROCESS_CASE";

/// A case, and the expected end of its program.
struct Case {
    name: &'static str,
    body: fn(),
    end: End,
}

/// The end of a program.
enum End {
    Well,
    /// The program exits with this code; this text is among its last words.
    Exit(i32, &'static str),
    /// The program ends by SIGABRT; this text is among its last words.
    Abort(&'static str),
    /// The program ends well; so many lines on standard error contain this text.
    Said(usize, &'static str),
}

fn main() -> ExitCode {
    let cases = cases::all();
    if let Ok(name) = env::var(CASE) {
        (cases.iter().find(|case| case.name == name).unwrap().body)();
        return ExitCode::SUCCESS;
    }
    if env::args().any(|arg| arg == "--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    if LinuxPart::Clone.is_lacking() {
        return ExitCode::SUCCESS;
    }
    let filters: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |case: &&Case| {
        filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter))
    };
    let failed = cases.iter().filter(wanted).filter(|case| !passes(case)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn passes(case: &Case) -> bool {
    let run = emulated::own_program().env(CASE, case.name).output().unwrap();
    let passes = is_as_expected(case, &run);
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let told = |line: &&str| line.starts_with("skipped: ") || line.starts_with("measured: ");
    out.lines().filter(told).for_each(|line| println!("{line}"));
    println!("test {} ... {}", case.name, if passes { "ok" } else { "FAILED" });
    if !passes {
        println!("{:?}\n{out}{err}", run.status);
    }
    passes
}

fn is_as_expected(case: &Case, run: &Output) -> bool {
    let err = String::from_utf8_lossy(&run.stderr);
    match case.end {
        End::Well => run.status.success(),
        End::Exit(code, words) => run.status.code() == Some(code) && err.contains(words),
        End::Abort(words) => run.status.signal() == Some(libc::SIGABRT) && err.contains(words),
        End::Said(lines, words) => {
            run.status.success() && err.lines().filter(|line| line.contains(words)).count() == lines
        }
    }
}
