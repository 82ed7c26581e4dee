//! Numbers in human-readable form.

/// Formats a number with three significant digits and separated thousands: `9.82`, `112`, `4,312`.
///
/// # Examples
///
/// ```
/// use daiko_lab::kit::format::number;
///
/// assert_eq!(number(9.8234), "9.82");
/// assert_eq!(number(111.7), "112");
/// assert_eq!(number(2_666_665.2), "2,666,665");
/// assert_eq!(number(0.000391), "0.000391");
/// ```
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        return thousands(value.round());
    }
    if value == 0.0 {
        return "0".into();
    }
    let before_point = size.log10().floor() as i32 + 1;
    let decimals = (3 - before_point).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

/// Formats a time in seconds with three significant digits in a suitable unit: `7.24 ms`.
///
/// # Examples
///
/// ```
/// use daiko_lab::kit::format::seconds;
///
/// assert_eq!(seconds(0.007243), "7.24 ms");
/// assert_eq!(seconds(754.0), "12.6 min");
/// ```
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..1e-6 => (seconds * 1e9, "ns"),
        ..1e-3 => (seconds * 1e6, "us"),
        ..1.0 => (seconds * 1e3, "ms"),
        ..120.0 => (seconds, "s"),
        _ => (seconds / 60.0, "min"),
    };
    format!("{} {unit}", number(value))
}

/// Formats a factor: `5.21x`, or a fraction if it is small.
///
/// # Examples
///
/// ```
/// use daiko_lab::kit::format::ratio;
///
/// assert_eq!(ratio(5.21), "5.21x");
/// assert_eq!(ratio(1.0 / 2557.0), "1/2,557");
/// ```
pub fn ratio(value: f64) -> String {
    if value > 0.0 && value < 0.1 {
        return format!("1/{}", number(1.0 / value));
    }
    format!("{}x", number(value))
}

/// Formats a count, shortened if it is round: `1000`, `10k`, `1M`.
///
/// # Examples
///
/// ```
/// use daiko_lab::kit::format::count;
///
/// let counts = [count(3), count(1000), count(10_000), count(1_000_000)];
/// assert_eq!(counts, ["3", "1000", "10k", "1M"]);
/// ```
pub fn count(value: u64) -> String {
    match value {
        10_000.. if value.is_multiple_of(1_000_000) => format!("{}M", value / 1_000_000),
        10_000.. if value.is_multiple_of(1000) => format!("{}k", value / 1000),
        _ => value.to_string(),
    }
}

fn thousands(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if whole < 0.0 { format!("-{text}") } else { text }
}
