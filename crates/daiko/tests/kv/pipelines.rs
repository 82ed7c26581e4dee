//! Random pipelines: the replies do not depend on how the input is cut, and are those of Redis.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::commands::Database;
use super::peer::{ask_cut, encoded, replies};

/// Words for requests, so few that keys and options meet.
pub(super) const WORDS: [&[u8]; 22] = [
    b"a",
    b"b",
    b"c",
    b"",
    b"a",
    b"b",
    b"1",
    b"-1",
    b"0",
    b"01",
    b"9223372036854775807",
    b"nx",
    b"XX",
    b"ex",
    b"Px",
    b"100000",
    b"x y",
    b"\r\n",
    b"\"",
    b"'",
    b"\xff\\x",
    b"async",
];
const NAMES: [&[u8]; 16] = [
    b"get",
    b"GET",
    b"set",
    b"SET",
    b"del",
    b"exists",
    b"incr",
    b"mget",
    b"mset",
    b"MSET",
    b"ping",
    b"echo",
    b"dbsize",
    b"flushall",
    b"nosuch",
    b"",
];
/// Parts of malformed requests. No word of it makes another command of Redis out of one of
/// [`NAMES`].
const SCRAPS: [&[u8]; 14] = [
    b"*",
    b"$",
    b"\r\n",
    b"\n",
    b"\r",
    b"1",
    b"3",
    b"-1",
    b"echo",
    b" ",
    b"\"",
    b"'a'",
    b"*1\r\n$4\r\nping\r\n",
    b"\\x41",
];

fn words() -> impl Strategy<Value = Vec<&'static [u8]>> {
    (select(&NAMES[..]), vec(select(&WORDS[..]), 0..6)).prop_map(|(name, mut words)| {
        words.insert(0, name);
        words
    })
}

/// Encodes a request as a user types it, all of it in quotes.
fn typed(words: &[&[u8]]) -> Vec<u8> {
    let quoted = |byte: &u8| format!("\\x{byte:02x}");
    let word = |word: &&[u8]| format!("\"{}\"", word.iter().map(quoted).collect::<String>());
    let words: Vec<_> = words.iter().map(word).collect();
    (words.join(" ") + "\n").into_bytes()
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => words().prop_map(encoded),
        5 => words().prop_map(|words| typed(&words)),
        1 => Just(b"quit\r\n".to_vec()),
        1 => vec(select(&SCRAPS[..]), 0..8).prop_map(|scraps| scraps.concat()),
    ]
}

/// Generates some requests, and bytes that may be none.
pub(super) fn pipeline() -> impl Strategy<Value = Vec<u8>> {
    vec(request(), 0..30).prop_map(|requests| requests.concat())
}

proptest! {
    #[test]
    fn replies_do_not_depend_on_where_requests_are_cut(
        bytes in pipeline(),
        pieces in vec(prop_oneof![1..4usize, 1..200usize], 1..10),
    ) {
        let whole = replies(&bytes);
        prop_assert_eq!(&ask_cut(&Database::new(), &bytes, &pieces), &whole);
        prop_assert_eq!(&ask_cut(&Database::new(), &bytes, &[1]), &whole);
    }

    #[test]
    fn any_bytes_are_answered_as_if_they_came_one_by_one(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(ask_cut(&Database::new(), &bytes, &[1]), replies(&bytes));
    }
}
