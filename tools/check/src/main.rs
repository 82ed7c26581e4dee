//! Checks the structure of Daiko's sources: imports, cycles, names and prose.
//!
//! A check reads the workspace of the current folder and fails if it finds a fault, which it prints
//! on one line: the file, the line, the fault and the remedy.

mod attributes;
mod comments;
mod crates;
mod cycles;
mod figures;
mod graph;
mod imports;
mod list;
mod names;
mod order;
mod prose;
mod resolve;
mod summaries;
mod tokens;
mod tree;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use figures::Reach;
use imports::Reading;
use list::fault;
use names::Names;
use prose::Prose;
use workspace::Workspace;

const USAGE: &str = "\
daiko-check layers [CRATE]...            do crates and modules import from the layers below them only?
                                         a named crate is checked though its order is not enforced
daiko-check layers --cycles [CRATE]...   the import cycles of each crate, in files
daiko-check layers --imports CRATE       all imports between the files of a crate
daiko-check prose                        is the language of comments and documents plain?
daiko-check prose FILE...                all faults and measured words of these files
daiko-check names                        do predicates return a bool, and do few types share a name?
daiko-check names|prose --shrink         takes entries that pass off the list of exemptions
daiko-check figures                      lines of code of each crate
daiko-check figures CRATE MODULE... [except NAME...]
                                         the files of a crate with paths into these modules";

/// The table of dependencies between crates.
const CRATES: &str = "tools/check/crates";
/// The most words of documents, and the rate of the measured words.
const BOUNDS: &str = "tools/check/bounds";
const PROSE_EXEMPT: &str = "tools/check/prose.exempt";
const NAMES_EXEMPT: &str = "tools/check/names.exempt";

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
            for package in workspace.chosen(names)? {
                cycles::print_cycles(&package.name, &mut workspace.tree(package)?);
            }
        }
        ["layers", "--imports", name] => {
            for package in workspace.chosen(&[name])? {
                cycles::print_imports(&mut workspace.tree(package)?);
            }
        }
        ["layers", names @ ..] => return layers(&workspace, names),
        ["prose"] => return prose(&workspace),
        ["prose", "--shrink"] => {
            let files = read_prose(&workspace)?;
            let exempt = workspace.list(PROSE_EXEMPT)?;
            let failing = prose::failing(&files);
            let shorter = exempt.shrunk(|entry| failing.contains(entry));
            return workspace.write(PROSE_EXEMPT, &shorter);
        }
        ["prose", files @ ..] => {
            for file in files {
                let prose = Prose::read(Path::new(file), &workspace.text(file)?)?;
                prose.iter().flat_map(Prose::list).for_each(|line| println!("{line}"));
            }
        }
        ["names"] => return names(&workspace),
        ["names", "--shrink"] => {
            let names = read_names(&workspace)?;
            let shorter = workspace.list(NAMES_EXEMPT)?.shrunk(|entry| names.fails(entry));
            return workspace.write(NAMES_EXEMPT, &shorter);
        }
        ["figures"] => {
            for package in &workspace.packages {
                let folder = workspace.resolve(&package.folder);
                let is_own = |path: &Path| workspace.resolve(path).starts_with(&folder);
                let lines = figures::lines(&workspace.tree(package)?, is_own);
                println!("{}: {lines} lines of code", package.name);
            }
        }
        ["figures", name, reach @ ..] => {
            let package = workspace.chosen(&[name])?[0];
            let mut tree = workspace.tree(package)?;
            let files = Reach::parse(reach).files(&mut tree);
            files.iter().for_each(|file| println!("{}", file.display()));
            println!("{} files of {name} have paths into {}", files.len(), reach.join(" "));
        }
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}

fn layers(workspace: &Workspace, names: &[&str]) -> Result<(), String> {
    let table = workspace.list(CRATES)?;
    let mut faults = crates::check(&workspace.packages, &table);
    let mut summary = Vec::new();
    for package in workspace.chosen(names)? {
        let order = workspace.list(package.folder.join("layers"))?;
        let mut tree = workspace.tree(package)?;
        let imports = imports::imports(&mut tree, Reading::Defined);
        let outcome = order::check(&package.name, &tree, &imports, &order, !names.is_empty());
        faults.extend(outcome.faults);
        summary.push(outcome.summary);
    }
    report("layers", faults, &summary)
}

fn prose(workspace: &Workspace) -> Result<(), String> {
    let mut rate = 0.0;
    let mut faults = Vec::new();
    let bounds = workspace.list(BOUNDS)?;
    for (line, entry) in bounds.entries() {
        let bound = entry
            .split_once(' ')
            .and_then(|(name, bound)| Some((name, bound.parse::<f64>().ok()?)));
        match bound {
            None => faults.push(bounds.fault(line, "write `prose RATE` or `FILE WORDS`")),
            Some(("prose", bound)) => rate = bound,
            Some((file, bound)) => {
                let words = workspace.text(file)?.split_whitespace().count();
                if words as f64 > bound {
                    let message = format!(
                        "{words} words, more than {bound} in {BOUNDS}; move details to docs"
                    );
                    faults.push(fault(file, 1, message));
                }
            }
        }
    }
    let exempt = workspace.list(PROSE_EXEMPT)?;
    let (found, summary) = prose::check(&read_prose(workspace)?, rate, &exempt);
    faults.extend(found);
    report("prose", faults, &[summary])
}

fn read_prose(workspace: &Workspace) -> Result<Vec<Prose>, String> {
    let mut files = Vec::new();
    for path in workspace.files()? {
        // A file that is no text has no prose either.
        if let Ok(text) = workspace.text(&path) {
            files.extend(Prose::read(&path, &text)?);
        }
    }
    Ok(files)
}

fn names(workspace: &Workspace) -> Result<(), String> {
    let names = read_names(workspace)?;
    let exempt = workspace.list(NAMES_EXEMPT)?;
    let summary = format!("{}; {} names exempt", names.most(), exempt.entries().count());
    report("names", names.check(&exempt), &[summary])
}

fn read_names(workspace: &Workspace) -> Result<Names, String> {
    let mut names = Names::default();
    for package in &workspace.packages {
        names.add(&workspace.tree(package)?);
    }
    Ok(names)
}

/// Prints the summary of a check that found nothing, or its faults.
fn report(check: &str, faults: Vec<String>, summary: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        summary.iter().for_each(|line| println!("{check}: {line}"));
        return Ok(());
    }
    Err(format!("{}\n{check}: {} faults", faults.join("\n"), faults.len()))
}
