//! Import cycles between the files of a crate.

use crate::graph;
use crate::imports::{Import, Reading, imports};
use crate::tree::{FileId, Tree};

/// The files of each import cycle, largest cycle first.
pub(crate) fn cycles(tree: &Tree, imports: &[Import]) -> Vec<Vec<FileId>> {
    let mut next = vec![Vec::new(); tree.files.len()];
    for import in imports {
        next[import.file].push(tree.file_of(import.to));
    }
    graph::cycles(&next)
}

/// Prints the cycles with their members.
///
/// The largest file stands beside them, since a cycle also gets shorter if its files are merged.
pub(crate) fn print_cycles(name: &str, tree: &mut Tree) {
    let named = imports(tree, Reading::Named);
    let named = cycles(tree, &named).first().map_or(1, Vec::len);
    let imports = imports(tree, Reading::Defined);
    let cycles = cycles(tree, &imports);
    let (lines, largest) = tree
        .files
        .iter()
        .map(|file| (file.text.lines().count(), file))
        .max_by_key(|(lines, _)| *lines)
        .expect("a crate has a root file");
    println!(
        "{name}: largest cycle {} of {} files ({named} if re-exports count as definitions), {} imports; largest file {} ({lines} lines)",
        cycles.first().map_or(1, Vec::len),
        tree.files.len(),
        imports.len(),
        largest.path.display(),
    );
    for cycle in cycles {
        println!("  cycle of {}:", cycle.len());
        for file in cycle {
            println!("    {}", tree.files[file].path.display());
        }
    }
}

/// Prints one line for each import: place, path, file that defines the item.
pub(crate) fn print_imports(tree: &mut Tree) {
    for import in imports(tree, Reading::Defined) {
        let (from, to) = (&tree.files[import.file], &tree.files[tree.file_of(import.to)]);
        println!(
            "{}:{}: {} -> {}",
            from.path.display(),
            import.line,
            import.path,
            to.path.display()
        );
    }
}
