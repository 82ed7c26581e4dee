//! Checks the structure of Daiko's sources: imports, cycles, names and prose.
//!
//! Each check reads the sources of the workspace in the current folder, prints one line for each
//! fault, with the file, the line and the remedy, and fails if there is one.

mod cfg;
mod cycles;
mod graph;
mod imports;
mod resolve;
mod tokens;
mod tree;
mod workspace;

use std::process::ExitCode;

use tree::Tree;
use workspace::Workspace;

const USAGE: &str = "\
daiko-check layers --cycles [CRATE]...   the import cycles of each crate, in files
daiko-check layers --imports CRATE       all imports between the files of a crate";

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
    match words {
        ["layers", "--cycles", crates @ ..] => each(crates, cycles::print_cycles),
        ["layers", "--imports", name] => each(&[name], cycles::print_imports),
        _ => Err(USAGE.to_owned()),
    }
}

/// Calls `action` with each of the named crates, or with all if none is named.
fn each(names: &[&str], action: fn(&str, &mut Tree)) -> Result<(), String> {
    let workspace = Workspace::read()?;
    for name in names {
        if !workspace.packages.iter().any(|package| package.name == *name) {
            return Err(format!("{name}: no crate of this workspace; see `ls crates`"));
        }
    }
    for package in &workspace.packages {
        if names.is_empty() || names.contains(&package.name.as_str()) {
            action(&package.name, &mut Tree::read(&workspace.root, &package.root)?);
        }
    }
    Ok(())
}
