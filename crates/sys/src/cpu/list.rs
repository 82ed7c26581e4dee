//! Parses sets of CPUs in the kernel's format: `0-3,8`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::CpuSet;

/// Reason why a text is not a set of CPUs. Its message is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseCpuSetError {
    /// The invalid part, cut if it is long.
    part: String,
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no CPU or range: give a list like 0-3,8, ascending and below {}",
            self.part,
            CpuSet::LIMIT
        )
    }
}

impl std::error::Error for ParseCpuSetError {}

/// Parses the format of `Display` and the kernel: numbers below [`CpuSet::LIMIT`] and ranges of
/// them, ascending, each once.
///
/// For any text, memory is bounded by the size of such a set, and time by the length of the text.
///
/// # Examples
///
/// ```
/// use daiko_sys::cpu::CpuSet;
///
/// let set: CpuSet = "0-2,5".parse()?;
/// assert_eq!(set, CpuSet::from_iter([0, 1, 2, 5]));
/// assert!("0-99999999999".parse::<CpuSet>().is_err());
/// # Ok::<(), daiko_sys::cpu::ParseCpuSetError>(())
/// ```
impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut set = CpuSet::new();
        let mut least = 0;
        // The kernel writes the empty set as an empty text.
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let range = range(part).filter(|range| *range.start() >= least);
            let range =
                range.ok_or_else(|| ParseCpuSetError { part: part.chars().take(40).collect() })?;
            least = range.end() + 1;
            range.for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

fn range(part: &str) -> Option<RangeInclusive<usize>> {
    let (start, end) = part.split_once('-').unwrap_or((part, part));
    let (start, end) = (number(start)?, number(end)?);
    (start <= end && end < CpuSet::LIMIT).then_some(start..=end)
}

/// Parses digits only; `parse` alone would accept a sign.
fn number(digits: &str) -> Option<usize> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_printed_set_reads_back(cpus in proptest::collection::btree_set(0..CpuSet::LIMIT, 0..64)) {
            let set = CpuSet::from_iter(cpus);
            prop_assert_eq!(set.to_string().parse(), Ok(set));
        }

        /// Compares with a plain reading of the same text.
        #[test]
        fn accepted_lists_match_their_text(text in "[0-9,-]{0,12}") {
            let mut plain = BTreeSet::new();
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let (start, end) = part.split_once('-').unwrap_or((part, part));
                if let (Ok(start), Ok(end)) = (start.parse::<usize>(), end.parse::<usize>()) {
                    plain.extend(start..=end.min(CpuSet::LIMIT));
                }
            }
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert!(set.iter().eq(plain), "{}", set);
            }
        }
    }

    #[test]
    fn a_malformed_list_is_refused_in_one_line() {
        let texts = [
            ",",
            "0,",
            ",0",
            "-",
            "-1",
            "0-",
            "3-1",
            "1,1",
            "2,1",
            "0-2,2",
            "+1",
            "0-+1",
            " 1",
            "1 ",
            "0\n",
            "0-1:1/2",
            "0x1",
            "8192",
            "0-8192",
            "0-99999999999",
            "99999999999999999999999",
            "1-2-3",
            "\u{661}",
        ];
        for text in texts {
            let line = text.parse::<CpuSet>().expect_err(text).to_string();
            assert!(line.contains("like 0-3,8") && !line.contains('\n'), "{line}");
        }
        let line = "x".repeat(1 << 20).parse::<CpuSet>().unwrap_err().to_string();
        assert!(line.len() < 120, "{line}");
    }

    #[test]
    fn the_largest_set_is_read() {
        let set: CpuSet = "0-8191".parse().unwrap();
        assert_eq!(set.len(), CpuSet::LIMIT);
        assert_eq!("".parse(), Ok(CpuSet::new()));
    }
}
