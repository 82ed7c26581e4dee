//! `daiko ps`: the fibers of processes that run or hang, and of core files.

mod json;
mod list;
mod view;

use std::{io::Write, process::ExitCode};

use crate::{args::PsRequest, problem::Problem, subjects};
use view::View;

/// Prints processes, or the fibers of each subject.
pub(crate) fn run(request: &PsRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    if request.subjects.is_empty() {
        return list::run(request.json, out);
    }
    for subject in &request.subjects {
        let subject = subjects::open(subject)?;
        let readers = subject.readers().map_err(subjects::refused)?;
        if request.stop {
            subject.stop().map_err(subjects::refused)?;
        }
        let views = readers.iter().map(|reader| View::of(&subject, reader, request));
        let views: Vec<_> = views.collect();
        // The reader of the output may be slow.
        subject.resume();
        for view in views {
            match request.json {
                true => writeln!(out, "{}", json::of(&view))?,
                false => view.print(request.stacks, out)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
