//! Files of one entry a line, with comments, and faults that name a line.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Formats a fault; the message ends with the remedy.
pub(crate) fn fault(path: impl AsRef<Path>, line: usize, message: impl Display) -> String {
    format!("{}:{line}: {message}", path.as_ref().display())
}

/// A file of entries: empty lines and lines that begin with `#` are none.
pub(crate) struct List {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    text: String,
}

impl List {
    pub(crate) fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Returns the entries with their lines.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines().map(str::trim)).filter(|(_, entry)| is_entry(entry))
    }

    pub(crate) fn contains(&self, entry: &str) -> bool {
        self.entries().any(|(_, other)| other == entry)
    }

    /// Returns a fault for each entry that is not needed, so that exemptions only shrink.
    pub(crate) fn unneeded(&self, is_needed: impl Fn(&str) -> bool) -> Vec<String> {
        let unneeded = self.entries().filter(|(_, entry)| !is_needed(entry));
        unneeded
            .map(|(line, entry)| {
                self.fault(line, format!("{entry} needs no exemption; delete the line"))
            })
            .collect()
    }

    /// Returns the text without the entries that are not needed.
    pub(crate) fn shrunk(&self, is_needed: impl Fn(&str) -> bool) -> String {
        let kept = self.text.lines().filter(|line| !is_entry(line) || is_needed(line));
        kept.map(|line| line.to_owned() + "\n").collect()
    }

    pub(crate) fn fault(&self, line: usize, message: impl Display) -> String {
        fault(&self.path, line, message)
    }
}

fn is_entry(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::List;

    fn list() -> List {
        List::new("list", "# comment\na\n\nb\n")
    }

    #[test]
    fn an_exemption_that_is_not_needed_fails() {
        assert_eq!(
            list().unneeded(|entry| entry == "b"),
            ["list:2: a needs no exemption; delete the line"]
        );
        assert!(list().unneeded(|_| true).is_empty());
    }

    #[test]
    fn a_shrunk_list_keeps_comments_and_needed_entries() {
        assert_eq!(list().shrunk(|entry| entry == "b"), "# comment\n\nb\n");
    }
}
