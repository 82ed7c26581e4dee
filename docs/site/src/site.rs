//! The whole site: reads the documents, writes the pages, and checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::code::{self, Language};
use crate::front::{self, Parts};
use crate::links::{Links, attributes, line_of};
use crate::markdown::{Rendered, Renderer};
use crate::page::{Entry, Frame, fill};
use crate::pages::{self, CONTENTS, GROUPS, Kind, Page};
use crate::reference::{PLACE, Reference};

const SOURCES: &str = "docs/site";
const GUIDES: &str = "crates/daiko/src/guide/mod.rs";
/// Files that are copied as they are.
const ASSETS: [&str; 4] = ["style.css", "icon.svg", "trace.js", "find.js"];
/// The place of the report of the lab.
const REPORT: &str = "report/index.html";

/// Builds the site in `out`, which has the pages of rustdoc already if `reference` is given.
pub(crate) fn build(
    out: &Path,
    reference: Option<&Path>,
    results: Option<&Path>,
) -> Result<(), String> {
    let reference = reference.map(Reference::new).transpose()?;
    let documents = pages::documents()?;
    let guides = guides()?;
    let mut renderer = Renderer {
        pages: documents.iter().map(|page| (page.source.clone(), page.out.clone())).collect(),
        reference: reference.as_ref(),
        links: Links::default(),
        sources: Vec::new(),
        figures: Vec::new(),
    };
    let mut rendered = BTreeMap::new();
    for page in &documents {
        let text = read(&page.source)?;
        let name = page.source.file_stem().unwrap_or_default().to_string_lossy();
        let title = guides.iter().find(|(file, _)| *file == name).map(|(_, title)| title.as_str());
        let title = title.filter(|_| page.kind == Kind::Guide);
        rendered.insert(page.out.clone(), renderer.render(page, &text, title));
    }
    let Renderer { mut links, sources, figures, .. } = renderer;
    let frame = Frame {
        entries: entries(&documents, &rendered, &guides),
        template: read(format!("{SOURCES}/page.html"))?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    for (page, Rendered { title, heading, body, .. }) in &rendered {
        let body = format!("<h1>{heading}</h1>\n{body}");
        write(&out.join(page), &frame.page(page, title, &body))?;
    }
    for source in sources.iter().collect::<BTreeSet<_>>() {
        let page = Page::new(source.clone()).out;
        links.ids.entry(page.clone()).or_default();
        let name = source.to_string_lossy();
        let text = code::html(&read(source)?, Language::of_file(&name));
        let body =
            format!("<h1><code>{name}</code></h1>\n<pre tabindex=\"0\"><code>{text}</code></pre>");
        write(&out.join(&page), &frame.page(&page, &name, &body))?;
    }
    for figure in figures.iter().collect::<BTreeSet<_>>() {
        copy(figure, &out.join(figure))?;
    }
    for asset in ASSETS {
        copy(&Path::new(SOURCES).join(asset), &out.join(asset))?;
    }
    let report = report(out, results)?;
    let readme = &rendered["readme.html"].body;
    let front = front::body(&Parts {
        template: &read(format!("{SOURCES}/front.html"))?,
        readme,
        recording: &read(format!("{SOURCES}/recording.json"))?,
        program: &read(format!("{SOURCES}/examples/stages.rs"))?,
        report: &report,
    })?;
    write(
        &out.join("index.html"),
        &frame.page("index.html", "Daiko, a thread system for Linux", &front),
    )?;
    write(
        &out.join("reference.html"),
        &frame.page("reference.html", "Reference", &crates(reference.as_ref())),
    )?;
    let contents = fill(&read(format!("{SOURCES}/contents.html"))?, &[("all", &frame.all())]);
    write(&out.join(CONTENTS), &frame.page(CONTENTS, "All headings", &contents))?;
    links.ids.insert(
        CONTENTS.to_owned(),
        GROUPS.iter().enumerate().map(|(n, _)| pages::group_id(n)).collect(),
    );

    let mut faults = links.check();
    faults.extend(check(out)?);
    if faults.is_empty() {
        println!("{}/index.html: {} documents", out.display(), documents.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// Reads the files and titles of the guides, from the table in the head of their module.
fn guides() -> Result<Vec<(String, String)>, String> {
    let text = read(GUIDES)?;
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | ["));
    let row = |line: &str| {
        let (title, rest) = line.split_once("](")?;
        Some((rest.split_once(')')?.0.to_owned(), title.replace('`', "")))
    };
    let guides: Vec<_> = rows.filter_map(row).collect();
    if guides.is_empty() {
        return Err(format!("{GUIDES} has no table `//! | [TITLE](FILE) |` of guides any more"));
    }
    Ok(guides)
}

/// Lists the documents by group; inside it by the order of the group's paths, then by title.
fn entries(
    documents: &[Page],
    rendered: &BTreeMap<String, Rendered>,
    guides: &[(String, String)],
) -> Vec<Entry> {
    let mut entries: Vec<_> = documents
        .iter()
        .map(|page| {
            let Rendered { title, headings, .. } = &rendered[&page.out];
            let path = page.source.to_string_lossy();
            let (group, title) = (page.group(), title.clone());
            let rank = GROUPS[group].1.iter().position(|begin| path.starts_with(begin));
            let guide = guides.iter().position(|(_, guide)| *guide == title);
            let name = title.trim_start_matches("The ").to_lowercase();
            let entry = Entry { title, out: page.out.clone(), group, headings: headings.clone() };
            ((group, rank, guide, name), entry)
        })
        .collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Copies the report of a run of the lab, and returns a sentence about it.
fn report(out: &Path, results: Option<&Path>) -> Result<String, String> {
    let Some(results) = results else { return Ok(String::new()) };
    let report = results.join("report.html");
    if !report.exists() {
        return Err(format!(
            "{} is missing: name a folder of daiko lab run --out FOLDER in RESULTS",
            report.display()
        ));
    }
    copy(&report, &out.join(REPORT))?;
    Ok(format!("<p>All figures of a full run: <a href=\"{REPORT}\">the report of the lab</a>.</p>"))
}

/// The page about the reference, which lists its crates if it is there.
fn crates(reference: Option<&Reference>) -> String {
    let mut html = "<h1>Reference</h1>\n".to_owned();
    let Some(reference) = reference else {
        html += "<p>This copy of the site is without the reference. In a checkout, <code>make docs</code> \
                 builds it, and <code>make site</code> then takes it up.</p>";
        return html;
    };
    html += "<p>The programming interface is that of the crate <code>daiko</code>. The other crates are parts of it.</p>\n<ul>\n";
    let mut names = vec!["daiko".to_owned()];
    names.extend(reference.crates().into_iter().filter(|name| name != "daiko"));
    for name in names {
        _ = writeln!(
            html,
            "<li><a href=\"{PLACE}/{name}/index.html\"><code>{name}</code></a></li>"
        );
    }
    html + "</ul>"
}

/// Checks the written pages: each address lies in the site and exists, with its heading.
fn check(out: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let files = written(out)?;
    let ids_of = |path: &str| -> Option<BTreeSet<String>> {
        let html = fs::read_to_string(out.join(path)).ok()?;
        Some(attributes(&html, "id").into_iter().map(|(_, id)| id.to_owned()).collect())
    };
    let mut known: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
    for file in &files {
        let html = read(out.join(file))?;
        let resources = attributes(&html, "src").into_iter().map(|found| (found, true));
        let links = attributes(&html, "href").into_iter().map(|found| (found, false));
        for ((at, address), is_resource) in resources.chain(links) {
            let place = || format!("{}:{}", out.join(file).display(), line_of(&html, at));
            if address.contains("://") || address.starts_with("mailto:") {
                if is_resource {
                    faults.push(format!("{}: loads {address}, which lies elsewhere", place()));
                }
                continue;
            }
            let (path, id) = address.split_once('#').unwrap_or((address, ""));
            let target = if path.is_empty() {
                Some(file.into())
            } else {
                pages::join(Path::new(file), path)
            };
            let Some(target) = target.filter(|target| out.join(target).is_file()) else {
                faults.push(format!("{}: {address} is not in the site", place()));
                continue;
            };
            let target = target.to_string_lossy().into_owned();
            let ids = known.entry(target.clone()).or_insert_with(|| ids_of(&target));
            if !id.is_empty() && !ids.as_ref().is_some_and(|ids| ids.contains(id)) {
                faults.push(format!("{}: {target} has no #{id}", place()));
            }
        }
    }
    let style = read(out.join("style.css"))?;
    if style.contains("@import") || style.contains("url(") {
        faults.push(format!("{SOURCES}/style.css: loads other files; put their text into it"));
    }
    Ok(faults)
}

/// Lists the pages of the site, without those of rustdoc and of the lab.
pub(crate) fn written(out: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    let mut folders = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("{}: {error}; build it by make site", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            let path = entry.path();
            let name = path.strip_prefix(out).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                if name != PLACE && name != "report" {
                    folders.push(path);
                }
            } else if name.ends_with(".html") {
                files.push(name);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(Path::new(""));
    let copied = fs::create_dir_all(parent).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("{}: {error}", from.display()))
}
