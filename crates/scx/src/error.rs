//! Errors of this crate.

use std::fmt;

/// A reason in one line, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Creates an error of that text, with control characters and line breaks replaced by spaces.
    pub fn new(line: impl Into<String>) -> Self {
        let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Error(words(line.into().replace(char::is_control, " ")))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        assert_eq!(Error::new("a\n  b\u{1b}c\r\n").to_string(), "a b c");
    }
}
