//! Splits a line as people type it into words, as Redis does.

use std::ops::Range;

/// A quote that is not closed, or not followed by a blank.
#[derive(Debug)]
pub(crate) struct Unbalanced;

/// Finds the words of `line`, each decoded to the end of the words before it: no word is longer
/// than it was in quotes.
pub(crate) fn split(line: &mut [u8], words: &mut Vec<Range<usize>>) -> Result<(), Unbalanced> {
    let (mut from, mut to) = (0, 0);
    loop {
        from += line[from..].iter().take_while(|byte| is_blank(byte)).count();
        if from == line.len() {
            return Ok(());
        }
        let start = to;
        (from, to) = decode(line, from, to)?;
        words.push(start..to);
    }
}

/// Decodes the word at `from` to the place `to`; returns the ends of both.
fn decode(line: &mut [u8], mut from: usize, mut to: usize) -> Result<(usize, usize), Unbalanced> {
    let mut quote = None;
    loop {
        let (byte, taken) = match (quote, &line[from..]) {
            (None, [] | [b' ' | b'\n' | b'\r' | b'\t', ..]) => return Ok((from, to)),
            (None, [mark @ (b'"' | b'\''), ..]) => {
                quote = Some(*mark);
                from += 1;
                continue;
            }
            (Some(mark), [end, behind @ ..]) if *end == mark => {
                let ends = behind.first().is_none_or(is_blank);
                return if ends { Ok((from + 1, to)) } else { Err(Unbalanced) };
            }
            (Some(_), []) => return Err(Unbalanced),
            (Some(b'"'), [b'\\', escaped @ ..]) if !escaped.is_empty() => unescape(escaped),
            (Some(b'\''), [b'\\', b'\'', ..]) => (b'\'', 2),
            (_, [byte, ..]) => (*byte, 1),
        };
        line[to] = byte;
        to += 1;
        from += taken;
    }
}

/// Returns the byte that a backslash and `escaped` stand for, and the number of bytes that they
/// take.
fn unescape(escaped: &[u8]) -> (u8, usize) {
    if let [b'x', high, low, ..] = escaped
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        return (high << 4 | low, 4);
    }
    let byte = match escaped[0] {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    (byte, 2)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Whether `isspace` of C accepts the byte.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
