//! The pages of the site: which documents there are, where their pages go, and in which group.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The groups of the contents, in their order, with the beginnings of the paths of their documents.
/// A document belongs to the first group with a beginning of its path.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["README.md", "CHANGELOG.md"]),
    ("Guides", &["crates/daiko/src/guide/"]),
    (
        "Use",
        &[
            "docs/run.md",
            "docs/inspect.md",
            "crates/capi/",
            "crates/pair/",
            "crates/scx/",
            "crates/lab/",
            "packaging/",
        ],
    ),
    ("Design", &["ARCHITECTURE.md", "docs/"]),
    ("Protocols", &["crates/core/src/", "crates/rt/src/", "crates/daiko/src/"]),
    ("Crates", &["crates/"]),
    ("Development", &[""]),
];

/// A page made of a document.
pub(crate) struct Page {
    /// The document, relative to the workspace.
    pub(crate) source: PathBuf,
    /// The page, relative to the site.
    pub(crate) out: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    /// A page of rustdoc: its links name items, and its first paragraph is its title.
    Guide,
    /// A file that a document links to, shown as it is.
    Source,
}

impl Page {
    pub(crate) fn new(source: PathBuf) -> Self {
        let path = source.to_string_lossy();
        let is_document = path.ends_with(".md");
        let out = match path.strip_suffix("README.md") {
            // The front page is index.html.
            Some("") => "readme.html".to_owned(),
            Some(folder) => format!("{folder}index.html"),
            None if is_document => format!("{}.html", path.trim_end_matches(".md")),
            None => format!("{path}.html"),
        };
        let kind = match () {
            () if !is_document => Kind::Source,
            () if path.starts_with("crates/daiko/src/guide/") => Kind::Guide,
            () => Kind::Document,
        };
        Page { source, out, kind }
    }

    /// The index of the page's group.
    pub(crate) fn group(&self) -> usize {
        let path = self.source.to_string_lossy();
        let is_there = |(_, beginnings): &(&str, &[&str])| {
            beginnings.iter().any(|beginning| path.starts_with(beginning))
        };
        GROUPS.iter().position(is_there).unwrap_or(GROUPS.len() - 1)
    }
}

/// The page with all documents and headings.
pub(crate) const CONTENTS: &str = "contents.html";

/// Returns the id of a group on that page.
pub(crate) fn group_id(group: usize) -> String {
    GROUPS[group].0.to_lowercase()
}

/// Lists the documents of the workspace that git tracks.
pub(crate) fn documents() -> Result<Vec<Page>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "*.md"])
        .output()
        .map_err(|error| format!("git: {error}; install git"))?;
    if !listed.status.success() {
        return Err("git lists no documents: build the site in a checkout of the repository".into());
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    let files = listed.split_terminator('\0').filter(|file| Path::new(file).exists());
    Ok(files.map(|file| Page::new(file.into())).collect())
}

/// Returns the way from one page to another one, both relative to the site.
pub(crate) fn way(from: &str, to: &str) -> String {
    let up = "../".repeat(from.matches('/').count());
    format!("{up}{to}")
}

/// Joins a link to the folder of the file that has it, without `.` and `..`.
///
/// Returns `None` if it leaves the workspace.
pub(crate) fn join(file: &Path, link: &str) -> Option<PathBuf> {
    let mut path = file.parent().unwrap_or(Path::new("")).to_owned();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if path.pop() => {}
            ".." => return None,
            name => path.push(name),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_mirror_the_folders_of_their_documents() {
        let out = |path: &str| Page::new(path.into()).out;
        assert_eq!(out("README.md"), "readme.html");
        assert_eq!(out("docs/run.md"), "docs/run.html");
        assert_eq!(out("crates/core/src/lock/README.md"), "crates/core/src/lock/index.html");
        assert_eq!(out("deny.toml"), "deny.toml.html");
    }

    #[test]
    fn a_link_is_relative_to_its_file_and_stays_in_the_workspace() {
        let file = Path::new("crates/core/README.md");
        assert_eq!(join(file, "../../docs/papers.md"), Some("docs/papers.md".into()));
        assert_eq!(join(file, "./src/"), Some("crates/core/src".into()));
        assert_eq!(join(file, "../../../etc"), None);
    }

    #[test]
    fn the_way_to_a_page_begins_at_the_folder_of_the_other() {
        assert_eq!(way("docs/run.html", "style.css"), "../style.css");
        assert_eq!(way("index.html", "docs/run.html"), "docs/run.html");
    }
}
