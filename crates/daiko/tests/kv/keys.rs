//! The effect of requests on keys and values.

use std::thread;
use std::time::{Duration, Instant};

use super::commands::Database;
use super::peer::{self, encoded};
use super::store::{NEVER, Store};
use super::support::until;

/// Returns the reply to a line, with blanks for the ends of its lines.
fn ask(server: &Database, line: &str) -> String {
    let bytes = peer::ask(server, format!("{line}\r\n").as_bytes());
    String::from_utf8(bytes).unwrap().strip_suffix("\r\n").unwrap().replace("\r\n", " ")
}

/// Asserts the replies to lines, one after the other.
#[track_caller]
fn assert_dialogue(lines: &[(&str, &str)]) {
    let server = Database::new();
    for (line, reply) in lines {
        assert_eq!(ask(&server, line), *reply, "{line}");
    }
}

#[test]
fn values_are_set_and_got_and_deleted() {
    assert_dialogue(&[
        ("get k", "$-1"),
        ("set k value", "+OK"),
        ("GeT k", "$5 value"),
        ("set k other", "+OK"),
        ("get k", "$5 other"),
        ("set k longer-than-before", "+OK"),
        ("mget k nosuch k", "*3 $18 longer-than-before $-1 $18 longer-than-before"),
        ("exists k nosuch k", ":2"),
        ("del k k nosuch", ":1"),
        ("get k", "$-1"),
        ("set '' ''", "+OK"),
        ("get ''", "$0 "),
        ("mset a 1 b 2 a 3", "+OK"),
        ("mget a b", "*2 $1 3 $1 2"),
        ("dbsize", ":3"),
        ("flushall", "+OK"),
        ("dbsize", ":0"),
    ]);
}

#[test]
fn a_value_is_set_only_if_there_is_one_or_none_as_asked() {
    assert_dialogue(&[
        ("set k 1 xx", "$-1"),
        ("set k 1 nx", "+OK"),
        ("set k 2 NX", "$-1"),
        ("set k 3 xx XX", "+OK"),
        ("get k", "$1 3"),
    ]);
}

#[test]
fn numbers_are_counted_up_to_the_last() {
    assert_dialogue(&[
        ("incr n", ":1"),
        ("incr n", ":2"),
        ("set n -10", "+OK"),
        ("incr n", ":-9"),
        ("get n", "$2 -9"),
        ("set n 9223372036854775806", "+OK"),
        ("incr n", ":9223372036854775807"),
        ("get n", "$19 9223372036854775807"),
        ("incr n", "-ERR increment or decrement would overflow"),
        ("set n 01", "+OK"),
        ("incr n", "-ERR value is not an integer or out of range"),
        ("get n", "$2 01"),
    ]);
}

#[test]
fn a_value_is_gone_when_its_time_is_over_and_not_before() {
    let server = Database::new();
    for key in ["counted", "there", "deleted", "kept"] {
        assert_eq!(ask(&server, &format!("set {key} 7 px 50")), "+OK");
    }
    assert_eq!(ask(&server, "set kept 2"), "+OK");
    assert_eq!(ask(&server, "set stays 1 ex 1000"), "+OK");
    // Set last, so that the end of its time is the end of each.
    let set = Instant::now();
    assert_eq!(ask(&server, "set got 7 px 50"), "+OK");
    until("its end", || ask(&server, "get got") == "$-1");
    assert!(set.elapsed() >= Duration::from_millis(50));
    assert_eq!(ask(&server, "exists there stays kept"), ":2");
    assert_eq!(ask(&server, "del deleted"), ":0");
    // A counter of a deleted key begins anew.
    assert_eq!(ask(&server, "incr counted"), ":1");
    assert_eq!(ask(&server, "set there 1 xx"), "$-1");
    assert_eq!(ask(&server, "set there 1 nx"), "+OK");
}

#[test]
fn counting_does_not_prolong_a_value() {
    let server = Database::new();
    assert_eq!(ask(&server, "set n 1 px 30"), "+OK");
    until("its end", || ask(&server, "incr n") == ":1");
}

#[test]
fn expired_values_make_room_without_a_request() {
    let store = Store::new();
    let set = |name: usize, expires| {
        let text = name.to_string();
        store.change(text.as_bytes(), |writer, map, key| writer.set(map, key, b"", expires));
    };
    (0..100_000).for_each(|name| set(name, 0));
    assert!(store.len().0 < 50_000, "{}", store.len().0);
    (0..100_000).for_each(|name| set(name, NEVER));
    assert_eq!(store.len().0, 100_000);
}

#[test]
fn many_keys_are_told_apart() {
    let store = Store::new();
    for name in 0..20_000 {
        let text = format!("key:{name}");
        let value = text.as_bytes();
        store.change(value, |writer, map, key| writer.set(map, key, value, NEVER));
    }
    for name in 0..20_000 {
        let text = format!("key:{name}");
        store.change(text.as_bytes(), |writer, map, key| {
            assert_eq!(map.get(key).unwrap().value(), text.as_bytes());
            assert!(writer.remove(map, key) && map.get(key).is_none());
        });
    }
    assert_eq!(store.len().0, 0);
}

#[test]
fn several_keys_are_set_at_once_for_all_readers() {
    let server = Database::new();
    let keys: Vec<String> = (0..20).map(|key| format!("key{key}")).collect();
    let get = encoded([&b"mget"[..]].into_iter().chain(keys.iter().map(String::as_bytes)));
    let set = |value: &str| {
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), value.as_bytes()]);
        encoded([&b"mset"[..]].into_iter().chain(pairs))
    };
    peer::ask(&server, &set("0"));
    thread::scope(|s| {
        for value in ["1", "2"] {
            let (server, set) = (&server, set(value));
            s.spawn(move || (0..2000).for_each(|_| _ = peer::ask(server, &set)));
        }
        for _ in 0..2000 {
            let replies = peer::ask(&server, &get);
            let values: Vec<_> = replies.split(|byte| *byte == b'\n').skip(2).step_by(2).collect();
            assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{}", replies.escape_ascii());
        }
    });
}

#[test]
fn counting_by_many_at_a_time_loses_nothing() {
    let server = Database::new();
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..1000).for_each(|_| _ = ask(&server, "incr n")));
        }
    });
    assert_eq!(ask(&server, "get n"), "$4 4000");
}
