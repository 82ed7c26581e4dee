//! The command line.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use crate::expected::{Expected, Workers};
use crate::outcomes::Outcomes;
use crate::round::Rounds;
use crate::run::{Under, run};
use crate::suite::{self, Test};
use crate::verdict::{Family, Verdict};

/// The form of the folders, for a command line that names none.
const FOLDERS: &str = "\
usage: make conformance LTP=DIR GLIBC=DIR    (one of them suffices)
  LTP=DIR    DIR/pthread_create/1-1, DIR/sem_post/1-1, ...: the programs of LTP's open_posix_testsuite
  GLIBC=DIR  DIR/nptl/tst-cond26, DIR/pthread/tst-cond1, ...: the programs of nptl and sysdeps/pthread
tools/conformance/README.md says how to build them; --help lists all options";

/// Runs suites of test programs natively and under a command, and compares the verdicts
///
/// Exits with 1 if a test that passes natively does not pass under the command and the file of
/// expected differences has no row for it, or if that file has a stale row; with 2 on bad input.
/// Without a command, prints the native verdicts.
#[derive(Debug, Parser)]
#[command(name = "daiko-conformance")]
pub(crate) struct Line {
    /// Folder of built programs of LTP's open_posix_testsuite, as DIR/pthread_create/1-1
    #[arg(long, value_name = "DIR")]
    ltp: Option<PathBuf>,
    /// Folder of built programs of glibc's tests, as DIR/nptl/tst-cond26 and DIR/pthread/tst-cond1
    #[arg(long, value_name = "DIR")]
    glibc: Option<PathBuf>,
    /// Run only tests with names that begin so; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Runs of each test, natively and in each configuration
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Tests that run at the same time
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Configurations: values of DAIKO_WORKERS under the command
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Vec<u16>,
    /// Seconds after which a test counts as HUNG and is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// File of expected differences: rows of TEST CONFIGURATION VERDICT REASON
    #[arg(long, value_name = "FILE", default_value = "tests/dropin/expected")]
    expected: PathBuf,
    /// File of native verdicts that a run without a command printed, in place of native runs
    #[arg(long, value_name = "FILE", requires = "command")]
    native: Option<PathBuf>,
    /// The command to run programs under, as `daiko run`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Line {
    /// Returns the selected tests of all suites.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        let mut tests = Vec::new();
        for (family, folder) in [(Family::OpenPosix, &self.ltp), (Family::Glibc, &self.glibc)] {
            if let Some(folder) = folder {
                tests.extend(suite::read(family, folder)?);
            }
        }
        if tests.is_empty() {
            return Err(format!(
                "no suite is given: name a folder of built test programs in LTP or GLIBC\n{FOLDERS}"
            ));
        }
        suite::select(&mut tests, &self.only)?;
        Ok(tests)
    }

    /// Returns true if the tests of this name are among those that were asked for.
    pub(crate) fn is_asked_for(&self, test: &str) -> bool {
        let folder = match Family::of(test) {
            Some(Family::OpenPosix) => &self.ltp,
            Some(Family::Glibc) => &self.glibc,
            None => &None,
        };
        folder.is_some() && suite::is_selected(test, &self.only)
    }

    pub(crate) fn rounds(&self) -> Rounds {
        Rounds {
            number: self.rounds,
            jobs: self.jobs.into(),
            limit: Duration::from_secs(self.limit),
        }
    }

    pub(crate) fn expected(&self) -> Result<Expected, String> {
        let text = read(&self.expected, "name the file of expected differences by --expected")?;
        Expected::parse(&self.expected, &text)
    }

    /// Returns the native verdicts that are kept in a file, if one is named.
    pub(crate) fn native(&self, tests: &[Test]) -> Result<Option<Outcomes>, String> {
        let Some(path) = &self.native else { return Ok(None) };
        let text = read(path, "write it by a run without COMMAND")?;
        let kept = Outcomes::parse(path, &text)?;
        let mut native = Outcomes::default();
        for Test { name, .. } in tests {
            if kept.of(name).is_empty() {
                return Err(format!(
                    "{} has no verdict of {name}; write it anew by a run without COMMAND",
                    path.display()
                ));
            }
            kept.of(name).iter().for_each(|outcome| native.add(name, outcome.clone()));
        }
        Ok(Some(native))
    }

    /// Returns the command, if one is given. It is tried out first, as hundreds of equal
    /// differences would tell less than its own message.
    pub(crate) fn command(&self) -> Result<Option<Vec<OsString>>, String> {
        let mut command = self.command.clone();
        let Some(program) = command.first_mut() else { return Ok(None) };
        // Tests run in another folder.
        if program.as_encoded_bytes().contains(&b'/') {
            let path = std::path::absolute(&*program).map_err(|error| {
                format!("{} has no absolute path: {error}; write it as one", program.display())
            })?;
            *program = path.into();
        }
        let nothing =
            Test { name: "true".into(), family: Family::Glibc, program: "/bin/true".into() };
        for under in self.configurations(&command) {
            let outcome = run(&nothing, Some(under), Duration::from_secs(self.limit))?;
            if outcome.verdict != Verdict::Pass {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                return Err(format!(
                    "{} /bin/true gives {} with {} ({}); correct COMMAND",
                    words.join(" "),
                    outcome.verdict,
                    under.workers,
                    outcome.last_line
                ));
            }
        }
        Ok(Some(command))
    }

    pub(crate) fn configurations<'a>(
        &self,
        command: &'a [OsString],
    ) -> impl Iterator<Item = Under<'a>> {
        self.workers.iter().map(move |number| Under { command, workers: Workers(*number) })
    }
}

fn read(path: &Path, remedy: &str) -> Result<String, String> {
    fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Line {
        Line::try_parse_from([&["daiko-conformance"], words].concat()).unwrap()
    }

    #[test]
    fn the_words_after_two_dashes_are_the_command() {
        let line = line(&["--ltp", "a", "--workers", "1,4", "--", "daiko", "run", "--account"]);
        assert_eq!(line.command, ["daiko", "run", "--account"]);
        assert_eq!(line.workers, [1, 4]);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for words in [["--rounds", "0"], ["--jobs", "0"], ["--workers", "1,0"], ["--limit", "0"]] {
            let words = [&["daiko-conformance"], &words[..]].concat();
            assert!(Line::try_parse_from(&words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn rows_of_suites_that_are_not_given_are_not_asked_for() {
        let ltp = line(&["--ltp", "a", "--only", "sem_", "--only", "nptl/"]);
        assert!(ltp.is_asked_for("sem_post/1-1"));
        assert!(!ltp.is_asked_for("pthread_once/1-1"));
        assert!(!ltp.is_asked_for("nptl/tst-a"));
        assert!(line(&["--glibc", "a"]).is_asked_for("nptl/tst-a"));
    }
}
