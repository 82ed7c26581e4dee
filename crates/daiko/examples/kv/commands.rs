//! The commands, and their replies.

use std::process;
use std::sync::Arc;
use std::time::Instant;

use super::buffers::Pool;
use super::log::{Fsync, Log, LogFacts, LogOptions};
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
static COMMANDS: [KvCommand; 17] = [
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
    KvCommand { name: "bgrewriteaof", words: 1, flags: &["admin"], keys: NO_KEY, run: rewrite },
    KvCommand { name: "config", words: -2, flags: &["admin"], keys: NO_KEY, run: config },
];

/// The most bytes that an error quotes of an unknown command.
const MOST_QUOTED: usize = 128;
const NO_NUMBER: &str = "value is not an integer or out of range";

impl Database {
    /// Creates a database that is only in memory.
    pub(crate) fn new() -> Database {
        Database::of(Store::new())
    }

    /// Opens a database that lasts in a log. [`keep`](Self::keep) has to run beside it.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn open(options: &LogOptions) -> Result<Arc<Database>, String> {
        Store::open(options).map(|store| Arc::new(Database::of(store)))
    }

    fn of(store: Store) -> Database {
        Database { buffers: Pool::default(), store, started: Instant::now() }
    }

    /// Starts the fibers that synchronise the log each second, and rewrite it.
    pub(crate) fn keep(self: &Arc<Self>) {
        let (keeper, rewriter) = (Arc::clone(self), Arc::clone(self));
        daiko::spawn(move || keeper.store.log().map(Log::keep));
        daiko::spawn(move || {
            while let Some(log) = rewriter.store.log() {
                log.await_rewrite();
                rewriter.rewrite();
            }
        });
    }

    /// Rewrites the log, so that it has the present keys only.
    pub(crate) fn rewrite(&self) {
        self.store.rewrite_log();
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
            true if command.flags == WRITE && self.store.log().is_some() => {
                self.change(command, request, replies)
            }
            true => (command.run)(self, request, replies),
            false => wrong_count(command.name),
        };
        done.unwrap_or_else(|text| replies.error(&text));
        command.name != "quit"
    }

    /// Carries out a command that changes keys in a log.
    fn change(&self, command: &KvCommand, request: Arguments<'_>, replies: &mut Replies) -> Done {
        if let Some(reason) = self.store.trouble() {
            replies.refuse(&reason);
            return Ok(());
        }
        let start = replies.bytes.len();
        (command.run)(self, request, replies)?;
        replies.confirm(start);
        Ok(())
    }

    /// Waits until the log has all that the replies tell of. If it cannot, those that confirm a
    /// change become errors.
    pub(crate) fn settle(&self, replies: &mut Replies) {
        if let Some(log) = self.store.log()
            && let Err(reason) = log.reach(replies.after())
        {
            replies.refuse_after(log.reached(), &reason);
        }
    }
}

fn find(name: &[u8]) -> Option<&'static KvCommand> {
    COMMANDS.iter().find(|command| is(name, command.name))
}

fn get(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let ((), position) = server.store.read(&request[1], |map, key| match map.get(key) {
        Some(entry) => replies.bulk(entry.value()),
        None => replies.nothing(),
    });
    replies.follow(position);
    Ok(())
}

fn set(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let SetOptions { only_if, time } = SetOptions::of(request)?;
    let expires = time.map_or(Ok(NEVER), |(text, unit)| expiry(server, text, unit))?;
    let (is_set, position) = server.store.change(&request[1], |writer, map, key| {
        let is_set = only_if.is_none_or(|there| there == map.get(key).is_some());
        if is_set {
            writer.set(map, key, &request[2], expires);
        }
        is_set
    });
    replies.follow(position);
    if is_set {
        replies.simple("OK")
    } else {
        replies.nothing()
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
    let (sum, position) = server.store.change(&request[1], |writer, map, key| {
        let Some(entry) = map.get(key) else {
            writer.set(map, key, b"1", NEVER);
            return Ok(1);
        };
        let number = integer(entry.value()).ok_or(NO_NUMBER)?;
        let sum = number.checked_add(1).ok_or("increment or decrement would overflow")?;
        writer.set_value(entry, itoa::Buffer::new().format(sum).as_bytes());
        Ok::<i64, &str>(sum)
    });
    replies.follow(position);
    replies.integer(sum?);
    Ok(())
}

fn mget(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    replies.array(request.len() - 1);
    let position = server.store.read_each(request.from(1), |map, key| match map.get(key) {
        Some(entry) => replies.bulk(entry.value()),
        None => replies.nothing(),
    });
    replies.follow(position);
    Ok(())
}

fn mset(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if request.len().is_multiple_of(2) {
        return wrong_count("mset");
    }
    let keys = request.from(1).step_by(2);
    let position = server.store.change_each(keys, |number, writer, map, key| {
        writer.set(map, key, &request[2 * number + 2], NEVER);
    });
    replies.follow(position);
    replies.simple("OK");
    Ok(())
}

fn del(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let mut removed = 0;
    let position = server.store.change_each(request.from(1), |_, writer, map, key| {
        removed += i64::from(writer.remove(map, key));
    });
    replies.follow(position);
    replies.integer(removed);
    Ok(())
}

fn exists(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let mut found = 0;
    let position = server.store.read_each(request.from(1), |map, key| {
        found += i64::from(map.get(key).is_some());
    });
    replies.follow(position);
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
    let (keys, position) = server.store.len();
    replies.follow(position);
    replies.integer(keys as i64);
    Ok(())
}

fn flushall(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if request.len() > 2 || !request.from(1).all(|word| is(word, "sync") || is(word, "async")) {
        return Err("syntax error".into());
    }
    replies.follow(server.store.clear());
    ok(server, request, replies)
}

/// Replies with all sections, or those that are asked for.
fn info(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    let (id, seconds) = (process::id(), server.started.elapsed().as_secs());
    let about = format!(
        "redis_version:7.0.0\r\nserver_name:daiko-kv\r\nprocess_id:{id}\r\nuptime_in_seconds:{seconds}\r\n"
    );
    let (keys, position) = server.store.len();
    replies.follow(position);
    let keys = format!("db0:keys={keys}\r\n");
    let asked =
        |name| request.len() == 1 || request.from(1).any(|word| is(word, name) || is(word, "all"));
    let sections = [("Database", about), ("Persistence", persistence(server)), ("Keyspace", keys)];
    let sections = sections.into_iter().filter(|(name, _)| asked(name));
    let texts: Vec<_> = sections.map(|(name, text)| format!("# {name}\r\n{text}")).collect();
    replies.bulk(texts.join("\r\n").as_bytes());
    Ok(())
}

/// Returns the facts of the log, by the names of Redis.
fn persistence(server: &Database) -> String {
    let Some(log) = server.store.log() else { return "aof_enabled:0\r\n".into() };
    let LogFacts { bytes, rewritten_bytes, rewrites, is_rewriting, refuses_writes } = log.facts();
    let status = if refuses_writes { "err" } else { "ok" };
    format!(
        "aof_enabled:1\r\naof_rewrite_in_progress:{}\r\naof_rewrites:{rewrites}\r\n\
         aof_last_write_status:{status}\r\naof_current_size:{bytes}\r\naof_base_size:{rewritten_bytes}\r\n",
        u8::from(is_rewriting)
    )
}

/// Starts a rewrite of the log.
fn rewrite(server: &Database, _: Arguments<'_>, replies: &mut Replies) -> Done {
    let log = server.store.log().ok_or("there is no log: start the server with --log FILE")?;
    if !log.rewrite_now() {
        return Err("Background append only file rewriting already in progress".into());
    }
    replies.simple("Background append only file rewriting started");
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
fn config(server: &Database, request: Arguments<'_>, replies: &mut Replies) -> Done {
    if !is(&request[1], "get") {
        return Err(unknown_subcommand(&request[1], "CONFIG"));
    }
    if request.len() < 3 {
        return wrong_count("config|get");
    }
    let fsync = server.store.log().map(Log::fsync);
    let settings = [
        ("save", ""),
        ("appendonly", if fsync.is_some() { "yes" } else { "no" }),
        ("appendfsync", fsync.unwrap_or(Fsync::EverySecond).name()),
        ("databases", "1"),
        ("maxmemory", "0"),
    ];
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
