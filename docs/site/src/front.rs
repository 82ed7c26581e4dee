//! The front page: parts of README.md, and the recorded trace.

use crate::code::{self, Language, escape};
use crate::page::fill;

/// The files of the front page.
pub(crate) struct Parts<'p> {
    pub(crate) template: &'p str,
    /// README.md as HTML.
    pub(crate) readme: &'p str,
    pub(crate) recording: &'p str,
    pub(crate) program: &'p str,
    /// A sentence with links to the report of a run, or nothing.
    pub(crate) report: &'p str,
}

/// The ids of the sections of README.md that the front page has.
const SECTIONS: [&str; 2] = ["measurements", "when-not-to-use-it"];

/// Returns the body of the front page.
pub(crate) fn body(parts: &Parts<'_>) -> Result<String, String> {
    let readme = parts.readme.replace("href=\"#", "href=\"readme.html#");
    let top = readme.split("<h2").next().unwrap_or_default();
    let (claim, lead) = between(top, "<p><strong>", "</p>")
        .and_then(|text| text.split_once("</strong>"))
        .ok_or_else(|| missing("first sentence in bold"))?;
    let listings: Vec<&str> = paragraphs_with_listing(top);
    let (Some(example), Some(commands)) = (listings.first(), listings.last()) else {
        return Err(missing("example"));
    };
    let recording: serde_json::Value = serde_json::from_str(parts.recording)
        .map_err(|error| format!("recording.json: {error}; record it again"))?;
    let about = |name: &str| {
        let text = recording["about"][name].as_str();
        text.map(escape).ok_or_else(|| format!("recording.json: no {name}; record it again"))
    };
    // Inside of a script element only its end has a meaning.
    let data = parts.recording.trim().replace("</", "<\\/");
    let program = code::html(parts.program, Language::Rust);
    let values = [
        ("claim", claim),
        ("lead", lead.trim()),
        ("example", example),
        ("commands", commands),
        ("measurements", section(&readme, SECTIONS[0])?),
        ("limits", section(&readme, SECTIONS[1])?),
        ("report", parts.report),
        ("recording", &data),
        ("program", &program),
        ("machine", &about("machine")?),
        ("date", &about("date")?),
        ("command", &about("command")?),
    ];
    let mut page = fill(parts.template, &values);
    for id in SECTIONS {
        page = page.replace(&format!("href=\"readme.html#{id}\""), &format!("href=\"#{id}\""));
    }
    Ok(page)
}

fn missing(part: &str) -> String {
    format!("README.md has no {part} any more; change docs/site/src/front.rs with it")
}

/// Returns a section with its heading, by the heading's id.
fn section<'h>(html: &'h str, id: &str) -> Result<&'h str, String> {
    let begin = html.find(&format!("<h2 id=\"{id}\"")).ok_or_else(|| missing(id))?;
    let end = html[begin + 1..].find("<h2").map_or(html.len(), |end| begin + 1 + end);
    Ok(&html[begin..end])
}

fn between<'h>(html: &'h str, begin: &str, end: &str) -> Option<&'h str> {
    let (_, rest) = html.split_once(begin)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

/// Returns each listing with the paragraph above it.
fn paragraphs_with_listing(html: &str) -> Vec<&str> {
    let ends = html.match_indices("</pre>").map(|(at, end)| at + end.len());
    let with_paragraph = |end| html[..end].rfind("<p>").map(|begin| &html[begin..end]);
    ends.filter_map(with_paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "<p><strong>It is: this.</strong> More.</p><p>Ex</p><pre>1</pre>\
        <p>x</p><p>Try</p><pre>2</pre><h2 id=\"measurements\">M</h2>a<a href=\"#x\">x</a>\
        <h2 id=\"when-not-to-use-it\">W</h2>b<h2 id=\"z\">Z</h2>";

    fn front(readme: &str) -> Result<String, String> {
        body(&Parts {
            template: "{{claim}}|{{lead}}|{{example}}|{{commands}}|{{measurements}}|{{limits}}",
            readme,
            recording: r#"{"about": {"machine": "m", "date": "d", "command": "c"}}"#,
            program: "",
            report: "",
        })
    }

    #[test]
    fn parts_of_the_readme_are_found() {
        let expected = "It is: this.|More.|<p>Ex</p><pre>1</pre>|<p>Try</p><pre>2</pre>|\
            <h2 id=\"measurements\">M</h2>a<a href=\"readme.html#x\">x</a>|\
            <h2 id=\"when-not-to-use-it\">W</h2>b";
        assert_eq!(front(README).unwrap(), expected);
    }

    #[test]
    fn a_missing_part_is_named() {
        let error = front(&README.replace("measurements", "figures")).unwrap_err();
        assert!(error.starts_with("README.md has no measurements any more"));
    }
}
