//! Documents as HTML, with links to pages of the site.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

use crate::code::{self, Language, escape};
use crate::links::{Link, Links, attributes, id_of, line_of};
use crate::pages::{self, CONTENTS, Kind, Page, group_id, way};
use crate::reference::Reference;

/// The repository's own addresses, whose documents are pages of the site.
const REPOSITORY: &str = "https://github.com/daiko-rs/daiko/blob/main/";
const DOCS_RS: &str = "https://docs.rs/";
const GUIDES: &str = "crates/daiko/src/guide";

/// A document as HTML.
pub(crate) struct Rendered {
    /// The first heading, without tags.
    pub(crate) title: String,
    /// The same with tags.
    pub(crate) heading: String,
    /// All but the first heading.
    pub(crate) body: String,
    /// Level, id and text of the other headings.
    pub(crate) headings: Vec<(u8, String, String)>,
}

/// Turns documents into HTML, and collects their links and the files that they need.
pub(crate) struct Renderer<'a> {
    /// Pages by their sources.
    pub(crate) pages: BTreeMap<PathBuf, String>,
    pub(crate) reference: Option<&'a Reference>,
    pub(crate) links: Links,
    /// Text files that documents link to; each becomes a page.
    pub(crate) sources: Vec<PathBuf>,
    /// Figures, which are copied.
    pub(crate) figures: Vec<PathBuf>,
}

/// The document that is being rendered.
struct Document<'d> {
    page: &'d Page,
    text: &'d str,
}

impl Document<'_> {
    fn line(&self, at: usize) -> usize {
        line_of(self.text, at)
    }
}

type Events<'t> = Vec<(Event<'t>, usize)>;

impl Renderer<'_> {
    /// Renders a document. A guide has its title from the table of guides, not from a heading.
    pub(crate) fn render(&mut self, page: &Page, text: &str, title: Option<&str>) -> Rendered {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_SMART_PUNCTUATION;
        // Rustdoc takes a name in brackets for a link to an item.
        let is_guide = page.kind == Kind::Guide;
        let item = |link: BrokenLink<'_>| {
            is_guide.then(|| (CowStr::from(link.reference.replace('`', "")), CowStr::from("")))
        };
        let parser = Parser::new_with_broken_link_callback(text, options, Some(item));
        let events: Events<'_> =
            parser.into_offset_iter().map(|(event, range)| (event, range.start)).collect();
        let document = Document { page, text };
        let mut rendered = Rendered {
            title: title.unwrap_or_default().to_owned(),
            heading: escape(title.unwrap_or_default()),
            body: String::new(),
            headings: Vec::new(),
        };
        self.links.ids.entry(page.out.clone()).or_default();
        let mut events = events.into_iter().peekable();
        let mut run = Vec::new();
        while let Some((event, at)) = events.next() {
            let Event::Start(tag) = &event else {
                run.push((event, at));
                continue;
            };
            let end = tag.to_end();
            let is_block = matches!(tag, Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::Table(_));
            if !is_block {
                run.push((event, at));
                continue;
            }
            let tag = tag.clone();
            let inner: Events<'_> =
                events.by_ref().take_while(|(event, _)| *event != Event::End(end)).collect();
            self.inline(&document, std::mem::take(&mut run), &mut rendered.body);
            match tag {
                Tag::Heading { level, .. } => {
                    self.heading(&document, level, inner, &mut rendered);
                }
                Tag::CodeBlock(kind) => listing(&kind, &inner, is_guide, &mut rendered.body),
                tag => self.table(&document, tag, at, inner, &mut rendered.body),
            }
        }
        self.inline(&document, run, &mut rendered.body);
        if rendered.title.is_empty() {
            self.links.fault(&page.source, 1, "no title; begin the document with `# TITLE`");
        }
        rendered
    }

    fn heading(
        &mut self,
        document: &Document<'_>,
        level: HeadingLevel,
        inner: Events<'_>,
        rendered: &mut Rendered,
    ) {
        let is_guide = document.page.kind == Kind::Guide;
        let text = plain(&inner);
        let ids = self.links.ids.entry(document.page.out.clone()).or_default();
        let id = id_of(&text, ids);
        if level == HeadingLevel::H1 && !is_guide && rendered.title.is_empty() {
            rendered.title = text;
            self.inline(document, inner, &mut rendered.heading);
            return;
        }
        // The headings of rustdoc stand below the title of their page.
        let level = (level as u8 + u8::from(is_guide)).clamp(2, 6);
        let mut html = String::new();
        self.inline(document, inner, &mut html);
        _ = writeln!(
            rendered.body,
            "<h{level} id=\"{id}\">{html} <a class=\"here\" href=\"#{id}\" aria-label=\"Link to: {}\">#</a></h{level}>",
            escape(&text)
        );
        rendered.headings.push((level, id, text));
    }

    /// A table scrolls in itself. One of figures alone becomes figures, with its head as captions.
    fn table(
        &mut self,
        document: &Document<'_>,
        tag: Tag<'_>,
        at: usize,
        inner: Events<'_>,
        body: &mut String,
    ) {
        if let Some(figures) = figures(&inner) {
            body.push_str("<div class=\"figures\">\n");
            for (caption, image) in figures {
                body.push_str("<figure>\n<div class=\"wide\" tabindex=\"0\">");
                self.inline(document, image, body);
                _ = writeln!(
                    body,
                    "</div>\n<figcaption>{}</figcaption>\n</figure>",
                    escape(&caption)
                );
            }
            body.push_str("</div>\n");
            return;
        }
        let end = tag.to_end();
        let mut events = vec![(Event::Start(tag), at)];
        events.extend(inner);
        events.push((Event::End(end), at));
        body.push_str("<div class=\"wide\" tabindex=\"0\">\n");
        self.inline(document, events, body);
        body.push_str("</div>\n");
    }

    /// Renders events without headings and listings.
    fn inline(&mut self, document: &Document<'_>, events: Events<'_>, body: &mut String) {
        let mut out = Vec::with_capacity(events.len());
        let mut plain_links = Vec::new();
        let mut events = events.into_iter();
        while let Some((event, at)) = events.next() {
            match event {
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let target = self.target(document, document.line(at), &dest_url);
                    plain_links.push(target.is_none());
                    if let Some(target) = target {
                        let dest_url = target.into();
                        out.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                    }
                }
                Event::End(TagEnd::Link) => {
                    if plain_links.pop() == Some(false) {
                        out.push(Event::End(TagEnd::Link));
                    }
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let inner: Events<'_> = events
                        .by_ref()
                        .take_while(|(event, _)| *event != Event::End(TagEnd::Image))
                        .collect();
                    let image = self.image(document, document.line(at), &dest_url, &plain(&inner));
                    out.push(Event::InlineHtml(image.into()));
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    self.refuse_resources(document, document.line(at), &html);
                    out.push(Event::InlineHtml(html));
                }
                event => out.push(event),
            }
        }
        html::push_html(body, out.into_iter());
    }

    fn image(&mut self, document: &Document<'_>, line: usize, link: &str, text: &str) -> String {
        let source = &document.page.source;
        let file = pages::join(source, link).filter(|file| file.is_file());
        let (Some(file), false) = (file, text.is_empty()) else {
            self.links.fault(source, line, &format!("no figure {link}, or no text for it in []"));
            return String::new();
        };
        let address = way(&document.page.out, &file.to_string_lossy());
        let figure = std::fs::read_to_string(&file).unwrap_or_default();
        // A figure without colours of its own for a dark page is inverted there.
        let class = if figure.contains("prefers-color-scheme") { "" } else { " class=\"light\"" };
        let size = |name| attributes(&figure, name).first().map(|&(_, value)| value.to_owned());
        let size = match (size("width"), size("height")) {
            (Some(width), Some(height)) => format!(" width=\"{width}\" height=\"{height}\""),
            _ => String::new(),
        };
        self.figures.push(file);
        let text = escape(text);
        format!(
            "<a href=\"{address}\"><img src=\"{address}\" alt=\"{text}\"{class}{size} loading=\"lazy\"></a>"
        )
    }

    fn refuse_resources(&mut self, document: &Document<'_>, line: usize, html: &str) {
        for (at, address) in attributes(html, "src") {
            if address.contains("://") {
                let fault = format!("{address} lies elsewhere; put the file into the repository");
                self.links.fault(&document.page.source, line - 1 + line_of(html, at), &fault);
            }
        }
    }

    /// Returns the address of a link, or `None` if its text is to stand alone.
    fn target(&mut self, document: &Document<'_>, line: usize, link: &str) -> Option<String> {
        let page = document.page;
        if let Some(id) = link.strip_prefix('#') {
            self.link(document, line, page.out.clone(), Some(id));
            return Some(link.to_owned());
        }
        if let Some(path) = link.strip_prefix(REPOSITORY) {
            return self.file(document, line, Path::new(""), path);
        }
        if let (Some(path), Some(reference)) = (link.strip_prefix(DOCS_RS), self.reference) {
            let name = path.split('/').next().unwrap_or_default();
            if let Some(library) = reference.library(name) {
                return Some(way(&page.out, &library));
            }
        }
        if link.contains("://") || link.starts_with("mailto:") {
            return Some(link.to_owned());
        }
        if page.kind == Kind::Guide {
            return self.item(document, line, link);
        }
        self.file(document, line, &page.source, link)
    }

    /// A link of rustdoc: to another guide, or to an item.
    fn item(&mut self, document: &Document<'_>, line: usize, link: &str) -> Option<String> {
        if let Some(guide) = link.strip_prefix("crate::guide::") {
            let (name, fragment) = guide.split_once('#').unwrap_or((guide, ""));
            let fragment = if fragment.is_empty() { "" } else { &format!("#{fragment}") };
            return self.file(
                document,
                line,
                Path::new(""),
                &format!("{GUIDES}/{name}.md{fragment}"),
            );
        }
        let page = self.reference?.item(link)?;
        Some(way(&document.page.out, &page))
    }

    /// A link to a file or a folder of the workspace.
    fn file(
        &mut self,
        document: &Document<'_>,
        line: usize,
        from: &Path,
        link: &str,
    ) -> Option<String> {
        let (path, fragment) = match link.split_once('#') {
            Some((path, fragment)) => (path, Some(fragment)),
            None => (link, None),
        };
        let is_there = |path: &PathBuf| self.pages.contains_key(path) || path.exists();
        let Some(mut path) = pages::join(from, path).filter(is_there) else {
            let fault = format!("no file {link} in the repository; correct the link");
            self.links.fault(&document.page.source, line, &fault);
            return None;
        };
        if path.is_dir() && path.join("README.md").exists() {
            path.push("README.md");
        }
        let (page, fragment) = if let Some(page) = self.pages.get(&path) {
            (page.clone(), fragment.map(str::to_owned))
        } else if path.is_dir() {
            let inside = self.pages.keys().find(|page| page.starts_with(&path)).cloned();
            let Some(inside) = inside else {
                let fault = format!("no document in the folder {link}; link to a file");
                self.links.fault(&document.page.source, line, &fault);
                return None;
            };
            (CONTENTS.to_owned(), Some(group_id(Page::new(inside).group())))
        } else if path.extension().is_some_and(|extension| extension == "svg") {
            let page = path.to_string_lossy().into_owned();
            self.figures.push(path);
            return Some(way(&document.page.out, &page));
        } else {
            let page = Page::new(path.clone()).out;
            self.sources.push(path);
            (page, fragment.map(str::to_owned))
        };
        self.link(document, line, page.clone(), fragment.as_deref());
        let fragment = fragment.map(|id| format!("#{id}")).unwrap_or_default();
        Some(format!("{}{fragment}", way(&document.page.out, &page)))
    }

    fn link(&mut self, document: &Document<'_>, line: usize, page: String, id: Option<&str>) {
        let source = document.page.source.clone();
        self.links.links.push(Link { source, line, page, fragment: id.map(str::to_owned) });
    }
}

fn listing(kind: &CodeBlockKind<'_>, inner: &Events<'_>, is_rustdoc: bool, body: &mut String) {
    let tag = match kind {
        CodeBlockKind::Fenced(tag) => tag,
        CodeBlockKind::Indented => "text",
    };
    let language = Language::of_tag(tag, is_rustdoc);
    let text: String = inner.iter().filter_map(|(event, _)| text_of(event)).collect();
    let text = match language {
        Language::Rust => code::without_hidden_lines(&text),
        _ => text,
    };
    let text = code::html(text.trim_end(), language);
    _ = writeln!(body, "<pre tabindex=\"0\"><code>{text}</code></pre>");
}

fn text_of<'t>(event: &'t Event<'_>) -> Option<&'t str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text),
        Event::SoftBreak | Event::HardBreak => Some(" "),
        _ => None,
    }
}

fn plain(events: &Events<'_>) -> String {
    events.iter().filter_map(|(event, _)| text_of(event)).collect()
}

/// Returns the captions and images of a table that has one row, of an image in each cell.
fn figures<'t>(inner: &Events<'t>) -> Option<Vec<(String, Events<'t>)>> {
    let is = |end: TagEnd| move |(event, _): &(Event<'_>, usize)| *event == Event::End(end);
    let mut head = Vec::new();
    let mut images = Vec::new();
    let mut parts = inner.split(is(TagEnd::TableHead));
    let (first, rows) = (parts.next()?, parts.next()?);
    if rows.iter().filter(|event| is(TagEnd::TableRow)(event)).count() != 1 {
        return None;
    }
    for cell in first.split(is(TagEnd::TableCell)).filter(|cell| !cell.is_empty()) {
        head.push(plain(&cell.to_vec()));
    }
    for cell in rows.split(is(TagEnd::TableCell)) {
        let begin =
            cell.iter().position(|(event, _)| matches!(event, Event::Start(Tag::Image { .. })));
        let has_cell = cell.iter().any(|(event, _)| *event == Event::Start(Tag::TableCell));
        match begin {
            Some(begin) => images.push(cell[begin..].to_vec()),
            None if has_cell => return None,
            None => {}
        }
    }
    (head.len() == images.len() && !images.is_empty())
        .then(|| head.into_iter().zip(images).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, is_guide: bool) -> (Rendered, Vec<String>) {
        let path = if is_guide { "crates/daiko/src/guide/x.md" } else { "docs/x.md" };
        let page = Page::new(path.into());
        let pages = BTreeMap::from([(page.source.clone(), page.out.clone())]);
        let (links, sources, figures) = Default::default();
        let mut renderer = Renderer { pages, reference: None, links, sources, figures };
        let rendered = renderer.render(&page, text, is_guide.then_some("X"));
        (rendered, renderer.links.check())
    }

    #[test]
    fn a_link_without_its_target_is_a_fault_of_its_line() {
        let (_, faults) = render("# X\n\n[a](x.md#x)\n[b](#y)\n[c](gone.md)\n", false);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("docs/x.md:4: "), "{faults:?}");
        assert!(faults[1].starts_with("docs/x.md:5: "), "{faults:?}");
    }

    #[test]
    fn items_are_plain_code_without_a_reference() {
        let (rendered, faults) = render("About [`crate::run`] and [`x`](crate::guide::x).", true);
        assert_eq!(faults, [""; 0]);
        assert!(rendered.body.contains("About <code>crate::run</code> and <a href"));
    }

    #[test]
    fn a_table_scrolls_and_a_heading_has_an_id() {
        let (rendered, _) = render("# X\n\n## A b\n\n| a |\n|---|\n| 1 |\n", false);
        assert!(rendered.body.starts_with("<h2 id=\"a-b\">A b"));
        assert!(rendered.body.contains("<div class=\"wide\" tabindex=\"0\">\n<table>"));
        assert_eq!(rendered.headings, [(2, "a-b".to_owned(), "A b".to_owned())]);
    }

    #[test]
    fn resources_from_elsewhere_are_faults() {
        let (_, faults) = render("# X\n\n<img src=\"https://a/b.png\">\n", false);
        assert_eq!(faults.len(), 1);
    }
}
