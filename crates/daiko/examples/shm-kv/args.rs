//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::bench;
use crate::problem::Problem;
use crate::protocol::LEAST_SLOT_BYTES;
use crate::server;

/// The commands: name, arguments, and help.
const COMMANDS: [(&str, &str, &str); 9] = [
    ("server", "NAME [--slots N] [--slot-bytes N]", "serve, until stopped"),
    ("get", "NAME KEY", "print the value"),
    ("set", "NAME KEY VALUE", ""),
    ("del", "NAME KEY", ""),
    ("incr", "NAME KEY [BY]", "add BY (1) to a number, print the sum"),
    ("keys", "NAME", "print all keys"),
    ("watch", "NAME KEY", "print the value whenever it is another one"),
    ("bench", "NAME [--fibers N] [--seconds N]", "measure round trips"),
    ("stop", "NAME", "end the server, forget all values"),
];

pub(crate) fn help() -> String {
    let lines = COMMANDS.map(|(verb, operands, does)| {
        format!("  {}\n", format!("shm-kv {verb:<7}{operands:<35}{does}").trim_end())
    });
    format!(
        "A key-value store in memory that other processes share.\n\n{}\n\
         NAME is that of a file in /dev/shm, or a path. --slots says how many requests may be\n\
         under way at a time (64), --slot-bytes how long key and value may be together (1024).\n",
        lines.concat()
    )
}

/// The action, and the store to act on.
pub(crate) struct Line {
    pub(crate) name: OsString,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Help,
    Server(server::Options),
    Get { key: Vec<u8> },
    Set { key: Vec<u8>, value: Vec<u8> },
    Del { key: Vec<u8> },
    Incr { key: Vec<u8>, by: i64 },
    Keys,
    Watch { key: Vec<u8> },
    Bench(bench::Options),
    Stop,
}

/// Parses a command line, without the name of the program.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Line, Problem> {
    let words: Vec<OsString> = words.collect();
    let (verb, rest) = words.split_first().ok_or_else(|| say("name a command"))?;
    let verb = verb.to_str().unwrap_or_default();
    if matches!(verb, "help" | "--help" | "-h") {
        return Ok(Line { name: OsString::new(), action: Action::Help });
    }
    let command = COMMANDS.iter().find(|(known, ..)| *known == verb);
    let (_, operands, _) = command.ok_or_else(|| say(&format!("{verb:?} is no command")))?;
    let not_so = || Problem::Usage(format!("use it so: shm-kv {verb} {operands}"));
    let (name, rest) = rest.split_first().ok_or_else(not_so)?;
    let action = match (verb, rest) {
        ("server", options) => Action::Server(server_options(options)?),
        ("get", [key]) => Action::Get { key: key_of(key)? },
        ("set", [key, value]) => Action::Set { key: key_of(key)?, value: value.clone().into_vec() },
        ("del", [key]) => Action::Del { key: key_of(key)? },
        ("incr", [key]) => Action::Incr { key: key_of(key)?, by: 1 },
        ("incr", [key, by]) => Action::Incr { key: key_of(key)?, by: step(by)? },
        ("keys", []) => Action::Keys,
        ("watch", [key]) => Action::Watch { key: key_of(key)? },
        ("bench", options) => Action::Bench(bench_options(options)?),
        ("stop", []) => Action::Stop,
        _ => return Err(not_so()),
    };
    Ok(Line { name: name.clone(), action })
}

fn say(what: &str) -> Problem {
    let verbs = COMMANDS.map(|(verb, ..)| verb).join(", ");
    Problem::Usage(format!("{what}; there are {verbs}; see shm-kv --help"))
}

fn key_of(word: &OsString) -> Result<Vec<u8>, Problem> {
    match word.as_bytes() {
        [] => Err(Problem::Usage("a key has at least one byte; give one".into())),
        key => Ok(key.to_vec()),
    }
}

fn step(word: &OsString) -> Result<i64, Problem> {
    let number = word.to_str().and_then(|word| word.parse().ok());
    number.ok_or_else(|| {
        Problem::Usage(format!("{} is no number to add; give one like 1 or -5", word.display()))
    })
}

fn server_options(words: &[OsString]) -> Result<server::Options, Problem> {
    let most = 1 << 20;
    let [slots, slot_bytes] =
        numbers(words, [("--slots", 1..=4096), ("--slot-bytes", LEAST_SLOT_BYTES..=most)])?;
    Ok(server::Options { slots: slots.unwrap_or(64), slot_bytes })
}

fn bench_options(words: &[OsString]) -> Result<bench::Options, Problem> {
    let [fibers, seconds] = numbers(words, [("--fibers", 2..=1000), ("--seconds", 1..=3600)])?;
    let run = Duration::from_secs(seconds.unwrap_or(1).into());
    Ok(bench::Options { fibers: fibers.unwrap_or(16), run })
}

/// Parses the number behind each of the `options`, if it is given.
fn numbers<const N: usize>(
    words: &[OsString],
    options: [(&str, RangeInclusive<u32>); N],
) -> Result<[Option<u32>; N], Problem> {
    let mut numbers = [None; N];
    for pair in words.chunks(2) {
        let word = pair[0].to_string_lossy();
        let Some(at) = options.iter().position(|(option, _)| *option == word) else {
            let all = options.map(|(option, _)| option).join(" and ");
            return Err(Problem::Usage(format!("{word:?} is no option here; there are {all}")));
        };
        let (option, within) = &options[at];
        let number = pair.get(1).and_then(|number| number.to_str()?.parse().ok());
        let number = number.filter(|number| within.contains(number)).ok_or_else(|| {
            let (least, most) = (within.start(), within.end());
            Problem::Usage(format!("{option}: give a number from {least} to {most}"))
        })?;
        numbers[at] = Some(number);
    }
    Ok(numbers)
}
