//! Marks comments, strings and keywords in listings.

use std::fmt::Write;

const KEYWORDS: [&str; 36] = [
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "false", "type", "unsafe",
    "use", "while",
];

/// The language of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    C,
    Shell,
    Text,
}

impl Language {
    /// Returns the language of a fenced block, whose tag is empty for Rust in pages of rustdoc.
    pub(crate) fn of_tag(tag: &str, is_rustdoc: bool) -> Self {
        let first = tag.split(',').next().unwrap_or_default().trim();
        match first {
            "rust" => Language::Rust,
            "" | "no_run" | "ignore" | "should_panic" | "compile_fail" if is_rustdoc => {
                Language::Rust
            }
            "c" => Language::C,
            "sh" => Language::Shell,
            _ => Language::Text,
        }
    }

    /// Returns the language of a file.
    pub(crate) fn of_file(name: &str) -> Self {
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "rs" => Language::Rust,
            "c" | "h" => Language::C,
            "sh" | "toml" => Language::Shell,
            _ => Language::Text,
        }
    }

    fn comment(self) -> Option<&'static str> {
        match self {
            Language::Rust | Language::C => Some("//"),
            Language::Shell => Some("#"),
            Language::Text => None,
        }
    }
}

/// Removes the lines that rustdoc hides.
pub(crate) fn without_hidden_lines(code: &str) -> String {
    let is_shown = |line: &&str| {
        let line = line.trim_start();
        line != "#" && !line.starts_with("# ")
    };
    code.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect()
}

/// Returns a listing as HTML.
pub(crate) fn html(code: &str, language: Language) -> String {
    let mut out = String::new();
    let mut rest = code;
    let mut is_word_before = false;
    while let Some(first) = rest.chars().next() {
        let (class, length) = token(rest, language, is_word_before);
        let text = &rest[..length];
        is_word_before = first.is_alphanumeric() || first == '_';
        match class {
            Some(class) => _ = write!(out, "<span class={class}>{}</span>", escape(text)),
            None => out.push_str(&escape(text)),
        }
        rest = &rest[length..];
    }
    out
}

/// Returns the class and the length of the token that `rest` begins with.
fn token(rest: &str, language: Language, is_word_before: bool) -> (Option<&'static str>, usize) {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let line = rest.find('\n').unwrap_or(rest.len());
    if !is_word_before && language.comment().is_some_and(|mark| rest.starts_with(mark)) {
        return (Some("c"), line);
    }
    if matches!(language, Language::Rust | Language::C) {
        if rest.starts_with("/*") {
            return (Some("c"), rest.find("*/").map_or(rest.len(), |end| end + 2));
        }
        if rest.starts_with('"') {
            return (Some("s"), string(rest));
        }
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        if word > 0 {
            let is_keyword = language == Language::Rust && KEYWORDS.contains(&&rest[..word]);
            return (is_keyword.then_some("k"), word);
        }
    }
    (None, first)
}

/// Returns the length of the string literal that `rest` begins with.
fn string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    rest.len()
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_strings_and_comments_are_no_keywords() {
        let code = "let x = \"let \\\" y\"; // let\nletter";
        let expected = "<span class=k>let</span> x = <span class=s>&quot;let \\&quot; \
                        y&quot;</span>; <span class=c>// let</span>\nletter";
        assert_eq!(html(code, Language::Rust), expected);
    }

    #[test]
    fn a_mark_of_comments_inside_a_word_is_none() {
        assert_eq!(html("a#b # c", Language::Shell), "a#b <span class=c># c</span>");
    }

    #[test]
    fn hidden_lines_are_left_out_and_attributes_stay() {
        assert_eq!(
            without_hidden_lines("# use x;\n#\n#[test]\nfn f() {}\n"),
            "#[test]\nfn f() {}\n"
        );
    }
}
