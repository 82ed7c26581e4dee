//! The file of expected differences.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::verdict::{Family, NoVerdict, Verdict};

/// A configuration of the command: the number of its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workers(pub(crate) u16);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 worker"),
            number => write!(f, "{number} workers"),
        }
    }
}

/// A difference that is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) test: String,
    /// The configuration, or `None` for all of them.
    workers: Option<Workers>,
    pub(crate) verdict: Verdict,
    /// Some runs may have another verdict, and so may all.
    pub(crate) is_intermittent: bool,
    pub(crate) reason: String,
}

impl Row {
    fn parse(line: usize, entry: &str) -> Result<Self, String> {
        let mut words = entry.split_whitespace();
        let mut word = |name: &str| words.next().ok_or(format!("the {name} is missing"));
        let test = word("test")?.to_owned();
        if Family::of(&test).is_none() {
            return Err(format!(
                "{test} is neither {} nor {}",
                Family::OpenPosix.pattern(),
                Family::Glibc.pattern()
            ));
        }
        let workers = match word("configuration")? {
            "*" => None,
            number => match number.parse() {
                Ok(number) if number > 0 => Some(Workers(number)),
                _ => return Err(format!("{number} is neither a number of workers nor *")),
            },
        };
        let text = word("verdict")?;
        let (verdict, is_intermittent) = match text.strip_suffix('?') {
            Some(verdict) => (verdict, true),
            None => (text, false),
        };
        let verdict = verdict
            .parse()
            .map_err(|NoVerdict| format!("{text} is none of {NoVerdict}, with or without a ?"))?;
        if verdict == Verdict::Pass {
            return Err("PASS is no difference".to_owned());
        }
        let reason = words.collect::<Vec<_>>().join(" ");
        if reason.is_empty() {
            return Err("the reason is missing".to_owned());
        }
        Ok(Self { line, test, workers, verdict, is_intermittent, reason })
    }

    /// Returns true if the row is about this configuration.
    pub(crate) fn covers(&self, workers: Workers) -> bool {
        self.workers.is_none_or(|own| own == workers)
    }

    fn repeats(&self, other: &Self) -> bool {
        let overlap =
            self.workers.is_none() || other.workers.is_none() || self.workers == other.workers;
        overlap && self.test == other.test && self.verdict == other.verdict
    }
}

/// All rows of the file.
#[derive(Debug)]
pub(crate) struct Expected {
    path: PathBuf,
    pub(crate) rows: Vec<Row>,
}

impl Expected {
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mut expected = Self { path: path.to_owned(), rows: Vec::<Row>::new() };
        for (number, entry) in (1..).zip(text.lines().map(str::trim)) {
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            let row = Row::parse(number, entry).map_err(|fault| {
                let fault = format!("{fault}; write TEST CONFIGURATION VERDICT REASON");
                expected.at(number, &fault)
            })?;
            if let Some(earlier) = expected.rows.iter().find(|earlier| earlier.repeats(&row)) {
                let fault = format!("line {} says the same; delete one of them", earlier.line);
                return Err(expected.at(number, &fault));
            }
            expected.rows.push(row);
        }
        Ok(expected)
    }

    /// Returns the row for a verdict, if it is expected.
    pub(crate) fn row(&self, test: &str, workers: Workers, verdict: Verdict) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.test == test && row.covers(workers) && row.verdict == verdict)
    }

    /// Returns a message about a line of the file.
    pub(crate) fn at(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expected, String> {
        Expected::parse(Path::new("expected"), text)
    }

    #[test]
    fn a_row_names_test_configuration_verdict_and_reason() {
        let text = "# comment\n\n pthread_once/3-1 * HUNG asynchronous  cancel\nnptl/tst-a 2 SIGNALED-11? races\n";
        let expected = parse(text).unwrap();
        let [first, second] = &expected.rows[..] else { panic!("{expected:?}") };
        assert_eq!((first.line, first.test.as_str()), (3, "pthread_once/3-1"));
        assert!(first.covers(Workers(1)) && first.covers(Workers(2)));
        assert_eq!((first.verdict, first.is_intermittent), (Verdict::Hung, false));
        assert_eq!(first.reason, "asynchronous cancel");
        assert!(!second.covers(Workers(1)) && second.covers(Workers(2)));
        assert_eq!((second.verdict, second.is_intermittent), (Verdict::Signaled(11), true));
    }

    #[test]
    fn a_row_is_found_by_all_of_its_key() {
        let expected = parse("a/1-1 2 HUNG why\n").unwrap();
        let found =
            |test, workers, verdict| expected.row(test, Workers(workers), verdict).is_some();
        assert!(found("a/1-1", 2, Verdict::Hung));
        assert!(!found("a/1-2", 2, Verdict::Hung));
        assert!(!found("a/1-1", 1, Verdict::Hung));
        assert!(!found("a/1-1", 2, Verdict::Fail));
    }

    #[test]
    fn a_malformed_row_is_refused_with_its_line() {
        for (row, fault) in [
            ("a/1-1", "the configuration is missing"),
            ("a/1-1 *", "the verdict is missing"),
            ("a/1-1 * FAIL", "the reason is missing"),
            ("1-1 * FAIL why", "1-1 is neither INTERFACE/N-M"),
            ("a/1-1 0 FAIL why", "0 is neither a number of workers nor *"),
            ("a/1-1 two FAIL why", "two is neither a number of workers nor *"),
            ("a/1-1 * FAILED why", "FAILED is none of PASS, FAIL"),
            ("a/1-1 * FAIL?? why", "FAIL?? is none of PASS, FAIL"),
            ("a/1-1 * PASS why", "PASS is no difference"),
        ] {
            let error = parse(&format!("# comment\n{row}\n")).unwrap_err();
            assert!(error.starts_with(&format!("expected:2: {fault}")), "{error}");
            assert!(error.ends_with("; write TEST CONFIGURATION VERDICT REASON"), "{error}");
        }
    }

    #[test]
    fn a_row_that_repeats_another_is_refused() {
        for repeated in ["a/1-1 * FAIL b", "a/1-1 1 FAIL b", "a/1-1 1 FAIL? b"] {
            let error = parse(&format!("a/1-1 1 FAIL a\n{repeated}\n")).unwrap_err();
            assert_eq!(error, "expected:2: line 1 says the same; delete one of them");
        }
        assert_eq!(
            parse("a/1-1 1 FAIL a\na/1-1 2 FAIL a\na/1-1 1 HUNG a\n").unwrap().rows.len(),
            3
        );
    }
}
