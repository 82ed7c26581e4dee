//! Methods whose workers are processes, which are measured by a program of their own.
//!
//! Whatever their fibers touch lies in a [`SharedHeap`](daiko::process::SharedHeap), and that is the allocator of a
//! whole program. In the one that measures all others it would be theirs too: a pair of its calls takes a fifth
//! more instructions than glibc's, which peers would pay for. An allocator that chooses when it starts would
//! cost them a look for each call. So there is a second program beside the first, the same but for its allocator and
//! for doing nothing but [samples](crate::runner::child::serve).

use std::env;
use std::path::{Path, PathBuf};

use super::failure::Skip;

/// The name of the method, in all experiments that have one.
pub const METHOD: &str = "daiko-processes";

/// The name of the program's file.
pub const PROGRAM: &str = "daiko-lab-processes";

/// The program that lies beside this one.
///
/// # Errors
/// That there is none, with the remedy.
pub fn program() -> Result<PathBuf, Skip> {
    let own = env::current_exe();
    let own =
        own.map_err(|error| Skip::new(format!("cannot find this program's file: {error}")))?;
    beside(&own)
}

/// The program that lies beside `own`.
///
/// # Errors
/// That there is none, with the remedy.
pub fn beside(own: &Path) -> Result<PathBuf, Skip> {
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(Skip::new(format!(
        "{} is not there, whose worker processes share a heap: build or install the whole of daiko-cli, as \
         `make build` and `make install` do",
        program.display()
    )))
}

/// Whether `method` can be measured, as far as programs go.
pub(crate) fn supports(method: &str) -> Result<(), Skip> {
    if method == METHOD { program().map(drop) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_is_looked_for_beside_ones_own() {
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
