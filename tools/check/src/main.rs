//! Checks the structure of Daiko's sources: imports, cycles, names and prose.
//!
//! A check reads the workspace of the current folder and fails if it finds a fault, which it prints
//! on one line: the file, the line, what is wrong and the remedy.

mod cfg;
mod crates;
mod cycles;
mod graph;
mod imports;
mod order;
mod resolve;
mod tokens;
mod tree;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use imports::Reading;
use workspace::{Package, Workspace};

const USAGE: &str = "\
daiko-check layers [CRATE]...            do crates and modules import from the layers below them only?
                                         a named crate is checked though its order is not enforced
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
    let workspace = Workspace::read()?;
    match words {
        ["layers", "--cycles", names @ ..] => {
            for package in chosen(&workspace, names)? {
                cycles::print_cycles(&package.name, &mut workspace.tree(package)?);
            }
            Ok(())
        }
        ["layers", "--imports", name] => {
            for package in chosen(&workspace, &[name])? {
                cycles::print_imports(&mut workspace.tree(package)?);
            }
            Ok(())
        }
        ["layers", names @ ..] => layers(&workspace, names),
        _ => Err(USAGE.to_owned()),
    }
}

/// Returns the named crates, or all if none is named.
fn chosen<'a>(workspace: &'a Workspace, names: &[&str]) -> Result<Vec<&'a Package>, String> {
    let is_known = |name: &&&str| workspace.packages.iter().any(|package| package.name == **name);
    if let Some(stranger) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("{stranger}: no crate of this workspace; see tools/check/crates"));
    }
    let is_chosen = |package: &&Package| names.is_empty() || names.contains(&package.name.as_str());
    Ok(workspace.packages.iter().filter(is_chosen).collect())
}

fn layers(workspace: &Workspace, names: &[&str]) -> Result<(), String> {
    let table = "tools/check/crates";
    let mut faults = crates::check(&workspace.packages, table, &workspace.text(Path::new(table))?);
    let mut summary = Vec::new();
    for package in chosen(workspace, names)? {
        let path = package.folder.join("layers");
        let text = workspace.text(&path)?;
        let mut tree = workspace.tree(package)?;
        let imports = imports::imports(&mut tree, Reading::Defined);
        let outcome = order::check(&package.name, &tree, &imports, &path, &text, !names.is_empty());
        faults.extend(outcome.faults);
        summary.push(outcome.summary);
    }
    report("layers", faults, &summary)
}

/// Prints the summary of a check that found nothing, or its faults.
fn report(check: &str, faults: Vec<String>, summary: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        summary.iter().for_each(|line| println!("{check}: {line}"));
        return Ok(());
    }
    Err(format!("{}\n{check}: {} faults", faults.join("\n"), faults.len()))
}
