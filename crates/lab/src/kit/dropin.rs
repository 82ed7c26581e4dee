//! Programs of POSIX threads that run on Daiko's workers: `libdaiko_preload.so`, preloaded, leads
//! their calls to `libdaiko_pthread.so`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::failure::{Failure, Skip, last_line};

/// The library to preload, and that which it loads.
const LIBRARIES: [&str; 2] = ["libdaiko_preload.so", "libdaiko_pthread.so"];

/// Folders of the libraries, relative to that of the running program.
const FOLDERS: [&str; 2] = [".", "../lib/daiko"];

/// The beginnings of lines which say that threads are native: those of the libraries, and of the
/// loader that does not find them (a path with a space or colon is two to it).
const COMPLAINTS: [&[u8]; 2] = [b"daiko run:", b"ERROR: ld.so:"];

/// Variables that would change `daiko run`.
pub(crate) const FOREIGN: [&str; 3] = ["DAIKO_RUN", "DAIKO_RUN_FOLLOW", "DAIKO_WORKERS"];

/// The command `daiko`, which lies beside a program of the lab.
const COMMAND: &str = "daiko";

/// Returns the words in front of a program that let `daiko run` run it on this many workers.
///
/// # Errors
/// Fails if the command, or a library, does not exist; the reason names the remedy.
pub(crate) fn command(workers: usize) -> Result<String, Skip> {
    let library = library()?;
    let own = own_file()?.with_file_name(COMMAND);
    let path = own.display();
    if !own.is_file() {
        return Err(Skip::new(format!("{path} is not there: build or install daiko-cli")));
    }
    if [&own, &library].iter().any(|path| path.to_string_lossy().contains(char::is_whitespace)) {
        return Err(Skip::new(format!("{path}: install daiko in a folder without spaces")));
    }
    Ok(format!("{path} run --workers={workers}"))
}

/// Returns the path of the library to preload.
///
/// # Errors
/// Fails if one of the libraries does not exist; the reason names the remedy.
pub(crate) fn library() -> Result<PathBuf, Skip> {
    near(own_file()?.parent().unwrap_or(Path::new("/")))
}

fn own_file() -> Result<PathBuf, Skip> {
    let own = env::current_exe();
    own.map_err(|error| Skip::new(format!("cannot find this program's file: {error}")))
}

/// Returns the path of the library for a program in `folder`.
fn near(folder: &Path) -> Result<PathBuf, Skip> {
    let folders = FOLDERS.map(|name| folder.join(name));
    let complete = |folder: &&PathBuf| LIBRARIES.iter().all(|name| folder.join(name).is_file());
    match folders.iter().find(complete) {
        Some(folder) => Ok(folder.join(LIBRARIES[0])),
        None => Err(Skip::new(format!(
            "{} are neither in {} nor in {} from there: build them by `cargo build --release -p \
             daiko-preload -p daiko-pthread`",
            LIBRARIES.join(" and "),
            folder.display(),
            FOLDERS[1]
        ))),
    }
}

/// Lets `command` run on this many workers.
///
/// # Errors
/// As for [`library`].
pub(crate) fn preload(command: &mut Command, workers: usize) -> Result<(), Skip> {
    command.env("LD_PRELOAD", library()?).env("DAIKO_WORKERS", workers.to_string());
    command.env_remove("DAIKO_RUN");
    Ok(())
}

/// Fails if the program, which wrote `errors`, has not run on workers.
pub(crate) fn check(errors: &[u8]) -> Result<(), Failure> {
    let complains = |line: &&[u8]| COMPLAINTS.iter().any(|words| line.starts_with(words));
    match errors.split(|&byte| byte == b'\n').find(complains) {
        Some(line) => Err(Failure::Unavailable(last_line(line))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_libraries_are_beside_the_program_or_in_lib() {
        let root = tempfile::tempdir().expect("a folder");
        let (programs, libraries) = (root.path().join("bin"), root.path().join("lib/daiko"));
        fs::create_dir_all(&programs).expect("a folder");
        fs::create_dir_all(&libraries).expect("a folder");
        let missing = near(&programs).expect_err("there are none").reason;
        assert!(missing.contains("cargo build") && !missing.contains('\n'), "{missing}");
        fs::write(libraries.join(LIBRARIES[0]), "").expect("a file");
        assert!(near(&programs).is_err(), "one of two");
        fs::write(libraries.join(LIBRARIES[1]), "").expect("a file");
        let found = near(&programs).expect("both are in lib");
        assert!(found.ends_with("lib/daiko/libdaiko_preload.so"), "{found:?}");
        LIBRARIES.iter().for_each(|name| fs::write(programs.join(name), "").expect("a file"));
        let found = near(&programs).expect("both are beside the program");
        assert!(found.ends_with("bin/./libdaiko_preload.so"), "{found:?}");
    }

    #[test]
    fn a_program_that_ran_natively_is_told() {
        assert_eq!(check(b"other words\n"), Ok(()));
        for line in ["daiko run: no; threads are native", "ERROR: ld.so: cannot be preloaded"] {
            let told = Failure::Unavailable(line.into());
            assert_eq!(check(format!("other\n{line}\n").as_bytes()), Err(told));
        }
    }
}
