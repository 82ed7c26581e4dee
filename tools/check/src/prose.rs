//! The language of comments and documents.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::comments::{Language, ProseLine};
use crate::list::{List, fault};
use crate::summaries;
use crate::tree::unparsed;

/// The words that are never used, as things are "it".
const REFUSED: [&str; 3] = ["he", "his", "him"];
/// The most measured words of a file, per 1,000 words; a single one says nothing.
const FILE_BOUND: f64 = 10.0;
/// The most columns of a line that has a comment.
const COLUMNS: usize = 100;

/// The prose of one file.
pub(crate) struct Prose {
    path: PathBuf,
    words: usize,
    /// The measured words, with their lines.
    hits: Vec<(usize, String)>,
    faults: Vec<String>,
}

impl Prose {
    /// Reads a file; `None` if it has no prose.
    pub(crate) fn read(path: &Path, text: &str) -> Result<Option<Self>, String> {
        let Some(language) = Language::of(path, text) else { return Ok(None) };
        let lines = language.prose(text);
        let words = lines.iter().map(|line| line.text.split_whitespace().count()).sum();
        let hits = lines
            .iter()
            .flat_map(|line| measured(&line.text).into_iter().map(|word| (line.number, word)));
        let mut prose =
            Self { path: path.to_owned(), words, hits: hits.collect(), faults: Vec::new() };
        prose.check_words();
        if language != Language::Markdown {
            prose.check_columns(text, &lines);
        }
        if language == Language::Rust {
            let file = syn::parse_file(text).map_err(|error| unparsed(path, &error))?;
            for (line, word) in summaries::headless(&file) {
                let message =
                    format!("a summary begins with \"{word}\"; begin with a verb or a noun");
                prose.faults.push(fault(path, line, message));
            }
        }
        Ok(Some(prose))
    }

    fn check_words(&mut self) {
        let Self { path, words, hits, faults } = self;
        for (line, word) in hits.iter().filter(|(_, word)| REFUSED.contains(&&**word)) {
            faults.push(fault(&path, *line, format!("\"{word}\"; write \"it\" or the noun")));
        }
        let rate = rate(hits.len(), *words);
        if hits.len() > 1 && rate > FILE_BOUND {
            let (line, word) = &hits[0];
            let message = format!(
                "{} words as \"{word}\" of {words}, {rate:.1} per 1,000, more than {FILE_BOUND}; `daiko-check prose {}` lists them",
                hits.len(),
                path.display(),
            );
            faults.push(fault(&path, *line, message));
        }
    }

    fn check_columns(&mut self, text: &str, lines: &[ProseLine]) {
        let columns: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        for ProseLine { number, text } in lines {
            let columns = columns[number - 1];
            // A single word, as an address, cannot be broken.
            if columns > COLUMNS && (text.is_empty() || text.trim().contains(' ')) {
                let message = format!("a comment of {columns} columns; break it before {COLUMNS}");
                self.faults.push(fault(&self.path, *number, message));
            }
        }
    }

    /// Lists all faults, and the lines of all measured words.
    pub(crate) fn list(&self) -> Vec<String> {
        let hits =
            self.hits.iter().map(|(line, word)| fault(&self.path, *line, format!("\"{word}\"")));
        self.faults.iter().cloned().chain(hits).collect()
    }
}

/// Returns the paths of the files that fail.
pub(crate) fn failing(files: &[Prose]) -> HashSet<&str> {
    files
        .iter()
        .filter(|file| !file.faults.is_empty())
        .filter_map(|file| file.path.to_str())
        .collect()
}

/// Compares the files with the bound on their rate, and with the list of exempt files.
///
/// Returns the faults and a summary.
pub(crate) fn check(files: &[Prose], bound: f64, exempt: &List) -> (Vec<String>, String) {
    let failing = failing(files);
    let mut faults = exempt.unneeded(|entry| failing.contains(entry));
    let listed: HashSet<&Path> = exempt.entries().map(|(_, entry)| Path::new(entry)).collect();
    for file in files.iter().filter(|file| !listed.contains(&*file.path)) {
        faults.extend(file.faults.iter().cloned());
    }
    let hits = files.iter().map(|file| file.hits.len()).sum();
    let words = files.iter().map(|file| file.words).sum();
    let rate = rate(hits, words);
    let exempt = listed.len();
    let summary = format!(
        "{rate:.2} measured words per 1,000 ({hits} of {words}), bound {bound}; {exempt} files exempt"
    );
    if rate > bound {
        faults.push(format!(
            "prose: {summary}; write nouns (`daiko-check prose FILE` lists the words)"
        ));
    }
    (faults, summary)
}

fn rate(hits: usize, words: usize) -> f64 {
    1000.0 * hits as f64 / words.max(1) as f64
}

/// Returns the measured words of a text, in lower case.
fn measured(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|sign: char| !sign.is_alphanumeric() && !"_'".contains(sign));
    let measured = words.filter_map(|word| {
        // The `'s` of a verb does not hide the pronoun; a genitive is measured as it stands.
        let word = word.trim_matches('\'');
        let stem = word.split('\'').next();
        [Some(word), stem].into_iter().flatten().find(|word| is_measured(word))
    });
    measured.map(str::to_owned).collect()
}

/// Returns true for a word of which few are allowed: a noun says more in nearly every place.
fn is_measured(word: &str) -> bool {
    matches!(
        word,
        "who"
            | "whom"
            | "whose"
            | "whoever"
            | "what"
            | "whatever"
            | "somebody"
            | "nobody"
            | "anybody"
            | "everybody"
            | "others"
            | "another's"
            | "one's"
            | "ones"
            | "he"
            | "his"
            | "him"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Prose, check, measured};
    use crate::list::List;

    fn faults(path: &str, text: &str) -> Vec<String> {
        Prose::read(Path::new(path), text).unwrap().unwrap().faults
    }

    #[test]
    fn measured_words_are_whole_words_of_any_case() {
        let found = measured("Who asks one's others, `who_waits`; what's another's?");
        assert_eq!(found, ["who", "one's", "others", "what", "another's"]);
        assert_eq!(measured("whole another one ones's hers whatnot the'").len(), 1);
    }

    #[test]
    fn pronouns_for_persons_are_refused() {
        assert_eq!(
            faults("a.rs", "\n// He waits.\n"),
            ["a.rs:2: \"he\"; write \"it\" or the noun"]
        );
        assert!(faults("a.rs", "const HE: &str = \"he\"; // It waits.\n").is_empty());
    }

    #[test]
    fn comments_end_at_column_100() {
        let fits = format!("// {} b", "a".repeat(95));
        assert!(faults("a.rs", &fits).is_empty());
        assert_eq!(
            faults("a.rs", &format!("{fits}c")),
            ["a.rs:1: a comment of 101 columns; break it before 100"]
        );
        assert!(faults("a.rs", &format!("// {}", "a".repeat(120))).is_empty());
        assert!(faults("a.md", &format!("{fits}ccc")).is_empty());
        assert!(faults("a.rs", &format!("const A: &str = \"{fits}c\";")).is_empty());
    }

    #[test]
    fn a_file_has_a_rate_that_one_word_does_not_exceed() {
        let words = |measured: &str, count| format!("// {measured}\n{}", "// word\n".repeat(count));
        assert!(faults("a.rs", &words("who", 10)).is_empty());
        assert!(faults("a.rs", &words("who what", 198)).is_empty());
        let fault = faults("a.rs", &words("who what", 197));
        assert!(
            fault.len() == 1 && fault[0].starts_with("a.rs:1: 2 words as \"who\" of 199"),
            "{fault:?}"
        );
    }

    #[test]
    fn summaries_are_checked() {
        let fault = "a.rs:1: a summary begins with \"Of\"; begin with a verb or a noun";
        assert_eq!(faults("a.rs", "/// Of it.\nfn f() {}"), [fault]);
    }

    #[test]
    fn the_list_holds_exactly_the_files_that_fail() {
        let read = |path: &str, text: &str| Prose::read(Path::new(path), text).unwrap().unwrap();
        let files = [read("bad.rs", "// He."), read("good.rs", "// It.")];
        let check = |list: &str| check(&files, 1000.0, &List::new("list", list)).0;
        assert!(check("# files\nbad.rs\n").is_empty());
        assert_eq!(check(""), files[0].faults);
        assert_eq!(
            check("bad.rs\ngood.rs"),
            ["list:2: good.rs needs no exemption; delete the line"]
        );
        assert_eq!(
            check("bad.rs\ngone.rs"),
            ["list:2: gone.rs needs no exemption; delete the line"]
        );
    }

    #[test]
    fn the_rate_of_all_files_is_bounded() {
        let files = [Prose::read(Path::new("a.md"), "who are they").unwrap().unwrap()];
        let none = &List::new("list", "");
        assert!(check(&files, 334.0, none).0.is_empty());
        assert_eq!(check(&files, 333.0, none).0.len(), 1);
    }
}
