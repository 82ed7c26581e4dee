//! The command with the libraries of `daiko run`, in the places of an installation.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, process};

const LIBRARIES: [&str; 2] = ["libdaiko_preload.so", "libdaiko_pthread.so"];

/// Returns the path of the command, `bin/daiko`; the libraries are in `lib/daiko`.
pub(crate) fn daiko() -> PathBuf {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let daiko = link(Path::new(env!("CARGO_BIN_EXE_daiko")), &root.join("bin"));
        // Cargo leaves libraries that a test depends on beside the program of that test.
        let test = env::current_exe().expect("a path");
        for name in LIBRARIES {
            link(&test.with_file_name(name), &root.join("lib/daiko"));
        }
        daiko
    };
    INSTALLED.get_or_init(install).clone()
}

/// Links the file into the folder. Another test may be running the file that is there.
fn link(file: &Path, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let place = folder.join(file.file_name().expect("a name"));
    let new = place.with_extension(process::id().to_string());
    fs::hard_link(file, &new).unwrap_or_else(|error| {
        panic!("{}: {error}; run cargo build -p daiko-preload -p daiko-pthread", file.display())
    });
    fs::rename(&new, &place).expect("the same folder");
    // A rename onto a link to the same file does nothing.
    let _ = fs::remove_file(&new);
    place
}
