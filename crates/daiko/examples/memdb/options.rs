//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::database::DatabaseOptions;
use super::log::{Fsync, LogOptions};
use super::schema::Scale;

/// The commands: name, arguments, and help.
const COMMANDS: [(&str, &str, &str); 4] = [
    (
        "serve",
        "[--tcp ADDRESS] [--segment NAME [--slots N]] [--log FILE [--fsync always|everysec|no] \
         [--cut-damaged]] [--warehouses N] [--customers N] [--items N] [--seed N]",
        "serve, until stopped",
    ),
    (
        "bench",
        "--tcp ADDRESS|--segment NAME [--sessions N] [--seconds N] [--seed N]",
        "send transactions, print their number and times",
    ),
    ("check", "--tcp ADDRESS|--segment NAME|--log FILE", "check that the tables are consistent"),
    ("stop", "--segment NAME", "end the server"),
];

pub(crate) fn help() -> String {
    let lines = COMMANDS
        .map(|(verb, operands, does)| format!("  memdb {verb} {operands}\n      {does}\n\n"));
    format!(
        "An in-memory database with a log, for transactions like those of TPC-C.\n\n{}\
         NAME is that of a file in /dev/shm, or a path. --fsync says when the log lasts through a loss of\n\
         power: always before a reply, everysec each second (the default), no when the kernel likes.\n\
         A log keeps its numbers of rows: 1 warehouse, 3000 customers of a district and 100000 items, if\n\
         they are not given when it is made.\n",
        lines.concat()
    )
}

/// The action of a command line.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Help,
    Serve(ServeOptions),
    Bench(BenchOptions),
    Check(CheckedPlace),
    Stop(ServerName),
}

#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    pub(crate) tcp: Option<String>,
    pub(crate) segment: Option<OsString>,
    pub(crate) slots: u32,
    pub(crate) database: DatabaseOptions,
}

#[derive(Clone, Debug)]
pub(crate) struct BenchOptions {
    pub(crate) server: ServerName,
    pub(crate) sessions: u32,
    pub(crate) run: Duration,
    pub(crate) seed: u64,
}

/// The place of a server.
#[derive(Clone, Debug)]
pub(crate) enum ServerName {
    Tcp(String),
    Segment(OsString),
}

/// The place of tables to be checked.
#[derive(Clone, Debug)]
pub(crate) enum CheckedPlace {
    Server(ServerName),
    Log(PathBuf),
}

impl Action {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn of(words: impl Iterator<Item = OsString>) -> Result<Action, String> {
        let words: Vec<OsString> = words.collect();
        let verbs = COMMANDS.map(|(verb, ..)| verb).join(", ");
        let Some((verb, words)) = words.split_first() else {
            return Err(format!("name a command: {verbs}; see memdb --help"));
        };
        let verb = verb.to_string_lossy();
        if matches!(&*verb, "help" | "--help" | "-h") {
            return Ok(Action::Help);
        }
        let Some((verb, usage, _)) = COMMANDS.iter().find(|(known, ..)| *known == verb) else {
            return Err(format!("{verb:?} is no command; there are {verbs}; see memdb --help"));
        };
        let given = Given { words, usage: format!("use it so: memdb {verb} {usage}") };
        match *verb {
            "serve" => given.serve().map(Action::Serve),
            "bench" => given.bench().map(Action::Bench),
            "check" => given.check().map(Action::Check),
            _ => given.stop().map(Action::Stop),
        }
    }
}

/// The words behind a command, all of which are options with a value, or flags.
struct Given<'w> {
    words: &'w [OsString],
    usage: String,
}

const FLAG: &str = "--cut-damaged";

impl Given<'_> {
    /// Returns the values of these options; those given later win. Refuses all other words.
    fn values<const N: usize>(&self, names: [&str; N]) -> Result<[Option<&OsString>; N], String> {
        let (mut values, mut words) = ([None; N], self.words.iter());
        while let Some(word) = words.next() {
            let at = names.iter().position(|name| word == name);
            let at = at.ok_or_else(|| format!("unknown argument {word:?}; {}", self.usage))?;
            let value = if names[at] == FLAG { Some(word) } else { words.next() };
            values[at] =
                Some(value.ok_or_else(|| format!("{} needs a value; {}", names[at], self.usage))?);
        }
        Ok(values)
    }

    fn number(
        &self,
        name: &str,
        word: Option<&OsString>,
        within: RangeInclusive<u64>,
    ) -> Result<Option<u64>, String> {
        let Some(word) = word else { return Ok(None) };
        let number = word.to_str().and_then(|text| text.parse().ok());
        let number = number.filter(|number| within.contains(number));
        let (least, most) = (within.start(), within.end());
        let refused = || format!("{name} {word:?}: give a number from {least} to {most}");
        number.map(Some).ok_or_else(refused)
    }

    fn text(&self, name: &str, word: Option<&OsString>) -> Result<Option<String>, String> {
        let text = |word: &OsString| word.to_str().map(str::to_owned);
        let refused = |word| format!("{name} {word:?} is no text; {}", self.usage);
        word.map(|word| text(word).ok_or_else(|| refused(word))).transpose()
    }

    fn serve(&self) -> Result<ServeOptions, String> {
        let names = [
            "--tcp",
            "--segment",
            "--slots",
            "--log",
            "--fsync",
            FLAG,
            "--warehouses",
            "--customers",
            "--items",
            "--seed",
        ];
        let [tcp, segment, slots, log, fsync, cut, warehouses, customers, items, seed] =
            self.values(names)?;
        if tcp.is_none() && segment.is_none() {
            return Err(format!(
                "name --tcp ADDRESS or --segment NAME to serve at; {}",
                self.usage
            ));
        }
        if log.is_none() && (fsync.is_some() || cut.is_some()) {
            return Err(format!("--fsync and {FLAG} need --log FILE; {}", self.usage));
        }
        if slots.is_some() && segment.is_none() {
            return Err(format!("--slots needs --segment NAME; {}", self.usage));
        }
        let log = match log {
            None => None,
            Some(path) => {
                let options = LogOptions::new(Path::new(path));
                let fsync = fsync.map_or(Ok(options.fsync), |word| self.fsync(word))?;
                // It is never rewritten.
                let rewrite_bytes = u64::MAX;
                Some(LogOptions { fsync, cuts_damaged: cut.is_some(), rewrite_bytes, ..options })
            }
        };
        let most = |number| 1..=number;
        let numbers = [
            self.number("--warehouses", warehouses, most(1024))?,
            self.number("--customers", customers, most(100_000))?,
            self.number("--items", items, most(1_000_000))?,
        ];
        let slots = self.number("--slots", slots, most(4096))?.unwrap_or(256) as u32;
        let seed = self.number("--seed", seed, 0..=u64::MAX)?.unwrap_or(1);
        let database = DatabaseOptions { log, scale: scale(numbers), seed };
        Ok(ServeOptions {
            tcp: self.text("--tcp", tcp)?,
            segment: segment.cloned(),
            slots,
            database,
        })
    }

    fn fsync(&self, word: &OsString) -> Result<Fsync, String> {
        let found = Fsync::NAMES.iter().find(|(name, _)| word == name).map(|(_, fsync)| *fsync);
        found.ok_or_else(|| format!("--fsync {word:?} is none of these; {}", self.usage))
    }

    fn bench(&self) -> Result<BenchOptions, String> {
        let names = ["--tcp", "--segment", "--sessions", "--seconds", "--seed"];
        let [tcp, segment, sessions, seconds, seed] = self.values(names)?;
        let sessions = self.number("--sessions", sessions, 1..=100_000)?.unwrap_or(16) as u32;
        let seconds = self.number("--seconds", seconds, 1..=3600)?.unwrap_or(5);
        let seed = self.number("--seed", seed, 0..=u64::MAX)?.unwrap_or(1);
        let server = self.server(tcp, segment)?;
        Ok(BenchOptions { server, sessions, run: Duration::from_secs(seconds), seed })
    }

    fn check(&self) -> Result<CheckedPlace, String> {
        match self.values(["--tcp", "--segment", "--log"])? {
            [None, None, Some(log)] => Ok(CheckedPlace::Log(log.into())),
            [tcp, segment, None] => self.server(tcp, segment).map(CheckedPlace::Server),
            _ => Err(format!("name one place; {}", self.usage)),
        }
    }

    fn stop(&self) -> Result<ServerName, String> {
        let [segment] = self.values(["--segment"])?;
        self.server(None, segment)
    }

    fn server(
        &self,
        tcp: Option<&OsString>,
        segment: Option<&OsString>,
    ) -> Result<ServerName, String> {
        match (self.text("--tcp", tcp)?, segment) {
            (Some(address), None) => Ok(ServerName::Tcp(address)),
            (None, Some(name)) => Ok(ServerName::Segment(name.clone())),
            _ => Err(format!("name one server; {}", self.usage)),
        }
    }
}

/// Returns the numbers of rows if one is given; those that are not are those of TPC-C.
fn scale([warehouses, customers, items]: [Option<u64>; 3]) -> Option<Scale> {
    let or = |number: Option<u64>, other| number.map_or(other, |number| number as u32);
    let one = Scale::ONE;
    let scale = Scale {
        warehouses: or(warehouses, one.warehouses),
        customers: or(customers, one.customers),
        items: or(items, one.items),
    };
    [warehouses, customers, items].iter().any(Option::is_some).then_some(scale)
}
