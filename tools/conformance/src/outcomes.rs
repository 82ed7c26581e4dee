//! The outcomes of some rounds, and the file that keeps their verdicts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::verdict::{NoVerdict, Verdict};

/// One run of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The last line that the program wrote, or an empty line.
    pub(crate) last_line: String,
}

/// The outcomes of each test, one per round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcomes(BTreeMap<String, Vec<Outcome>>);

impl Outcomes {
    pub(crate) fn add(&mut self, test: &str, outcome: Outcome) {
        self.0.entry(test.to_owned()).or_default().push(outcome);
    }

    /// Returns the outcomes of a test; none if it did not run.
    pub(crate) fn of(&self, test: &str) -> &[Outcome] {
        self.0.get(test).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[Outcome])> {
        self.0.iter().map(|(test, outcomes)| (test.as_str(), outcomes.as_slice()))
    }

    /// Counts tests by their verdict. Those with several verdicts are counted as "varying".
    pub(crate) fn counts(&self) -> String {
        let mut agreed = BTreeMap::<Verdict, usize>::new();
        let mut varying = 0;
        for (_, outcomes) in self.iter() {
            match agreed_verdict(outcomes) {
                Some(verdict) => *agreed.entry(verdict).or_default() += 1,
                None => varying += 1,
            }
        }
        let mut counts: Vec<String> =
            agreed.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        if varying > 0 {
            counts.push(format!("{varying} varying"));
        }
        counts.join(", ")
    }

    /// Returns one line for each test: its name, and its verdicts.
    pub(crate) fn list(&self) -> String {
        let mut list = String::new();
        for (test, outcomes) in self.iter() {
            list += test;
            for outcome in outcomes {
                // Writing to a string does not fail.
                let _ = write!(list, " {}", outcome.verdict);
            }
            list.push('\n');
        }
        list
    }

    /// Reads the text of a file that [`Outcomes::list`] wrote.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mut outcomes = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let fault = |what: &str| {
                format!(
                    "{}:{number}: {what}; write the file anew by a run without COMMAND",
                    path.display()
                )
            };
            let mut words = line.split_whitespace();
            let test = words.next().ok_or_else(|| fault("the line is empty"))?;
            for word in words {
                let verdict = word
                    .parse()
                    .map_err(|NoVerdict| fault(&format!("{word} is none of {NoVerdict}")))?;
                outcomes.add(test, Outcome { verdict, last_line: String::new() });
            }
            if outcomes.of(test).is_empty() {
                return Err(fault(&format!("{test} has no verdict")));
            }
        }
        Ok(outcomes)
    }
}

/// Returns the verdict of all rounds, if they agree.
pub(crate) fn agreed_verdict(outcomes: &[Outcome]) -> Option<Verdict> {
    let (first, rest) = outcomes.split_first()?;
    rest.iter().all(|outcome| outcome.verdict == first.verdict).then_some(first.verdict)
}

/// Returns true if every round passed.
pub(crate) fn passes(outcomes: &[Outcome]) -> bool {
    agreed_verdict(outcomes) == Some(Verdict::Pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "a/1-1 PASS PASS\na/1-2 PASS HUNG\nb/1-1 FAIL FAIL\nc/1-1 PASS PASS\n";

    fn parse(text: &str) -> Result<Outcomes, String> {
        Outcomes::parse(Path::new("list"), text)
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        assert_eq!(parse(LIST).unwrap().list(), LIST);
    }

    #[test]
    fn tests_are_counted_by_the_verdict_of_all_rounds() {
        assert_eq!(parse(LIST).unwrap().counts(), "2 PASS, 1 FAIL, 1 varying");
    }

    #[test]
    fn a_malformed_list_is_refused_with_its_line() {
        for (text, fault) in [
            ("a/1-1 PASS\n\n", "list:2: the line is empty"),
            ("a/1-1\n", "list:1: a/1-1 has no verdict"),
            ("a/1-1 PASS\na/1-2 passed\n", "list:2: passed is none of PASS"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(fault), "{error}");
        }
    }
}
