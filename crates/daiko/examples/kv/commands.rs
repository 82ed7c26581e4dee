//! The commands, and their replies.

use std::process;
use std::time::Instant;

use super::buffers::Pool;
use super::resp::{Arguments, Replies, integer};
use super::store::{NEVER, Store};

/// The state that all connections share.
pub(crate) struct Database {
    pub(crate) buffers: Pool,
    store: Store,
    started: Instant,
}

struct KvCommand {
    name: &'static str,
    /// The number of words of a request, with the name; if negative, the minimum.
    words: i64,
    flags: &'static [&'static str],
    /// The first key, the last key (from the end if negative), and the distance from key to key.
    keys: [i64; 3],
    run: fn(&Database, Arguments<'_>, &mut Replies) -> Done,
}

/// The text of the error, if the command fails.
type Done = Result<(), Vec<u8>>;

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write"];
const ALL: [i64; 3] = [1, -1, 1];
const NO_KEY: [i64; 3] = [0, 0, 0];

/// The table of commands. It is searched from the front.
static COMMANDS: [KvCommand; 16] = [
    KvCommand { name: "get", words: 2, flags: READ, keys: [1, 1, 1], run: get },
    KvCommand { name: "set", words: -3, flags: WRITE, keys: [1, 1, 1], run: set },
    KvCommand { name: "incr", words: 2, flags: WRITE, keys: [1, 1, 1], run: incr },
    KvCommand { name: "mget", words: -2, flags: READ, keys: ALL, run: mget },
    KvCommand { name: "mset", words: -3, flags: WRITE, keys: [1, -1, 2], run: mset },
    KvCommand { name: "del", words: -2, flags: WRITE, keys: ALL, run: del },
    KvCommand { name: "exists", words: -2, flags: READ, keys: ALL, run: exists },
    KvCommand { name: "ping", words: -1, flags: &["fast"], keys: NO_KEY, run: ping },
    KvCommand { name: "echo", words: 2, flags: &["fast"], keys: NO_KEY, run: ping },
    KvCommand { name: "select", words: 2, flags: &["fast"], keys: NO_KEY, run: select },
    KvCommand { name: "quit", words: -1, flags: &["fast"], keys: NO_KEY, run: ok },
    KvCommand { name: "dbsize", words: 1, flags: READ, keys: NO_KEY, run: dbsize },
    KvCommand { name: "flushall", words: -1, flags: WRITE, keys: NO_KEY, run: flushall },
    KvCommand { name: "info", words: -1, flags: &[], keys: NO_KEY, run: info },
    KvCommand { name: "command", words: -1, flags: &[], keys: NO_KEY, run: command },
    KvCommand { name: "config", words: -2, flags: &["admin"], keys: NO_KEY, run: config },
];

/// The most bytes that an error quotes of an unknown command.
const MOST_QUOTED: usize = 128;
const NO_NUMBER: &str = "value is not an integer or out of range";

impl Database {
    pub(crate) fn new() -> Database {
        Database { buffers: Pool::default(), store: Store::new(), started: Instant::now() }
    }

    /// Carries out a request. Returns whether the connection stays open.
    pub(crate) fn carry_out(&self, request: Arguments<'_>, replies: &mut Replies) -> bool {
        // An empty line is no request, and gets no reply.
        let Some(name) = request.from(0).next() else { return true };
        let Some(command) = find(name) else {
            replies.error(&unknown(request));
            return true;
        };
        let words = request.len() as i64;
        let fits = if command.words < 0 { words >= -command.words } else { words == command.words };
        let done = match fits {
            true => (command.run)(self, request, replies),
            false => wrong_count(command.name),
        };
        done.unwrap_or_else(|text| replies.error(&text));
        command.name != "quit"
    }
}

fn find(name: &[u8]) -> Option<&'static KvCommand> {
    COMMANDS.iter().find(|command| is(name, command.name))
}

fn get(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let (mut map, key) = server.store.lock(&request[1]);
    match map.get(key) {
        Some(entry) => replies.bulk(entry.value()),
        None => replies.nothing(),
    }
    Ok(())
}

fn set(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let SetOptions { only_if, time } = SetOptions::of(request)?;
    let expires = time.map_or(Ok(NEVER), |(text, unit)| expiry(server, text, unit))?;
    let (mut map, key) = server.store.lock(&request[1]);
    if only_if.is_some_and(|there| there != map.get(key).is_some()) {
        replies.nothing();
    } else {
        map.set(key, &request[2], expires);
        replies.simple("OK");
    }
    Ok(())
}

/// The words behind key and value of a `SET`.
struct SetOptions<'r> {
    /// Whether a value has to exist already (`XX`), or must not exist (`NX`).
    only_if: Option<bool>,
    /// The lifetime (`EX`, `PX`), and its unit in milliseconds.
    time: Option<(&'r [u8], i64)>,
}

impl<'r> SetOptions<'r> {
    fn of(request: Arguments<'r>) -> Result<SetOptions<'r>, Vec<u8>> {
        let mut options = SetOptions { only_if: None, time: None };
        let mut words = request.from(3);
        while let Some(word) = words.next() {
            let there = is(word, "xx");
            if (there || is(word, "nx")) && options.only_if.is_none_or(|other| other == there) {
                options.only_if = Some(there);
                continue;
            }
            let unit = [("ex", 1000), ("px", 1)].into_iter().find(|(name, _)| is(word, name));
            match (unit, words.next()) {
                (Some((_, unit)), Some(text)) if options.time.is_none_or(|(_, u)| u == unit) => {
                    options.time = Some((text, unit));
                }
                _ => return Err("syntax error".into()),
            }
        }
        Ok(options)
    }
}

/// Returns when a value expires that lasts for so many units from now.
fn expiry(server: &Database, text: &[u8], unit: i64) -> Result<i64, Vec<u8>> {
    let milliseconds = integer(text).ok_or(NO_NUMBER)?.checked_mul(unit);
    let milliseconds = milliseconds.filter(|milliseconds| *milliseconds > 0);
    let expires = milliseconds.and_then(|milliseconds| server.store.expiry(milliseconds));
    Ok(expires.ok_or("invalid expire time in 'set' command")?)
}

fn incr(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let (mut map, key) = server.store.lock(&request[1]);
    let sum = match map.get(key) {
        None => {
            map.set(key, b"1", NEVER);
            1
        }
        Some(entry) => {
            let number = integer(entry.value()).ok_or(NO_NUMBER)?;
            let sum = number.checked_add(1).ok_or("increment or decrement would overflow")?;
            entry.set_value(itoa::Buffer::new().format(sum).as_bytes());
            sum
        }
    };
    replies.integer(sum);
    Ok(())
}

fn mget(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    replies.array(request.len() - 1);
    server.store.for_each(request.from(1), |_, map, key| match map.get(key) {
        Some(entry) => replies.bulk(entry.value()),
        None => replies.nothing(),
    });
    Ok(())
}

fn mset(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if request.len().is_multiple_of(2) {
        return wrong_count("mset");
    }
    server.store.for_each(request.from(1).step_by(2), |number, map, key| {
        map.set(key, &request[2 * number + 2], NEVER);
    });
    replies.simple("OK");
    Ok(())
}

fn del(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let mut removed = 0;
    server.store.for_each(request.from(1), |_, map, key| removed += i64::from(map.remove(key)));
    replies.integer(removed);
    Ok(())
}

fn exists(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let mut found = 0;
    server.store.for_each(request.from(1), |_, map, key| {
        found += i64::from(map.get(key).is_some());
    });
    replies.integer(found);
    Ok(())
}

/// Replies with its argument, as `ECHO` does, or with `PONG`.
fn ping(_: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    match request.len() {
        1 => replies.simple("PONG"),
        2 => replies.bulk(&request[1]),
        _ => return wrong_count("ping"),
    }
    Ok(())
}

/// Selects the only database, number 0.
fn select(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if integer(&request[1]).ok_or(NO_NUMBER)? != 0 {
        return Err("DB index is out of range".into());
    }
    ok(server, request, replies)
}

/// Replies `OK`. For `QUIT`, [`Database::carry_out`] ends the connection.
fn ok(_: &Database, _: Arguments<'_>, replies: &mut Replies) -> Done {
    replies.simple("OK");
    Ok(())
}

fn dbsize(server: &Database, _: Arguments<'_>, replies: &mut Replies) -> Done {
    replies.integer(server.store.len() as i64);
    Ok(())
}

fn flushall(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if request.len() > 2 || !request.from(1).all(|word| is(word, "sync") || is(word, "async")) {
        return Err("syntax error".into());
    }
    server.store.clear();
    ok(server, request, replies)
}

/// Replies with all sections, or those that are asked for.
fn info(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let (id, seconds) = (process::id(), server.started.elapsed().as_secs());
    let about = format!(
        "redis_version:7.0.0\r\nserver_name:daiko-kv\r\nprocess_id:{id}\r\nuptime_in_seconds:{seconds}\r\n"
    );
    let keys = format!("db0:keys={}\r\n", server.store.len());
    let asked =
        |name| request.len() == 1 || request.from(1).any(|word| is(word, name) || is(word, "all"));
    let sections = [("Database", about), ("Keyspace", keys)];
    let sections = sections.into_iter().filter(|(name, _)| asked(name));
    let texts: Vec<_> = sections.map(|(name, text)| format!("# {name}\r\n{text}")).collect();
    replies.bulk(texts.join("\r\n").as_bytes());
    Ok(())
}

/// Describes commands. Clients ask to learn where the keys of a request are.
fn command(_: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    match request.from(1).next() {
        None => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(command, replies));
        }
        Some(word) if is(word, "count") && request.len() > 2 => {
            return wrong_count("command|count");
        }
        Some(word) if is(word, "count") => replies.integer(COMMANDS.len() as i64),
        Some(word) if is(word, "docs") => replies.array(0),
        Some(word) => return Err(unknown_subcommand(word, "COMMAND")),
    }
    Ok(())
}

/// Describes a command in the form of Redis before version 6, which all clients read.
fn describe(command: &KvCommand, replies: &mut Replies) {
    replies.array(6);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.words);
    replies.array(command.flags.len());
    command.flags.iter().for_each(|flag| replies.simple(flag));
    command.keys.iter().for_each(|number| replies.integer(*number));
}

/// Replies with settings that clients ask for; none can be changed.
fn config(_: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if !is(&request[1], "get") {
        return Err(unknown_subcommand(&request[1], "CONFIG"));
    }
    if request.len() < 3 {
        return wrong_count("config|get");
    }
    let settings = [("save", ""), ("appendonly", "no"), ("databases", "1"), ("maxmemory", "0")];
    let told = request.from(2).filter_map(|word| {
        let (_, value) = settings.into_iter().find(|(name, _)| is(word, name))?;
        Some([word, value.as_bytes()])
    });
    let told: Vec<_> = told.flatten().collect();
    replies.array(told.len());
    told.into_iter().for_each(|text| replies.bulk(text));
    Ok(())
}

fn wrong_count(name: &str) -> Done {
    Err(format!("wrong number of arguments for '{name}' command").into())
}

fn unknown_subcommand(word: &[u8], of: &str) -> Vec<u8> {
    let rest = format!("'. Try {of} HELP.");
    [b"unknown subcommand '", quoted(word, MOST_QUOTED), rest.as_bytes()].concat()
}

/// Returns the error of Redis for an unknown command.
fn unknown(request: Arguments<'_>) -> Vec<u8> {
    let mut told = Vec::new();
    for argument in request.from(1) {
        if told.len() >= MOST_QUOTED {
            break;
        }
        told.extend([b"'", quoted(argument, MOST_QUOTED - told.len()), b"' "].concat());
    }
    let name = quoted(&request[0], MOST_QUOTED);
    [b"unknown command '", name, b"', with args beginning with: ", &told].concat()
}

/// Compares a word with a name; upper and lower case are equal.
fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// Returns the beginning of a word, up to a byte of zero, as C would print it.
fn quoted(word: &[u8], most: usize) -> &[u8] {
    let word = &word[..word.len().min(most)];
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}
