//! Libraries that recurse deeply, or keep state for a thread, on stacks of the default size.

use std::collections::HashSet;

use daiko_libraries::{everywhere, hundred, hundred_in};
use rand::Rng;

#[test]
fn serde_json_parses_up_to_its_own_limit() {
    hundred(|member| {
        let deep = "[".repeat(127) + &"]".repeat(127);
        member.meet();
        let value: serde_json::Value = serde_json::from_str(&deep).unwrap();
        assert_eq!(value.to_string(), deep);
        let deeper = "[".repeat(128) + &"]".repeat(128);
        let error = serde_json::from_str::<serde_json::Value>(&deeper).unwrap_err();
        assert!(error.to_string().contains("recursion limit"), "{error}");
    });
}

/// A regular expression keeps its cache by the id of the thread that uses it.
#[test]
fn regex_compiles_deep_expressions_and_is_shared_by_fibers() {
    let shared =
        regex::Regex::new(r"(?x) ^ (?: (\w+) \s* = \s* ( (?: [^;\\] | \\. )* ) ; )+ $").unwrap();
    let shared = std::sync::Arc::new(shared);
    hundred(move |member| {
        let text = format!("key{} = value;", member.index);
        member.meet();
        let captures = shared.captures(&text).unwrap();
        assert_eq!(&captures[1], format!("key{}", member.index));
        if member.index % 20 == 0 {
            let nested = |depth| "(?:".repeat(depth) + "a" + &")?".repeat(depth);
            assert!(regex::Regex::new(&nested(120)).unwrap().is_match("a"));
            let error = regex::Regex::new(&nested(240)).unwrap_err();
            assert!(error.to_string().contains("nested"), "{error}");
        }
    });
}

/// `ThreadRng` is a reference to a generator of the thread, and not `Send`.
#[test]
fn the_random_numbers_of_fibers_differ() {
    everywhere(|runtime, kind| {
        let numbers = hundred_in(runtime, kind, |member| {
            let mut own = rand::rng();
            let first = own.next_u64();
            member.meet();
            let numbers = [first, own.next_u64(), rand::rng().next_u64(), rand::random()];
            member.stagger();
            numbers
        });
        let count = numbers.len() * 4;
        assert_eq!(numbers.into_iter().flatten().collect::<HashSet<u64>>().len(), count);
    });
}

/// The keys of a `HashMap` are made from thread-locals.
#[test]
fn hash_maps_are_built_across_suspensions() {
    hundred(|member| {
        let mut map = std::collections::HashMap::new();
        for key in 0..100 {
            map.insert(key, member.index);
            if key % 30 == 0 {
                daiko::yield_now();
            }
        }
        assert!((0..100).all(|key| map[&key] == member.index));
    });
}
