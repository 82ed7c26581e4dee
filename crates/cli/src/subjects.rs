//! The processes and core files that commands look at.

use std::{fs, path::Path};

use daiko_inspect::{InspectError, Subject};

use crate::problem::Problem;

/// Opens a process by its id, or else a core file by its path.
pub(crate) fn open(subject: &str) -> Result<Subject, Problem> {
    let is_number = !subject.is_empty() && subject.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number, subject.parse()) {
        (true, Ok(process)) => Subject::process(process),
        (true, Err(_)) => {
            return Err(Problem::usage(format!(
                "there is no process {subject}; `daiko ps` lists those with a runtime"
            )));
        }
        (false, _) => Subject::core(Path::new(subject)),
    }
    .map_err(refused)
}

/// Returns all processes with a runtime that may be read.
pub(crate) fn all_processes() -> Result<Vec<Subject>, Problem> {
    let opened = processes()?.into_iter().filter_map(|process| Subject::process(process).ok());
    let has_runtime = |subject: &Subject| {
        subject
            .readers()
            .is_ok_and(|readers| readers.iter().any(|reader| !reader.runtimes().is_empty()))
    };
    Ok(opened.filter(has_runtime).collect())
}

/// Returns the ids of all processes.
pub(crate) fn processes() -> Result<Vec<u32>, Problem> {
    let entries = fs::read_dir("/proc")
        .map_err(|error| Problem::System(format!("/proc: {error}; mount procfs there")))?;
    let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut processes: Vec<u32> = entries.flatten().filter_map(id).collect();
    processes.sort_unstable();
    Ok(processes)
}

pub(crate) fn refused(error: InspectError) -> Problem {
    Problem::usage(error.to_string())
}
