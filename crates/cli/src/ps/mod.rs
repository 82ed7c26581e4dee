//! `daiko ps`: the fibers of processes that run or hang, and of core files.

mod json;
mod list;
mod view;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use daiko_inspect::Subject;

use crate::{args::PsRequest, problem::Problem};
use view::View;

/// Prints processes, or the fibers of each subject.
pub(crate) fn run(request: &PsRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    if request.subjects.is_empty() {
        return list::run(request.json, out);
    }
    for subject in &request.subjects {
        let subject = open(subject)?;
        let readers = subject.readers().map_err(refused)?;
        for reader in &readers {
            let view = View::of(&subject, reader, request);
            match request.json {
                true => writeln!(out, "{}", json::of(&view))?,
                false => view.print(request.stacks, out)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a process by its id, or else a core file by its path.
fn open(subject: &str) -> Result<Subject, Problem> {
    let is_number = !subject.is_empty() && subject.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number, subject.parse()) {
        (true, Ok(process)) => Subject::process(process),
        (true, Err(_)) => {
            return Err(Problem::usage(format!(
                "there is no process {subject}; `daiko ps` lists those with a runtime"
            )));
        }
        (false, _) => Subject::core(Path::new(&PathBuf::from(subject))),
    }
    .map_err(refused)
}

fn refused(error: daiko_inspect::InspectError) -> Problem {
    Problem::usage(error.to_string())
}
