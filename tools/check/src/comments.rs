//! The prose of a file: its comments, or a document's text outside code blocks.

use std::path::Path;

/// A line that has prose.
#[derive(Debug, PartialEq)]
pub(crate) struct ProseLine {
    pub(crate) number: usize,
    /// The text without the signs of a comment; empty for code in a fenced block.
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Language {
    Rust,
    C,
    /// Shell, awk, make, TOML: from `#` to the end of the line.
    Script,
    Markdown,
}

impl Language {
    /// The language of a file, by its name and first line; `None` if it has no prose to check.
    pub(crate) fn of(path: &Path, text: &str) -> Option<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        Some(match extension {
            Some("rs") => Self::Rust,
            Some("c" | "h" | "cpp" | "go") => Self::C,
            Some("md") => Self::Markdown,
            Some("sh" | "awk" | "toml") => Self::Script,
            _ if path.file_name()? == "Makefile" || text.starts_with("#!") => Self::Script,
            _ => return None,
        })
    }

    /// Lists the lines of `text` that have prose.
    pub(crate) fn prose(self, text: &str) -> Vec<ProseLine> {
        let mut lines = match self {
            Self::Rust | Self::C => comments(text, self == Self::Rust),
            Self::Script => (1..).zip(text.lines()).filter_map(script_comment).collect(),
            Self::Markdown => (1..)
                .zip(text.lines())
                .map(|(number, text)| ProseLine { number, text: text.to_owned() })
                .collect(),
        };
        if self != Self::Script {
            blank_fenced_blocks(&mut lines);
        }
        lines
    }
}

fn blank_fenced_blocks(lines: &mut [ProseLine]) {
    let (mut fenced, mut previous) = (false, 0);
    for line in lines {
        // A block ends with its comment.
        fenced &= line.number == previous + 1;
        previous = line.number;
        let fence = line.text.trim_start().starts_with("```");
        if fence || fenced {
            line.text.clear();
        }
        fenced ^= fence;
    }
}

fn script_comment((number, line): (usize, &str)) -> Option<ProseLine> {
    let mut quote = None;
    let mut before = ' ';
    for (at, sign) in line.char_indices() {
        match (sign, quote) {
            ('#', None) if before.is_whitespace() && !(number == 1 && line.starts_with("#!")) => {
                return Some(ProseLine {
                    number,
                    text: line[at..].trim_start_matches('#').to_owned(),
                });
            }
            ('"' | '\'', None) if before != '\\' => quote = Some(sign),
            (_, Some(open)) if open == sign && before != '\\' => quote = None,
            _ => {}
        }
        before = sign;
    }
    None
}

/// Lists the lines of Rust that have code.
pub(crate) fn code_lines(text: &str) -> Vec<usize> {
    let mut lines = read(text, true).code;
    lines.dedup();
    lines
}

/// Lists the lines of comments, which strings and characters do not begin.
fn comments(text: &str, is_rust: bool) -> Vec<ProseLine> {
    read(text, is_rust).found
}

fn read(text: &str, is_rust: bool) -> Reader {
    let signs: Vec<char> = text.chars().collect();
    let mut reader = Reader { signs, line: 1, ..Reader::default() };
    while let Some(sign) = reader.sign(0) {
        match (sign, reader.sign(1)) {
            ('/', Some('/')) => reader.line_comment(),
            ('/', Some('*')) => reader.block_comment(is_rust),
            ('"', _) => reader.string('"'),
            ('r', _) if is_rust && reader.raw_string() => {}
            ('\'', Some('\\')) => reader.string('\''),
            ('\'', _) if !is_rust || reader.sign(2) == Some('\'') => reader.string('\''),
            _ => reader.step(),
        }
    }
    reader
}

#[derive(Default)]
struct Reader {
    signs: Vec<char>,
    at: usize,
    line: usize,
    /// Lines with a comment.
    found: Vec<ProseLine>,
    /// The line of each sign outside comments.
    code: Vec<usize>,
}

impl Reader {
    fn sign(&self, ahead: usize) -> Option<char> {
        self.signs.get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        match self.sign(0) {
            Some('\n') => self.line += 1,
            Some(sign) if !sign.is_whitespace() => self.code.push(self.line),
            _ => {}
        }
        self.at += 1;
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.sign(0).is_some_and(|sign| sign != '\n') {
            self.at += 1;
        }
        self.note(start);
    }

    /// Passes a comment, which `nests` in Rust.
    fn block_comment(&mut self, nests: bool) {
        let (mut depth, mut start) = (0, self.at);
        while let Some(sign) = self.sign(0) {
            match (sign, self.sign(1)) {
                ('/', Some('*')) if depth == 0 || nests => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        break;
                    }
                }
                ('\n', _) => {
                    self.note(start);
                    self.step();
                    start = self.at;
                }
                _ => self.at += 1,
            }
        }
        self.note(start);
    }

    fn note(&mut self, start: usize) {
        let text: String = self.signs[start..self.at].iter().collect();
        let text = text.trim().trim_end_matches("*/").trim_start_matches(['/', '*', '!']);
        self.found.push(ProseLine { number: self.line, text: text.to_owned() });
    }

    fn string(&mut self, end: char) {
        self.step();
        while let Some(sign) = self.sign(0) {
            self.step();
            match sign {
                '\\' => self.step(),
                sign if sign == end => break,
                _ => {}
            }
        }
    }

    /// Passes `r"..."` with its signs `#`, and returns true if one begins here.
    fn raw_string(&mut self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.signs[at]);
        let in_name = |sign: char| sign.is_alphanumeric() || sign == '_';
        let hashes = self.signs[self.at + 1..].iter().take_while(|&&sign| sign == '#').count();
        if self.sign(1 + hashes) != Some('"')
            || before.is_some_and(|sign| in_name(sign) && !"bc".contains(sign))
        {
            return false;
        }
        (0..hashes + 2).for_each(|_| self.step());
        let ends = |reader: &Self| {
            reader.sign(0) == Some('"') && (1..=hashes).all(|ahead| reader.sign(ahead) == Some('#'))
        };
        while self.sign(0).is_some() && !ends(self) {
            self.step();
        }
        (0..=hashes).for_each(|_| self.step());
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Language;

    fn prose(language: Language, text: &str) -> Vec<(usize, String)> {
        let lines = language.prose(text).into_iter();
        lines
            .map(|line| (line.number, line.text.trim().to_owned()))
            .filter(|(_, text)| !text.is_empty())
            .collect()
    }

    fn one(number: usize, text: &str) -> Vec<(usize, String)> {
        vec![(number, text.to_owned())]
    }

    #[test]
    fn comments_of_rust_are_found_and_strings_are_not() {
        assert_eq!(prose(Language::Rust, "let a = 1; // one\n"), one(1, "one"));
        assert_eq!(prose(Language::Rust, "\n/// doc\nfn f() {}"), one(2, "doc"));
        assert_eq!(prose(Language::Rust, "\"// no \\\" // no\" //! yes"), one(1, "yes"));
        assert_eq!(prose(Language::Rust, "br#\"\"// no\n\"# // yes"), one(2, "yes"));
        assert_eq!(
            prose(Language::Rust, "f::<'a>('\"', '\\'', b'/') // yes \"x"),
            one(1, "yes \"x")
        );
        assert_eq!(prose(Language::Rust, "/* a /* b */ c */ d"), one(1, "a /* b */ c"));
        let lines = prose(Language::C, "/* a\n * b */ int x; // c\nchar d = '\"'; // e");
        assert_eq!(
            lines,
            [(1, "a".to_owned()), (2, "b".to_owned()), (2, "c".to_owned()), (3, "e".to_owned())]
        );
    }

    #[test]
    fn fenced_blocks_are_code() {
        assert_eq!(prose(Language::Markdown, "```sh\nwho\n```\ntext"), one(4, "text"));
        assert_eq!(prose(Language::Rust, "/// ```\n/// who\n/// ```\n/// text"), one(4, "text"));
        assert_eq!(prose(Language::Rust, "/// ```\n/// who\nfn f() {}\n/// text"), one(4, "text"));
    }

    #[test]
    fn comments_of_scripts_begin_outside_quotes_and_words() {
        assert_eq!(
            prose(Language::Script, "#!/bin/sh\necho \"# no\" $# ${#a} # yes"),
            one(2, "yes")
        );
        assert_eq!(prose(Language::Script, "## help"), one(1, "help"));
    }

    #[test]
    fn languages_follow_from_names_and_first_lines() {
        let language = |path: &str, text: &str| Language::of(Path::new(path), text);
        assert_eq!(language("a/b.rs", ""), Some(Language::Rust));
        assert_eq!(language("Makefile", ""), Some(Language::Script));
        assert_eq!(language("tools/test", "#!/bin/sh"), Some(Language::Script));
        assert_eq!(language("seeds/one", "x"), None);
    }
}
