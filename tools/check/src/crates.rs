//! Dependencies between crates.

use std::collections::HashMap;

use crate::workspace::Package;

/// Returns one line for each difference between the dependencies of `packages` and the table in
/// `text`, whose lines are `CRATE -> CRATE...`; `path` is its name.
pub(crate) fn check(packages: &[Package], path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut allowed = HashMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Some((from, to)) = text.split_once("->") else {
            faults.push(format!("{path}:{line}: write `CRATE -> CRATE...`"));
            continue;
        };
        let to: Vec<&str> = to.split_whitespace().collect();
        match packages.iter().find(|package| package.name == from.trim()) {
            None => {
                faults.push(format!("{path}:{line}: no crate {}; delete the line", from.trim()))
            }
            Some(package) => {
                for name in
                    to.iter().filter(|name| !package.dependencies.iter().any(|one| one == *name))
                {
                    faults.push(format!(
                        "{path}:{line}: {} does not depend on {name}; delete it here",
                        package.name
                    ));
                }
            }
        }
        allowed.insert(from.trim(), to);
    }
    for Package { name, folder, dependencies, .. } in packages {
        match allowed.get(name.as_str()) {
            None => faults
                .push(format!("{path}: crate {name} is missing; enter it with what it depends on")),
            Some(allowed) => {
                for other in dependencies.iter().filter(|other| !allowed.contains(&other.as_str()))
                {
                    faults.push(format!(
                        "{}/Cargo.toml: {name} must not depend on {other}; see \"Layers\" in ARCHITECTURE.md and {path}",
                        folder.display(),
                    ));
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use crate::workspace::Package;

    fn faults(table: &str) -> Vec<String> {
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            folder: name.into(),
            root: "src/lib.rs".into(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        };
        super::check(&[package("high", &["low"]), package("low", &[])], "table", table)
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
                && fault[0].starts_with("high/Cargo.toml: high must not depend on low")
        );
        assert_eq!(
            faults("high -> low"),
            ["table: crate low is missing; enter it with what it depends on"]
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
