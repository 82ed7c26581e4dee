//! Dependencies between crates.

use std::collections::HashMap;

use crate::list::{List, fault};
use crate::workspace::Package;

/// Returns one fault for each difference between the dependencies of `packages` and `table`.
///
/// Its entries are `CRATE -> CRATE...`.
pub(crate) fn check(packages: &[Package], table: &List) -> Vec<String> {
    let mut faults = Vec::new();
    let mut allowed = HashMap::new();
    for (line, entry) in table.entries() {
        let Some((from, to)) = entry.split_once("->") else {
            faults.push(table.fault(line, "write `CRATE -> CRATE...`"));
            continue;
        };
        let (from, to) = (from.trim(), to.split_whitespace().collect::<Vec<_>>());
        match packages.iter().find(|package| package.name == from) {
            None => faults.push(table.fault(line, format!("no crate {from}; delete the line"))),
            Some(package) => {
                let is_used = |name: &str| package.dependencies.iter().any(|one| one == name);
                for name in to.iter().filter(|name| !is_used(name)) {
                    let message = format!("{from} does not depend on {name}; delete it here");
                    faults.push(table.fault(line, message));
                }
            }
        }
        allowed.insert(from, to);
    }
    for Package { name, folder, dependencies, .. } in packages {
        let Some(allowed) = allowed.get(name.as_str()) else {
            faults.push(
                table.fault(1, format!("crate {name} is missing; enter it with its dependencies")),
            );
            continue;
        };
        for other in dependencies.iter().filter(|other| !allowed.contains(&other.as_str())) {
            let message = format!(
                "{name} must not depend on {other}; see \"Layers\" in ARCHITECTURE.md and {}",
                table.path.display()
            );
            faults.push(fault(folder.join("Cargo.toml"), 1, message));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use crate::list::List;
    use crate::workspace::Package;

    fn faults(table: &str) -> Vec<String> {
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            folder: name.into(),
            root: "src/lib.rs".into(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        };
        let table = &List::new("table", table);
        super::check(&[package("high", &["low"]), package("low", &[])], table)
    }

    #[test]
    fn the_table_equals_the_dependencies() {
        assert!(faults("# top\nhigh -> low\nlow ->\n").is_empty());
    }

    #[test]
    fn a_dependency_that_is_not_listed_fails() {
        let fault = faults("high ->\nlow ->");
        assert!(
            fault.len() == 1
                && fault[0].starts_with("high/Cargo.toml:1: high must not depend on low")
        );
        assert_eq!(
            faults("high -> low"),
            ["table:1: crate low is missing; enter it with its dependencies"]
        );
    }

    #[test]
    fn a_row_without_use_fails() {
        assert_eq!(
            faults("high -> low\nlow -> high"),
            ["table:2: low does not depend on high; delete it here"]
        );
        assert_eq!(
            faults("high -> low\nlow ->\nother ->"),
            ["table:3: no crate other; delete the line"]
        );
        assert_eq!(faults("high -> low\nlow ->\nother"), ["table:3: write `CRATE -> CRATE...`"]);
    }
}
