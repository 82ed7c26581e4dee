//! Links between pages, which are checked once all pages are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A link of a document to a page of the site.
pub(crate) struct Link {
    pub(crate) source: PathBuf,
    pub(crate) line: usize,
    /// The page, relative to the site.
    pub(crate) page: String,
    pub(crate) fragment: Option<String>,
}

/// The ids of each page, and all links.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) ids: BTreeMap<String, BTreeSet<String>>,
    pub(crate) links: Vec<Link>,
    pub(crate) faults: Vec<String>,
}

impl Links {
    pub(crate) fn fault(&mut self, source: &Path, line: usize, fault: &str) {
        self.faults.push(format!("{}:{line}: {fault}", source.display()));
    }

    /// Returns the faults: those found before, and links without a target.
    pub(crate) fn check(self) -> Vec<String> {
        let Links { ids, links, mut faults } = self;
        for Link { source, line, page, fragment } in links {
            let place = format!("{}:{line}", source.display());
            match (ids.get(&page), fragment) {
                (None, _) => faults.push(format!("{place}: no page {page}; correct the link")),
                (Some(ids), Some(id)) if !ids.contains(&id) => {
                    faults.push(format!("{place}: {page} has no heading #{id}; correct the link"));
                }
                _ => {}
            }
        }
        faults.sort();
        faults
    }
}

/// Returns the id of a heading, as GitHub and rustdoc give it.
pub(crate) fn id_of(heading: &str, taken: &mut BTreeSet<String>) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let slug: String = heading.to_lowercase().chars().filter(is_kept).collect();
    let slug = slug.replace(' ', "-");
    let numbered = (0..).map(|n| if n == 0 { slug.clone() } else { format!("{slug}-{n}") });
    let id = numbered.into_iter().find(|id| !taken.contains(id)).unwrap_or_default();
    taken.insert(id.clone());
    id
}

/// Finds the values of an attribute in HTML, with their offsets.
pub(crate) fn attributes<'h>(html: &'h str, name: &str) -> Vec<(usize, &'h str)> {
    let begin = format!(" {name}=\"");
    let found = html.match_indices(&begin).filter_map(|(at, _)| {
        let value = &html[at + begin.len()..];
        let end = value.find('"')?;
        Some((at, &value[..end]))
    });
    found.collect()
}

/// Returns the line of an offset, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_headings_have_different_ids() {
        let mut taken = BTreeSet::new();
        assert_eq!(id_of("When not to use `it`", &mut taken), "when-not-to-use-it");
        assert_eq!(id_of("When not to use it", &mut taken), "when-not-to-use-it-1");
    }

    #[test]
    fn a_link_without_its_page_or_heading_is_a_fault_with_its_line() {
        let mut links = Links::default();
        links.ids.insert("a.html".into(), BTreeSet::from(["there".to_owned()]));
        for (line, page, fragment) in
            [(1, "a.html", Some("there")), (2, "a.html", Some("gone")), (3, "b.html", None)]
        {
            let fragment = fragment.map(str::to_owned);
            links.links.push(Link { source: "x.md".into(), line, page: page.into(), fragment });
        }
        let faults = links.check();
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("x.md:2: a.html has no heading #gone"));
        assert!(faults[1].starts_with("x.md:3: no page b.html"));
    }

    #[test]
    fn attributes_are_found_with_their_lines() {
        let html = "<p>\n<a href=\"one\">\n<img src=\"two\"> <a class=\"x\" href=\"three\">";
        let found =
            attributes(html, "href").into_iter().map(|(at, value)| (line_of(html, at), value));
        assert_eq!(found.collect::<Vec<_>>(), [(2, "one"), (3, "three")]);
    }
}
