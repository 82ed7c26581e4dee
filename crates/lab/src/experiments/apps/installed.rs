//! Programs that have to be installed, and the Debian packages that have them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::kit::Skip;

/// Folder of servers, which is not in the `PATH` of all users.
const SERVERS: &str = "/usr/sbin";

/// A file that an application needs.
#[derive(Clone, Copy)]
pub(super) struct Need {
    place: NeedPlace,
    /// The package that has it.
    package: &'static str,
}

#[derive(Clone, Copy)]
enum NeedPlace {
    /// A program in `PATH`, or with its path.
    Program(&'static str),
    /// A path below each folder with this beginning of its name.
    Below { folder: &'static str, beginning: &'static str, path: &'static str },
}

impl Need {
    pub(super) const fn program(name: &'static str, package: &'static str) -> Self {
        Self { place: NeedPlace::Program(name), package }
    }

    /// A `path` below a folder with a version in its name, which has this `beginning`.
    pub(super) const fn file(
        folder: &'static str,
        beginning: &'static str,
        path: &'static str,
        package: &'static str,
    ) -> Self {
        Self { place: NeedPlace::Below { folder, beginning, path }, package }
    }

    /// Fails with the reason to skip the application `name` if one of `needs` is missing.
    pub(super) fn all(name: &str, needs: &[Self]) -> Result<(), Skip> {
        let missing: Vec<&Self> = needs.iter().filter(|need| !need.is_there()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let files: Vec<&str> = missing.iter().map(|need| need.file_name()).collect();
        let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
        let reason = format!("{name}: not installed: {}", files.join(", "));
        Err(Skip::without(reason, &packages.join(" ")))
    }

    fn is_there(&self) -> bool {
        match self.place {
            NeedPlace::Program(name) => folders().iter().any(|folder| folder.join(name).is_file()),
            NeedPlace::Below { folder, beginning, path } => {
                let has_it = |entry: fs::DirEntry| {
                    let is_named = entry.file_name().to_string_lossy().starts_with(beginning);
                    is_named && entry.path().join(path).is_file()
                };
                fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|e| e.is_ok_and(has_it)))
            }
        }
    }

    fn file_name(&self) -> &'static str {
        let (NeedPlace::Program(path) | NeedPlace::Below { path, .. }) = self.place;
        Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
    }
}

/// The folders that programs are searched in, by the lab and by lines.
pub(super) fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain([SERVERS.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_of_missing_programs_are_named() {
        let there = [Need::program("sh", "dash"), Need::program("/bin/sh", "dash")];
        assert_eq!(Need::all("app", &there), Ok(()));
        assert_eq!(Need::all("app", &[Need::file("/", "b", "sh", "dash")]), Ok(()));
        let missing = [
            there[0],
            Need::program("no-program", "one"),
            Need::program("/nowhere/a", "two"),
            Need::file("/", "bin", "nowhere/b", "three"),
            Need::file("/nowhere", "", "c", "four"),
        ];
        let skip = Need::all("app", &missing).expect_err("four are missing");
        assert_eq!(
            skip.reason,
            "app: not installed: no-program, a, b, c (Debian: apt install one two three four)"
        );
        assert_eq!(skip.packages, ["one", "two", "three", "four"]);
    }
}
