//! Logs of any bytes: the keys are those of the first records, or the log is refused.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::commands::Database;
use super::contents::{self, KeyChange};
use super::log::{Fsync, LogOptions};
use super::peer::{ask, encoded, replies};
use super::pipelines::{WORDS, pipeline};
use super::record::{Format, HEAD_BYTES};
use super::replay::{ReplayError, Rest, replay};
use super::support::{until, workers};

/// A folder with a log.
pub(super) struct LogFolder {
    pub(super) folder: TempDir,
    pub(super) path: PathBuf,
}

impl LogFolder {
    pub(super) fn new() -> LogFolder {
        let folder = TempDir::with_prefix("daiko-kv-").unwrap();
        let path = folder.path().join("log");
        LogFolder { folder, path }
    }

    fn open(&self) -> Arc<Database> {
        Database::open(&LogOptions::new(&self.path)).unwrap()
    }

    /// Makes a log with records of these requests.
    fn filled(lines: &[&str]) -> LogFolder {
        let folder = LogFolder::new();
        let server = folder.open();
        lines.iter().for_each(|line| _ = ask(&server, format!("{line}\r\n").as_bytes()));
        folder
    }
}

/// The values of all keys that pipelines have.
fn keys(server: &Database) -> Vec<u8> {
    let mut all = ask(server, &encoded([&b"mget"[..]].into_iter().chain(WORDS)));
    all.extend(ask(server, b"dbsize\r\n"));
    all
}

/// Changes as owned values.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Set(Vec<u8>, Vec<u8>, i64),
    Remove(Vec<u8>),
    Clear,
}

impl Owned {
    fn of(change: KeyChange<'_>) -> Owned {
        match change {
            KeyChange::Set { key, value, expires } => Owned::Set(key.into(), value.into(), expires),
            KeyChange::Remove { key } => Owned::Remove(key.into()),
            KeyChange::Clear => Owned::Clear,
            KeyChange::Rewritten => unreachable!("it is no change"),
        }
    }

    fn change(&self) -> KeyChange<'_> {
        match self {
            Owned::Set(key, value, expires) => KeyChange::Set { key, value, expires: *expires },
            Owned::Remove(key) => KeyChange::Remove { key },
            Owned::Clear => KeyChange::Clear,
        }
    }
}

fn change() -> impl Strategy<Value = Owned> {
    let text = || vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (text(), text(), any::<i64>()).prop_map(|(key, value, expires)| Owned::Set(key, value, expires)),
        2 => text().prop_map(Owned::Remove),
        1 => Just(Owned::Clear),
    ]
}

fn records() -> impl Strategy<Value = Vec<Vec<Owned>>> {
    vec(vec(change(), 1..4), 1..8)
}

/// Returns the bytes of a log, and the end of each record.
fn log_of(format: Format, records: &[Vec<Owned>]) -> (Vec<u8>, Vec<usize>) {
    let mut log = format.head().to_vec();
    let mut append = |record: &Vec<Owned>| {
        let changes: Vec<_> = record.iter().map(Owned::change).collect();
        format.append(&mut log, &contents::encoded(&changes));
        log.len()
    };
    let ends = records.iter().map(&mut append).collect();
    (log, ends)
}

/// Replays a log, and returns the changes, the number of bytes of the records, and the rest.
fn replayed(log: &[u8]) -> Result<(Vec<Owned>, usize, Rest), ReplayError> {
    let mut changes = Vec::new();
    let each = |record: &[u8]| changes.extend(contents::changes(record).map(Owned::of));
    let contents = replay(log, each)?;
    Ok((changes, contents.bytes as usize, contents.rest))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_that_is_cut_anywhere_has_the_whole_records_before(records in records(), cut in any::<prop::sample::Index>()) {
        let (log, ends) = log_of(Format::new(), &records);
        let cut = HEAD_BYTES + cut.index(log.len() - HEAD_BYTES + 1);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let end = ends[..whole].last().copied().unwrap_or(HEAD_BYTES);
        let (changes, bytes, rest) = replayed(&log[..cut]).unwrap();
        prop_assert_eq!(changes, records[..whole].concat());
        let torn = if cut == end { Rest::None } else { Rest::Torn((cut - end) as u64) };
        prop_assert_eq!((bytes, rest), (end, torn));
    }

    #[test]
    fn a_flipped_bit_ends_a_log_and_whole_records_behind_it_are_told(records in records(), place in any::<prop::sample::Index>(), bit in 0..8u8) {
        let (mut log, ends) = log_of(Format::new(), &records);
        let place = HEAD_BYTES + place.index(log.len() - HEAD_BYTES);
        log[place] ^= 1 << bit;
        let whole = ends.iter().filter(|end| **end <= place).count();
        let (changes, bytes, rest) = replayed(&log).unwrap();
        prop_assert_eq!(changes, records[..whole].concat());
        prop_assert_eq!(bytes, ends[..whole].last().copied().unwrap_or(HEAD_BYTES));
        let behind = (log.len() - bytes) as u64;
        let is_last = whole + 1 == records.len();
        prop_assert_eq!(rest, if is_last { Rest::Torn(behind) } else { Rest::Damaged(behind) });
    }

    #[test]
    fn any_bytes_are_no_record(bytes in vec(any::<u8>(), 0..300)) {
        let log = [&Format::new().head()[..], &bytes].concat();
        let (changes, end, rest) = replayed(&log).unwrap();
        let torn = if bytes.is_empty() { Rest::None } else { Rest::Torn(bytes.len() as u64) };
        prop_assert_eq!((changes, end, rest), (Vec::new(), HEAD_BYTES, torn));
        prop_assert!(matches!(replayed(&bytes), Err(ReplayError::Foreign)));
    }

    /// A client that knows the form of a log stores values that look like records, of another seed.
    #[test]
    fn a_value_never_counts_as_a_record(records in records()) {
        let format = Format::new();
        let other = loop {
            let other = Format::new();
            if other != format {
                break other;
            }
        };
        let (value, _) = log_of(other, &records);
        let (mut log, _) = log_of(format, &[std::vec![Owned::Set(b"k".into(), value, 0)]]);
        log[HEAD_BYTES + 8] ^= 1;
        let (changes, end, rest) = replayed(&log).unwrap();
        let behind = (log.len() - HEAD_BYTES) as u64;
        prop_assert_eq!((changes, end, rest), (Vec::new(), HEAD_BYTES, Rest::Torn(behind)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_log_has_the_keys_that_its_server_had(pipelines in vec(pipeline(), 1..4)) {
        let folder = LogFolder::new();
        let memory = Database::new();
        for bytes in &pipelines {
            let server = folder.open();
            // The replies are those without a log.
            prop_assert_eq!(ask(&server, bytes), ask(&memory, bytes));
            prop_assert_eq!(keys(&server), keys(&memory));
        }
        prop_assert_eq!(keys(&folder.open()), keys(&memory));
    }
}

#[test]
fn a_log_that_is_torn_at_any_byte_of_its_last_record_is_cut_there() {
    let folder = LogFolder::filled(&["mset a 1 b 2", "incr a", "mset a 3 c 4"]);
    let whole = fs::read(&folder.path).unwrap();
    let (_, _, rest) = replayed(&whole).unwrap();
    assert_eq!(rest, Rest::None);
    // MSET of two words with one byte each: two changes.
    let last = whole.len() - (12 + 2 * (1 + 8 + 2 * (4 + 1)));
    for cut in last..whole.len() {
        fs::write(&folder.path, &whole[..cut]).unwrap();
        let server = folder.open();
        assert_eq!(fs::metadata(&folder.path).unwrap().len(), last as u64, "{cut}");
        assert_eq!(ask(&server, b"mget a b c\r\n"), b"*3\r\n$1\r\n2\r\n$1\r\n2\r\n$-1\r\n");
        // The log goes on behind the cut.
        ask(&server, b"set c 5\r\n");
        drop(server);
        assert_eq!(
            ask(&folder.open(), b"mget a b c\r\n"),
            b"*3\r\n$1\r\n2\r\n$1\r\n2\r\n$1\r\n5\r\n"
        );
    }
}

#[test]
fn a_log_with_a_damaged_record_in_the_middle_is_refused_and_left_alone() {
    let folder = LogFolder::filled(&["set a 1", "set b 2", "set c 3"]);
    let whole = fs::read(&folder.path).unwrap();
    let bytes = (whole.len() - HEAD_BYTES) / 3;
    for byte in HEAD_BYTES + bytes..HEAD_BYTES + 2 * bytes {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x40;
        fs::write(&folder.path, &damaged).unwrap();
        let error = Database::open(&LogOptions::new(&folder.path)).err().unwrap();
        let place = format!("is damaged at byte {}", HEAD_BYTES + bytes);
        assert!(error.contains(&place) && error.contains("--cut-damaged"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(fs::read(&folder.path).unwrap() == damaged);
        let options = LogOptions { cuts_damaged: true, ..LogOptions::new(&folder.path) };
        let server = Database::open(&options).unwrap();
        assert_eq!(ask(&server, b"mget a b c\r\n"), b"*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n");
    }
}

#[test]
fn a_file_that_is_no_log_is_refused_and_left_alone() {
    let folder = LogFolder::new();
    for contents in [&b"a letter"[..], b"a letter to a friend, long enough", &[0; 100]] {
        fs::write(&folder.path, contents).unwrap();
        let error = Database::open(&LogOptions::new(&folder.path)).err().unwrap();
        assert!(error.ends_with("is no log of this program: name another file"), "{error}");
        assert_eq!(fs::read(&folder.path).unwrap(), contents);
    }
    let error = Database::open(&LogOptions::new(folder.folder.path())).err().unwrap();
    assert!(error.starts_with("cannot open the log ") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_rewritten_log_is_shorter_and_has_the_same_keys() {
    let folder = LogFolder::filled(&["mset a 1 b 2", "set c 3 ex 1000", "set d 4 px 1", "del b"]);
    let server = folder.open();
    (0..1000).for_each(|_| _ = ask(&server, b"incr n\r\n"));
    let long = fs::metadata(&folder.path).unwrap().len();
    server.rewrite();
    ask(&server, b"set e 5\r\n");
    drop(server);
    assert!(fs::metadata(&folder.path).unwrap().len() < long / 50);
    let server = folder.open();
    let expected = b"*6\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$-1\r\n$1\r\n5\r\n$4\r\n1000\r\n";
    assert_eq!(ask(&server, b"mget a b c d e n\r\n"), expected);
    let only = fs::read_dir(folder.folder.path()).unwrap().count();
    assert_eq!(only, 1, "the new file has the name of the log");
}

#[test]
fn a_value_expires_at_the_same_time_after_a_restart() {
    let folder =
        LogFolder::filled(&["set a 1 px 50", "set b 1 ex 1000", "set n 1 px 50", "incr n"]);
    until("the end of a", || ask(&folder.open(), b"exists a n\r\n") == b":0\r\n");
    assert_eq!(ask(&folder.open(), b"exists a b\r\n"), b":1\r\n");
}

#[test]
fn fibers_that_count_at_a_time_beside_rewrites_lose_nothing() {
    for fsync in Fsync::NAMES.map(|(_, fsync)| fsync) {
        let folder = LogFolder::new();
        let options = LogOptions { fsync, rewrite_bytes: 4096, ..LogOptions::new(&folder.path) };
        let runtime = workers(2);
        runtime.run(move || {
            let server = Database::open(&options).unwrap();
            server.keep();
            let counters = (0..40).map(|number| {
                let server = Arc::clone(&server);
                daiko::Builder::new().spread().spawn(move || {
                    let line = format!("incr all\r\nincr {number}\r\n");
                    (0..25).for_each(|_| _ = ask(&server, line.as_bytes()));
                })
            });
            let counters: Vec<_> = counters.map(Result::unwrap).collect();
            counters.into_iter().for_each(|counter| counter.join().unwrap());
        });
        // The fibers that keep the log.
        assert_eq!(runtime.shutdown().unwound, 2);
        let server = folder.open();
        assert_eq!(
            ask(&server, b"get all\r\nget 7\r\ndbsize\r\n"),
            b"$4\r\n1000\r\n$2\r\n25\r\n:41\r\n"
        );
    }
}

#[test]
fn without_a_log_there_is_nothing_to_rewrite() {
    assert_eq!(
        replies(b"bgrewriteaof\r\n"),
        b"-ERR there is no log: start the server with --log FILE\r\n"
    );
}
