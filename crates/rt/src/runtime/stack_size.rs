//! The size of the stacks of fibers that name none.

use std::env;
use std::ffi::OsString;

use daiko_context::stack::StackClass;

/// The variable of the environment that sets the size for runtimes whose builder does not.
const VARIABLE: &str = "DAIKO_STACK_SIZE";

/// The size unless the builder or the environment sets one.
///
/// JSON nested as deeply as its parser allows takes 220 KiB in a debug build, a regular expression
/// nested as deeply as its compiler allows 500 KiB; in a release build a fifth of that. A stack
/// takes memory for the pages that it touches, and 2 KiB of page tables for each MiB of its size.
pub(super) const DEFAULT: usize = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };

/// The bytes of a guard unless the builder sets them. C code without stack probes reaches over it
/// by larger frames.
///
/// 10,000 suspended fibers on stacks of 256 KiB take 4,630 bytes each (resident memory and page
/// tables) with a guard of a page, 4,679 with 28 KiB, and 4,761 with 64 KiB. No guard takes a
/// mapping, unless the kernel lacks light guards.
pub(super) const GUARD: usize = if cfg!(debug_assertions) { 64 << 10 } else { 28 << 10 };

/// Returns the size that the environment sets, or else the default. The error is the value of the
/// variable, if it is no size that is possible with such a guard.
pub(super) fn of_environment(guard: usize) -> Result<usize, OsString> {
    let Some(value) = env::var_os(VARIABLE) else { return Ok(DEFAULT) };
    let bytes = value.to_str().and_then(parse).filter(|&size| StackClass::new(size, guard).is_ok());
    bytes.ok_or(value)
}

/// Parses a number of bytes, or of units of 1,024 or 1,048,576 bytes: `262144`, `256K`, `256KiB`,
/// `1M`, `1MiB`.
pub fn parse(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: [(&str, usize); 5] =
        [("", 1), ("K", 1 << 10), ("KiB", 1 << 10), ("M", 1 << 20), ("MiB", 1 << 20)];

    proptest! {
        #[test]
        fn a_number_with_a_unit_is_that_many_bytes(number: usize, unit in 0..UNITS.len()) {
            let (suffix, bytes) = UNITS[unit];
            prop_assert_eq!(parse(&format!("{number}{suffix}")), number.checked_mul(bytes));
        }

        #[test]
        fn nothing_but_digits_and_a_unit_is_a_size(text in "[0-9 KMiBkb+.-]{0,6}|\\PC*") {
            let is_number = |number: &str| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            };
            let size = UNITS.iter().find_map(|(suffix, bytes)| {
                let number = text.strip_suffix(suffix).filter(|number| is_number(number))?;
                number.parse::<u128>().ok()?.checked_mul(*bytes as u128)
            });
            prop_assert_eq!(parse(&text), size.and_then(|size| usize::try_from(size).ok()));
        }
    }

    #[test]
    fn signs_spaces_and_overflows_are_refused() {
        for text in ["", "K", "-1", "+1", " 1", "1 K", "1k", "1G", "99999999999999999999", "٣"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
