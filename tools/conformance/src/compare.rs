//! The comparison of the runs under a command with those without it.

use std::collections::BTreeMap;
use std::fmt;

use crate::expected::{Expected, Row, Workers};
use crate::outcomes::{Outcome, Outcomes, passes};
use crate::verdict::Verdict;

/// A verdict under the command of a test that passes natively.
#[derive(Debug)]
pub(crate) struct Difference<'a> {
    test: &'a str,
    workers: Workers,
    verdict: Verdict,
    /// The number of rounds with this verdict.
    times: usize,
    rounds: usize,
    last_line: &'a str,
    row: Option<&'a Row>,
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.row.is_some() { "expected" } else { "unexpected" };
        let Self { test, workers, verdict, times, rounds, .. } = self;
        write!(f, "{kind}: {test}, {workers}: {verdict} in {times} of {rounds} rounds")?;
        match self.row {
            Some(row) => write!(f, " ({})", row.reason),
            None if self.last_line.is_empty() => Ok(()),
            None => write!(f, "; the last line is: {}", self.last_line),
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) differences: Vec<Difference<'a>>,
    /// A message for each row that does not apply any more.
    pub(crate) stale: Vec<String>,
    /// A message for each test that passes natively in some rounds only. It is not compared.
    pub(crate) varying: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Compares the outcomes under the command, by configuration, with the native outcomes. Rows of
    /// tests that are out of `scope` are not looked at.
    pub(crate) fn new(
        native: &'a Outcomes,
        under: &'a [(Workers, Outcomes)],
        expected: &'a Expected,
        scope: impl Fn(&str) -> bool,
    ) -> Self {
        let mut comparison = Self::default();
        for (test, outcomes) in native.iter() {
            if passes(outcomes) {
                let differences = under
                    .iter()
                    .flat_map(|(workers, under)| differences(test, *workers, under, expected));
                comparison.differences.extend(differences);
            } else if varies(outcomes) {
                let verdicts: Vec<_> =
                    outcomes.iter().map(|outcome| outcome.verdict.to_string()).collect();
                let verdicts = verdicts.join(", ");
                comparison.varying.push(format!("not compared: {test} is {verdicts} natively"));
            }
        }
        for row in expected.rows.iter().filter(|row| scope(&row.test)) {
            if let Some(fault) = stale(row, native, under) {
                comparison.stale.push(format!("stale: {}", expected.at(row.line, &fault)));
            }
        }
        comparison
    }

    pub(crate) fn unexpected(&self) -> usize {
        self.differences.iter().filter(|difference| difference.row.is_none()).count()
    }
}

/// Returns one difference for each verdict other than PASS.
fn differences<'a>(
    test: &'a str,
    workers: Workers,
    under: &'a Outcomes,
    expected: &'a Expected,
) -> impl Iterator<Item = Difference<'a>> {
    let outcomes = under.of(test);
    let mut by_verdict = BTreeMap::<Verdict, Vec<&Outcome>>::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Pass) {
        by_verdict.entry(outcome.verdict).or_default().push(outcome);
    }
    by_verdict.into_iter().map(move |(verdict, same)| Difference {
        test,
        workers,
        verdict,
        times: same.len(),
        rounds: outcomes.len(),
        last_line: &same[0].last_line,
        row: expected.row(test, workers, verdict),
    })
}

/// Returns true if a test passes in some rounds, but not in all.
fn varies(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.verdict == Verdict::Pass) && !passes(outcomes)
}

/// Returns the reason why a row does not apply any more, with the remedy.
fn stale(row: &Row, native: &Outcomes, under: &[(Workers, Outcomes)]) -> Option<String> {
    let test = &row.test;
    let outcomes = native.of(test);
    if outcomes.is_empty() {
        return Some(format!("the suite has no test {test}; delete the row"));
    }
    if varies(outcomes) {
        return None;
    }
    if !passes(outcomes) {
        let verdict = outcomes[0].verdict;
        return Some(format!("{test} is {verdict} natively; delete the row"));
    }
    if row.is_intermittent {
        return None;
    }
    let without = under.iter().find(|(workers, under)| {
        row.covers(*workers) && !under.of(test).iter().any(|outcome| outcome.verdict == row.verdict)
    });
    let (workers, _) = without?;
    let verdict = row.verdict;
    Some(format!("{test} is not {verdict} with {workers}; delete the row or limit it"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn outcomes(list: &str) -> Outcomes {
        Outcomes::parse(Path::new("list"), list).unwrap()
    }

    /// Returns the lines of a comparison with a second configuration in which all is as in `under`,
    /// unless `other` is given.
    fn lines(native: &str, under: [&str; 2], rows: &str) -> Vec<String> {
        let native = outcomes(native);
        let under = [(Workers(1), outcomes(under[0])), (Workers(2), outcomes(under[1]))];
        let expected = Expected::parse(Path::new("expected"), rows).unwrap();
        let comparison = Comparison::new(&native, &under, &expected, |test| test.starts_with('a'));
        let differences = comparison.differences.iter().map(Difference::to_string);
        differences.chain(comparison.stale).chain(comparison.varying).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn tests_that_pass_everywhere_make_no_line() {
        assert_eq!(lines("a/1-1 PASS", ["a/1-1 PASS PASS"; 2], ""), NONE);
    }

    #[test]
    fn a_verdict_without_a_row_is_unexpected_in_its_configuration() {
        assert_eq!(
            lines("a/1-1 PASS", ["a/1-1 PASS FAIL HUNG FAIL", "a/1-1 PASS"], ""),
            [
                "unexpected: a/1-1, 1 worker: FAIL in 2 of 4 rounds",
                "unexpected: a/1-1, 1 worker: HUNG in 1 of 4 rounds",
            ]
        );
    }

    #[test]
    fn a_verdict_with_a_row_is_expected() {
        let under = ["a/1-1 FAIL PASS", "a/1-1 FAIL FAIL"];
        assert_eq!(
            lines("a/1-1 PASS", under, "a/1-1 * FAIL why not"),
            [
                "expected: a/1-1, 1 worker: FAIL in 1 of 2 rounds (why not)",
                "expected: a/1-1, 2 workers: FAIL in 2 of 2 rounds (why not)",
            ]
        );
    }

    #[test]
    fn a_row_with_another_verdict_is_stale_and_expects_nothing() {
        assert_eq!(
            lines("a/1-1 PASS", ["a/1-1 FAIL", "a/1-1 PASS"], "\na/1-1 1 HUNG why"),
            [
                "unexpected: a/1-1, 1 worker: FAIL in 1 of 1 rounds",
                "stale: expected:2: a/1-1 is not HUNG with 1 worker; delete the row or limit it",
            ]
        );
    }

    #[test]
    fn a_row_for_all_configurations_is_stale_if_one_of_them_passes() {
        let under = ["a/1-1 FAIL", "a/1-1 PASS"];
        assert_eq!(
            lines("a/1-1 PASS", under, "a/1-1 * FAIL why")[1..],
            ["stale: expected:1: a/1-1 is not FAIL with 2 workers; delete the row or limit it"]
        );
        assert_eq!(lines("a/1-1 PASS", under, "a/1-1 1 FAIL why").len(), 1);
    }

    #[test]
    fn an_intermittent_row_is_not_stale_while_the_test_passes() {
        assert_eq!(lines("a/1-1 PASS", ["a/1-1 PASS"; 2], "a/1-1 * FAIL? why"), NONE);
    }

    #[test]
    fn a_row_of_a_configuration_that_did_not_run_is_not_stale() {
        assert_eq!(lines("a/1-1 PASS", ["a/1-1 PASS"; 2], "a/1-1 4 FAIL why"), NONE);
    }

    #[test]
    fn tests_that_do_not_pass_natively_are_not_compared() {
        let under = ["a/1-1 HUNG\na/1-2 HUNG"; 2];
        assert_eq!(
            lines("a/1-1 FAIL FAIL\na/1-2 PASS FAIL", under, "a/1-1 * HUNG why\na/1-2 * FAIL why"),
            [
                "stale: expected:1: a/1-1 is FAIL natively; delete the row",
                "not compared: a/1-2 is PASS, FAIL natively",
            ]
        );
    }

    #[test]
    fn a_row_of_an_unknown_test_is_stale_within_the_scope_only() {
        assert_eq!(
            lines("a/1-1 PASS", ["a/1-1 PASS"; 2], "a/9-9 * FAIL? why\nb/1-1 * FAIL why"),
            ["stale: expected:1: the suite has no test a/9-9; delete the row"]
        );
    }
}
