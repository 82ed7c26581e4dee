//! Verdicts of test programs, and the exit statuses that stand for them.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::str::FromStr;

/// The families of programs, which differ in their names and in the meaning of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// The Open POSIX Test Suite of the Linux Test Project: `INTERFACE/N-M`.
    OpenPosix,
    /// Tests of glibc: `nptl/tst-NAME`, `pthread/tst-NAME`.
    Glibc,
}

impl Family {
    /// Returns the family that a test of this name belongs to.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (folder, file) = name.split_once('/')?;
        if folder.is_empty() || file.contains(['/', '.']) {
            return None;
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match file.split_once('-')? {
            ("tst", rest) if !rest.is_empty() => Some(Self::Glibc),
            (major, minor) if is_number(major) && is_number(minor) => Some(Self::OpenPosix),
            _ => None,
        }
    }

    /// Returns the names of its tests, as a pattern.
    pub(crate) fn pattern(self) -> &'static str {
        match self {
            Self::OpenPosix => "INTERFACE/N-M (as pthread_create/1-1)",
            Self::Glibc => "nptl/tst-NAME or pthread/tst-NAME",
        }
    }
}

/// The result of one run of a test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Pass,
    Fail,
    Unresolved,
    Unsupported,
    Untested,
    /// The program did not end within the limit.
    Hung,
    /// A signal killed the program.
    Signaled(i32),
    /// The program ended with an exit code that has no meaning in its family.
    Exited(i32),
}

impl Verdict {
    pub(crate) fn of(family: Family, status: ExitStatus) -> Self {
        let Some(code) = status.code() else {
            return Self::Signaled(status.signal().unwrap_or_default());
        };
        match (family, code) {
            (_, 0) => Self::Pass,
            (_, 1) => Self::Fail,
            (Family::OpenPosix, 2) => Self::Unresolved,
            (Family::OpenPosix, 4) | (Family::Glibc, 77) => Self::Unsupported,
            (Family::OpenPosix, 5) => Self::Untested,
            (_, code) => Self::Exited(code),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("PASS"),
            Self::Fail => f.write_str("FAIL"),
            Self::Unresolved => f.write_str("UNRESOLVED"),
            Self::Unsupported => f.write_str("UNSUPPORTED"),
            Self::Untested => f.write_str("UNTESTED"),
            Self::Hung => f.write_str("HUNG"),
            Self::Signaled(signal) => write!(f, "SIGNALED-{signal}"),
            Self::Exited(code) => write!(f, "EXITED-{code}"),
        }
    }
}

/// The error of a text that names no verdict; it names them all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoVerdict;

impl fmt::Display for NoVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PASS, FAIL, UNRESOLVED, UNSUPPORTED, UNTESTED, HUNG, SIGNALED-N or EXITED-N")
    }
}

impl FromStr for Verdict {
    type Err = NoVerdict;

    fn from_str(text: &str) -> Result<Self, NoVerdict> {
        let named = [
            Self::Pass,
            Self::Fail,
            Self::Unresolved,
            Self::Unsupported,
            Self::Untested,
            Self::Hung,
        ];
        if let Some(verdict) = named.into_iter().find(|verdict| verdict.to_string() == text) {
            return Ok(verdict);
        }
        let (word, number) = text.split_once('-').ok_or(NoVerdict)?;
        let number = number.parse::<u8>().map_err(|_| NoVerdict)?.into();
        match word {
            "SIGNALED" => Ok(Self::Signaled(number)),
            "EXITED" => Ok(Self::Exited(number)),
            _ => Err(NoVerdict),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(family: Family, code: i32) -> String {
        Verdict::of(family, ExitStatus::from_raw(code << 8)).to_string()
    }

    #[test]
    fn exit_codes_have_the_meaning_of_their_family() {
        let codes = [0, 1, 2, 3, 4, 5, 77];
        assert_eq!(
            codes.map(|code| exited(Family::OpenPosix, code)),
            ["PASS", "FAIL", "UNRESOLVED", "EXITED-3", "UNSUPPORTED", "UNTESTED", "EXITED-77"]
        );
        assert_eq!(
            codes.map(|code| exited(Family::Glibc, code)),
            ["PASS", "FAIL", "EXITED-2", "EXITED-3", "EXITED-4", "EXITED-5", "UNSUPPORTED"]
        );
    }

    #[test]
    fn a_signal_is_named_even_if_the_program_dumped_core() {
        for status in [11, 11 | 0x80] {
            let verdict = Verdict::of(Family::Glibc, ExitStatus::from_raw(status));
            assert_eq!(verdict, Verdict::Signaled(11));
        }
    }

    #[test]
    fn every_verdict_is_read_as_it_is_written() {
        let ends = (0..=255).flat_map(|n| [Verdict::Signaled(n), Verdict::Exited(n)]);
        let codes = [0, 1, 2, 4, 5]
            .map(|code| Verdict::of(Family::OpenPosix, ExitStatus::from_raw(code << 8)));
        for verdict in ends.chain(codes).chain([Verdict::Hung]) {
            assert_eq!(verdict.to_string().parse(), Ok(verdict));
        }
    }

    #[test]
    fn other_words_are_no_verdicts() {
        for text in
            ["", "pass", "PASSED", "SIGNALED", "SIGNALED-", "SIGNALED-x", "EXITED-256", "HUNG-1"]
        {
            assert_eq!(text.parse::<Verdict>(), Err(NoVerdict), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_test_tells_its_family() {
        assert_eq!(Family::of("pthread_create/1-1"), Some(Family::OpenPosix));
        assert_eq!(Family::of("sem_open/10-12"), Some(Family::OpenPosix));
        assert_eq!(Family::of("nptl/tst-cond22"), Some(Family::Glibc));
        assert_eq!(Family::of("pthread/tst-_res1"), Some(Family::Glibc));
        let none = [
            "",
            "1-1",
            "/1-1",
            "a/1",
            "a/1-",
            "a/-1",
            "a/1-1.c",
            "a/b/1-1",
            "a/1-x",
            "a/tst-",
            "nptl/tst-mod.so",
            "nptl/other",
        ];
        for name in none {
            assert_eq!(Family::of(name), None, "{name}");
        }
    }
}
