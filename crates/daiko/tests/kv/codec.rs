//! Bytes that are taken for a request, and bytes that are not.

use super::peer::replies;
use super::resp::{Parsed, Parser, Replies, integer};
use super::words;

/// Returns the requests in `input`, and the error behind them.
fn requests(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut parser, mut input, mut found) = (Parser::default(), input.to_vec(), Vec::new());
    loop {
        match parser.parse(&mut input) {
            Ok(Parsed::Incomplete) => return (found, None),
            Ok(Parsed::Request { bytes }) => {
                found.push(parser.arguments(&input).from(0).map(<[u8]>::to_vec).collect());
                input.drain(..bytes);
            }
            Err(error) => return (found, Some(error.0.escape_ascii().to_string())),
        }
    }
}

#[track_caller]
fn assert_words(line: &[u8], expected: &[&[u8]]) {
    let (mut line, mut ranges) = (line.to_vec(), Vec::new());
    words::split(&mut line, &mut ranges).unwrap();
    let found: Vec<_> = ranges.into_iter().map(|range| &line[range]).collect();
    assert_eq!(found, expected);
}

#[test]
fn requests_follow_each_other_in_both_forms() {
    let (found, error) = requests(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nget k\r\n*0\r\n\r\n*-1\r\n ping \n*1\r\n$0\r\n\r\n*1\r\n$4\r\nPI");
    let expected: [&[&[u8]]; 7] =
        [&[b"GET", b"k"], &[b"get", b"k"], &[], &[], &[], &[b"ping"], &[b""]];
    assert_eq!((found.len(), error), (7, None));
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn arguments_may_hold_any_bytes() {
    let (found, _) = requests(b"*2\r\n$6\r\n\r\n$1\r\n\r\n$3\r\n\0\xff*\r\n");
    assert_eq!(found, [[b"\r\n$1\r\n".to_vec(), b"\0\xff*".to_vec()]]);
}

#[test]
fn malformed_requests_are_refused_in_the_words_of_redis() {
    let long = |start: &str| [start.as_bytes(), &[b'1'; 65537]].concat();
    let cases: &[(&[u8], &str)] = &[
        (b"*\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*18446744073709551617\r\n", "invalid multibulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n", "invalid bulk length"),
        (b"*1\r\n:1\r\n", r"expected \'$\', got \':\'"),
        (b"*1\r\n\r\n", r"expected \'$\', got \'\r\'"),
        (b"*1\r\n\xff\r\n", r"expected \'$\', got \'\xff\'"),
        (b"get \"k\r\n", "unbalanced quotes in request"),
        (&long("*"), "too big mbulk count string"),
        (&long("*1\r\n$"), "too big bulk count string"),
        (&long(""), "too big inline request"),
    ];
    for (input, text) in cases {
        let told = [b"ping\r\n", *input].concat();
        let (found, error) = requests(&told);
        assert_eq!((found.len(), error.as_deref()), (1, Some(*text)), "{:?}", input.escape_ascii());
        // The request before it is answered; the bytes behind it are not.
        let replies = replies(&[&told, &b"\r\nping\r\n"[..]].concat());
        assert!(replies.starts_with(b"+PONG\r\n-ERR Protocol error: "), "{text}");
        assert_eq!(replies.iter().filter(|byte| **byte == b'\n').count(), 2, "{text}");
    }
}

#[test]
fn the_longest_that_is_allowed_is_waited_for() {
    for input in ["*1048576\r\n", "*1\r\n$536870912\r\n", "*1\r\n$3\r\nGET", "*1\r\n$3\r", "*"] {
        assert_eq!(requests(input.as_bytes()), (vec![], None), "{input}");
    }
    let line = [b'x'; 65536];
    assert_eq!(requests(&line), (vec![], None));
    assert_eq!(requests(&[&line[..], b"\n"].concat()).0[0][0], line);
}

#[test]
fn words_are_split_at_blanks_and_quotes_undone() {
    assert_words(b"", &[]);
    assert_words(b" \t ", &[]);
    assert_words(b"a  bc\td ", &[b"a", b"bc", b"d"]);
    assert_words(b"\"\" ''", &[b"", b""]);
    assert_words(br#""a b" 'c d' e"f g""#, &[b"a b", b"c d", b"ef g"]);
    assert_words(br#""\n\r\t\b\a\\\"\q\x41\xfF\x4\xg0""#, &[b"\n\r\t\x08\x07\\\"qA\xffx4xg0"]);
    assert_words(br"'\n\'\ ' \n", &[br"\n'\ ", br"\n"]);
    // These bytes do not separate words, as in Redis.
    assert_words(b"a\x0bb\x0cc", &[b"a\x0bb\x0cc"]);
    for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\", b"\"a\\\"", b"a\"b\"c", b"'\\'"]
    {
        let outcome = words::split(&mut line.to_vec(), &mut Vec::new());
        assert!(outcome.is_err(), "{}", line.escape_ascii());
    }
}

#[test]
fn numbers_are_taken_only_as_they_would_be_written() {
    for number in [0, 1, -1, 10, 1 << 40, i64::MAX, i64::MIN] {
        assert_eq!(integer(number.to_string().as_bytes()), Some(number));
    }
    let others = ["", "-", "-0", "+1", "01", "-01", "1 ", " 1", "1.0", "1e3", "0x1", "--1", "1-"];
    for text in others.into_iter().chain(["9223372036854775808", "-9223372036854775809"]) {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn an_error_is_one_line_with_any_quote() {
    let mut replies = Replies::default();
    replies.error(b"a\r\nb\nc");
    assert_eq!(replies.bytes, b"-ERR a  b c\r\n");
}
