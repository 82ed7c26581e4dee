//! The file of a program that a command line names.

use std::{
    env,
    path::{Path, PathBuf},
};

use daiko_sys::process::may_run;

/// Finds a program in the way of a shell.
pub(crate) fn find(name: &Path) -> Option<PathBuf> {
    if is_path(name) {
        return may_run(name).then(|| name.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| may_run(file))
}

/// Returns true if the name is not looked up in `PATH`.
pub(crate) fn is_path(name: &Path) -> bool {
    name.components().count() != 1 || name.is_absolute()
}
