//! `daiko run PROGRAM`: runs a program with its threads on Daiko's workers.
//!
//! This process becomes the program, with two libraries of Daiko in front of the C library. So the
//! process id, the signals and the exit code are those of the program.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    args::RunRequest,
    problem::Problem,
    program::{inspect, locate, refused},
};

/// The library that is preloaded. It loads the other one, which lies beside it.
const PRELOADED: &str = "libdaiko_preload.so";
const ENGINE: &str = "libdaiko_pthread.so";

const PRELOAD: &str = "LD_PRELOAD";
const MODE: &str = "DAIKO_RUN";
const FOLLOW: &str = "DAIKO_RUN_FOLLOW";
const REPORT_DEADLOCK: &str = "DAIKO_RUN_REPORT_DEADLOCK";
const DISPATCH: &str = "DAIKO_RUN_DISPATCH";
const WORKERS: &str = "DAIKO_WORKERS";
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Settings of the C library. Threads that move between kernel threads can have no restartable
/// sequences, and the libraries need thread-locals at fixed places: some 1,400 bytes, beside the
/// 512 that the C library leaves for those of the program. Each stack has that room.
const SETTINGS: [(&str, &str); 2] =
    [("glibc.pthread.rseq", "0"), ("glibc.rtld.optional_static_tls", "2048")];

/// Becomes the program. Returns only if that fails.
pub(crate) fn run(request: &RunRequest) -> Result<ExitCode, Problem> {
    let mode = env::var_os(MODE).unwrap_or_default();
    let mut command = if request.native || mode == "native" {
        native(request)?
    } else {
        check_mode(&mode)?;
        taken_over(request)?
    };
    let path = PathBuf::from(command.get_program());
    let error = command.arg0(&request.program).args(&request.arguments).exec();
    Err(Problem::usage(format!(
        "{} cannot be executed: {error}; see whether a shell executes it",
        path.display()
    )))
}

fn check_mode(mode: &OsStr) -> Result<(), Problem> {
    if mode.is_empty() || mode == "explain" {
        return Ok(());
    }
    let mode = mode.display();
    Err(Problem::usage(format!("{MODE} is '{mode}': set it to native or explain, or unset it")))
}

/// Returns the command that runs the program with native threads, its children as well.
fn native(request: &RunRequest) -> Result<Command, Problem> {
    let name = &request.program;
    let (path, _) = locate(name).map_err(|refusal| refused(name, &refusal))?;
    let mut command = Command::new(path);
    command.env(MODE, "native");
    Ok(command)
}

/// Returns the command that runs the program with its threads on workers.
fn taken_over(request: &RunRequest) -> Result<Command, Problem> {
    let name = &request.program;
    let (path, _) = inspect(name).map_err(|refusal| refused(name, &refusal))?;
    let library = library()?;
    let mut command = Command::new(path);
    command.env(PRELOAD, preload(&library, env::var_os(PRELOAD).as_deref()));
    command.env(TUNABLES, tunables(env::var_os(TUNABLES).as_deref()));
    if let Some(workers) = request.workers {
        command.env(WORKERS, workers.to_string());
    }
    if request.explain {
        command.env(MODE, "explain");
    }
    if request.report_deadlock {
        command.env(REPORT_DEADLOCK, "1");
    }
    if request.dispatch {
        command.env(DISPATCH, "1");
    }
    match request.follow {
        true => command.env(FOLLOW, "1"),
        false => command.env_remove(FOLLOW),
    };
    Ok(command)
}

/// Finds the preloaded library: beside this program, as in target/release, or in the place where
/// `make install` puts it.
fn library() -> Result<PathBuf, Problem> {
    let own = env::current_exe().map_err(|error| {
        Problem::usage(format!("the path of daiko is unknown ({error}): mount /proc"))
    })?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let installed = beside.parent().unwrap_or(beside).join("lib/daiko");
    let is_there =
        |folder: &&Path| [PRELOADED, ENGINE].iter().all(|name| folder.join(name).is_file());
    let Some(folder) = [beside, &installed].into_iter().find(is_there) else {
        return Err(Problem::usage(format!(
            "{PRELOADED} and {ENGINE} are neither in {} nor in {}: run make build, or make install",
            beside.display(),
            installed.display()
        )));
    };
    let library = folder.join(PRELOADED);
    // The loader takes each of these for the end of a path, or replaces it.
    if library.as_os_str().as_bytes().iter().any(|byte| b": $\t\n".contains(byte)) {
        return Err(Problem::usage(format!(
            "{} has a character that {PRELOAD} cannot hold (space, colon or dollar sign): \
             install daiko in another folder",
            library.display()
        )));
    }
    Ok(library)
}

/// Returns the value of `LD_PRELOAD` that names `library` first.
fn preload(library: &Path, others: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Returns the value of `GLIBC_TUNABLES`: that of the user, and the settings that it lacks.
fn tunables(of_user: Option<&OsStr>) -> OsString {
    let of_user = of_user.unwrap_or_default().as_bytes();
    let is_set = |name: &str| {
        let mut items = of_user.split(|&byte| byte == b':');
        items
            .any(|item| item.strip_prefix(name.as_bytes()).is_some_and(|end| end.starts_with(b"=")))
    };
    let mut value = of_user.to_vec();
    for (name, number) in SETTINGS.into_iter().filter(|(name, _)| !is_set(name)) {
        if !value.is_empty() && !value.ends_with(b":") {
            value.push(b':');
        }
        value.extend_from_slice(format!("{name}={number}").as_bytes());
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_before_those_of_the_user() {
        let value = |others: Option<&str>| preload(Path::new("/l.so"), others.map(OsStr::new));
        assert_eq!(value(None), "/l.so");
        assert_eq!(value(Some("")), "/l.so");
        assert_eq!(value(Some("a.so /b.so:c.so")), "/l.so:a.so /b.so:c.so");
    }

    #[test]
    fn tunables_of_the_user_stay() {
        let value = |of_user: Option<&str>| tunables(of_user.map(OsStr::new));
        let all = "glibc.pthread.rseq=0:glibc.rtld.optional_static_tls=2048";
        assert_eq!(value(None), all);
        assert_eq!(value(Some("")), all);
        assert_eq!(value(Some("glibc.malloc.check=1")), *format!("glibc.malloc.check=1:{all}"));
        assert_eq!(value(Some("a=1:")), *format!("a=1:{all}"));
        let chosen = "glibc.rtld.optional_static_tls=512:glibc.pthread.rseq=1";
        assert_eq!(value(Some(chosen)), chosen);
        let longer = "glibc.pthread.rseq2=1";
        assert_eq!(value(Some(longer)), *format!("{longer}:{all}"));
    }
}
