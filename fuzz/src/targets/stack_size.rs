//! The value of `DAIKO_STACK_SIZE`: digits and a unit are that many bytes, and all else is refused.

use daiko_rt::runtime::parse_stack_size;

/// The input is the value.
pub(super) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let size = parse_stack_size(&text);
    assert_eq!(size, expected(&text), "{text:?}");
    if let Some(bytes) = size {
        assert_eq!(parse_stack_size(&bytes.to_string()), size, "{text:?}");
    }
}

/// Adds up the digits from the right end of the text.
fn expected(text: &str) -> Option<usize> {
    let (number, shift) = match text.strip_suffix("iB").unwrap_or(text) {
        start if start.ends_with('K') => (&start[..start.len() - 1], 10),
        start if start.ends_with('M') => (&start[..start.len() - 1], 20),
        _ => (text, 0),
    };
    let mut sum = (!number.is_empty()).then_some(0_u128)?;
    for (place, digit) in number.chars().rev().enumerate() {
        let digit = u128::from(digit.to_digit(10)?);
        let power = 10_u128.checked_pow(u32::try_from(place).ok()?);
        let value =
            if digit == 0 { Some(0) } else { power.and_then(|power| power.checked_mul(digit)) };
        sum = sum.saturating_add(value.unwrap_or(u128::MAX));
    }
    usize::try_from(sum).ok()?.checked_mul(1 << shift)
}
