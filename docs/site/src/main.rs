//! Builds the web page of the project from the documents of the workspace, and tests it.

mod browser;
mod check;
mod code;
mod excerpt;
mod front;
mod links;
mod markdown;
mod page;
mod pages;
mod reference;
mod site;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
daiko-site build FOLDER [--reference FOLDER] [--results FOLDER]   writes the site into FOLDER
daiko-site test FOLDER                       opens all pages of a site in Chromium
daiko-site pictures FOLDER OUT PAGE...       takes pictures of pages, at both widths, light and dark
daiko-site excerpt TRACE NANOSECONDS ABOUT   prints an excerpt of a trace, for recording.json";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    match *words {
        ["build", out] => site::build(Path::new(out), None, None),
        ["build", out, ref options @ ..] => {
            let value = |name| {
                let at = options.iter().position(|option| *option == name);
                at.and_then(|at| options.get(at + 1)).map(Path::new)
            };
            site::build(Path::new(out), value("--reference"), value("--results"))
        }
        ["test", folder] => check::test(Path::new(folder)),
        ["pictures", folder, out, ref pages @ ..] => {
            check::shoot(Path::new(folder), Path::new(out), pages)
        }
        ["excerpt", trace, length, about] => excerpt::print(Path::new(trace), length, about),
        _ => Err(USAGE.to_owned()),
    }
}
