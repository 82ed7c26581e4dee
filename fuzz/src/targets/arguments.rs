//! The command line: an accepted line parses to the same value when it is printed, and a refusal is
//! one line.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use daiko_cli::args::{self, Command, LabCommand, Request};
use daiko_lab::kit::format;

/// The input is the words after the program's name, separated by zero bytes.
pub(super) fn fuzz(data: &[u8]) {
    let words = data.split(|&byte| byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
    match args::parse(["daiko".into()].into_iter().chain(words)) {
        Ok(Command::Lab(LabCommand::Run(request))) => check(&request),
        Ok(_) => {}
        Err(problem) => {
            let line = problem.to_string();
            assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
            assert_eq!(problem.exit_code(), 2);
        }
    }
}

fn check(request: &Request) {
    let sizes = |counts: &Option<Vec<usize>>, most: usize| {
        let counts = counts.as_deref().unwrap_or(&[1]);
        assert!(!counts.is_empty() && counts.iter().all(|count| (1..=most).contains(count)));
        assert!(counts.iter().enumerate().all(|(i, count)| !counts[..i].contains(count)));
    };
    sizes(&request.threads, 10_000_000);
    sizes(&request.workers, 1024);
    let names = [&request.methods, &request.apps].into_iter().flatten().flatten();
    assert!(names.into_iter().all(|name| !name.is_empty()));
    let Ok(Command::Lab(LabCommand::Run(again))) = args::parse(written(request)) else {
        panic!("{request:?} is refused when it is written out");
    };
    assert_eq!(&again, request);
}

fn written(request: &Request) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["daiko", "lab", "run"].map(OsString::from).into();
    let counts = |counts: &Vec<usize>| {
        counts.iter().map(|&count| format::count(count as u64)).collect::<Vec<_>>().join(",")
    };
    words.extend(request.threads.iter().map(|list| format!("--threads={}", counts(list)).into()));
    words.extend(request.workers.iter().map(|list| format!("--workers={}", counts(list)).into()));
    words.extend(request.methods.iter().map(|list| format!("--methods={}", list.join(",")).into()));
    words.extend(request.apps.iter().map(|list| format!("--apps={}", list.join(",")).into()));
    words.extend(request.quick.then(|| "--quick".into()));
    words.extend(["--out".into(), request.out.clone().into(), "--".into()]);
    words.extend(request.experiments.iter().map(OsString::from));
    words
}
