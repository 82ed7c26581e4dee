//! Methods with processes as workers, measured by a program of their own.
//!
//! All data of their fibers is in a [`SharedHeap`](daiko::process::SharedHeap), which is the
//! allocator of the whole program. In the program that measures all other methods, it would be
//! their allocator as well: a pair of its calls takes a fifth more instructions than glibc's, which
//! would slow the peers down. An allocator that chooses at start would cost them a check per call.
//! Hence there is a second program beside the first. It differs in its allocator, and only takes
//! [samples](crate::runner::child::serve).

use std::env;
use std::path::{Path, PathBuf};

use super::failure::Skip;

/// Name of the method, in all experiments that have one.
pub const METHOD: &str = "daiko-processes";

/// File name of the program.
pub const PROGRAM: &str = "daiko-lab-processes";

/// Returns the path of the program beside this one.
///
/// # Errors
/// Fails if it does not exist; the reason names the remedy.
pub fn program() -> Result<PathBuf, Skip> {
    let own = env::current_exe();
    let own =
        own.map_err(|error| Skip::new(format!("cannot find this program's file: {error}")))?;
    beside(&own)
}

/// Returns the path of the program beside `own`.
///
/// # Errors
/// Fails if it does not exist; the reason names the remedy.
pub fn beside(own: &Path) -> Result<PathBuf, Skip> {
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(Skip::new(format!(
        "{} is not there; it runs worker processes, which share a heap: build or install the whole \
         of daiko-cli, as `make build` and `make install` do",
        program.display()
    )))
}

/// Fails with the reason to skip if `method` needs a program that does not exist.
pub(crate) fn supports(method: &str) -> Result<(), Skip> {
    if method == METHOD { program().map(drop) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_is_searched_beside_this_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("daiko");
        let missing = beside(&own).expect_err("there is none").reason;
        let program = folder.path().join(PROGRAM);
        assert!(missing.starts_with(program.to_str().expect("UTF-8")), "{missing}");
        assert!(missing.contains("make install"), "{missing}");
        fs::create_dir(&program).expect("a folder");
        assert!(beside(&own).is_err(), "a folder is no program");
        fs::remove_dir(&program).expect("it was empty");
        fs::write(&program, "").expect("a file");
        assert_eq!(beside(&own), Ok(program));
    }

    #[test]
    fn other_methods_need_no_other_program() {
        assert_eq!(supports("daiko"), Ok(()));
        assert_eq!(supports(METHOD).is_ok(), program().is_ok());
    }
}
