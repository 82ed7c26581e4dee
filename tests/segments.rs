//! The names of segments that tests create.
//!
//! Tests of several crates include this file by its path.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::fmt::Display;
use std::fs::DirEntry;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;
use std::{fs, process};

/// The folder of segments that are opened by name.
pub(crate) const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "daiko-test-";

/// Returns a name for a segment of this process.
///
/// The first call removes segments of test processes that were killed some time ago.
pub(crate) fn segment_name(name: impl Display) -> String {
    static LEFTOVERS: Once = Once::new();
    LEFTOVERS.call_once(remove_leftovers);
    name_of(process::id(), name)
}

pub(crate) fn name_of(pid: u32, name: impl Display) -> String {
    format!("{PREFIX}{pid}-{name}")
}

/// Age from which a segment without its creator is a leftover. A live creator may be hidden, as in
/// another PID namespace; no test runs that long.
pub(crate) const LEFTOVER: Duration = Duration::from_secs(3600);

/// Removes old segments of test processes that do not exist any more.
pub(crate) fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(FOLDER) else { return };
    for entry in entries.flatten() {
        let creator = entry.file_name().to_str().and_then(creator);
        let is_gone = creator.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_gone && age(&entry).is_some_and(|age| age >= LEFTOVER) {
            // Another test process may have removed it meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn age(entry: &DirEntry) -> Option<Duration> {
    entry.metadata().ok()?.modified().ok()?.elapsed().ok()
}

fn creator(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}
