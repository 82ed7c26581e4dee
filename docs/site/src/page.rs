//! The frame of all pages.

use std::fmt::Write;

use crate::code::escape;
use crate::pages::{CONTENTS, GROUPS, group_id, way};

/// An entry of the contents.
pub(crate) struct Entry {
    pub(crate) title: String,
    pub(crate) out: String,
    pub(crate) group: usize,
    pub(crate) headings: Vec<(u8, String, String)>,
}

/// The contents of the site, which stand beside each page.
pub(crate) struct Frame {
    pub(crate) entries: Vec<Entry>,
    pub(crate) template: String,
    pub(crate) version: String,
}

impl Frame {
    /// Returns a whole page. A page without a group has no contents beside it.
    pub(crate) fn page(&self, out: &str, title: &str, body: &str) -> String {
        let entry = self.entries.iter().find(|entry| entry.out == out);
        let contents = self.contents(out, entry);
        let class = if entry.is_some() { "document" } else { "single" };
        let title =
            if out == "index.html" { title.to_owned() } else { format!("{title} – Daiko") };
        let values = [
            ("class", class),
            ("title", &escape(&title)),
            ("root", &way(out, "")),
            ("contents", &contents),
            ("body", body),
            ("version", &self.version),
        ];
        fill(&self.template, &values)
    }

    fn contents(&self, out: &str, current: Option<&Entry>) -> String {
        let mut html = String::new();
        for (group, (name, _)) in GROUPS.iter().enumerate() {
            let is_open = current.is_some_and(|entry| entry.group == group);
            let open = if is_open { " open" } else { "" };
            _ = writeln!(html, "<details{open}><summary>{name}</summary>\n<ul>");
            for entry in self.entries.iter().filter(|entry| entry.group == group) {
                let is_current = entry.out == out;
                let mark = if is_current { " aria-current=\"page\"" } else { "" };
                let (address, title) = (way(out, &entry.out), escape(&entry.title));
                _ = write!(html, "<li><a href=\"{address}\"{mark}>{title}</a>");
                if is_current {
                    html.push_str(&list(&entry.headings, "", 2));
                }
                html.push_str("</li>\n");
            }
            html.push_str("</ul></details>\n");
        }
        _ = writeln!(html, "<p><a href=\"{}\">All headings</a></p>", way(out, CONTENTS));
        html
    }

    /// Returns the list of all documents with their headings.
    pub(crate) fn all(&self) -> String {
        let mut html = String::new();
        for (group, (name, _)) in GROUPS.iter().enumerate() {
            let id = group_id(group);
            _ = writeln!(html, "<section><h2 id=\"{id}\">{name}</h2>\n<ul>");
            for entry in self.entries.iter().filter(|entry| entry.group == group) {
                let (address, title) = (&entry.out, escape(&entry.title));
                let headings = list(&entry.headings, address, 3);
                _ = writeln!(html, "<li><a href=\"{address}\">{title}</a>{headings}</li>");
            }
            html.push_str("</ul></section>\n");
        }
        html
    }
}

fn list(headings: &[(u8, String, String)], page: &str, deepest: u8) -> String {
    let mut html = String::new();
    for (_, id, text) in headings.iter().filter(|(level, ..)| *level <= deepest) {
        _ = write!(html, "<li><a href=\"{page}#{id}\">{}</a></li>", escape(text));
    }
    if html.is_empty() { html } else { format!("<ul>{html}</ul>") }
}

/// Puts values into the places `{{name}}` of a template.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        match values.iter().find(|(key, _)| *key == name) {
            Some((_, value)) => out.push_str(value),
            None => _ = write!(out, "{{{{{name}}}}}"),
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn values_are_not_searched_for_places() {
        assert_eq!(fill("a {{x}} {{y}} b", &[("x", "{{y}}"), ("y", "1")]), "a {{y}} 1 b");
    }
}
