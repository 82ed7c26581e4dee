//! Databases of tests, and their rows.

use std::path::{Path, PathBuf};

use daiko::shm::bytemuck::{Pod, bytes_of};
use daiko::shm::{Array, Segment};
use tempfile::TempDir;

use super::database::{DatabaseOptions, MemDb};
use super::log::{Fsync, LogOptions};
use super::mix::Mix;
use super::request::DbRequest;
use super::schema::Scale;
use super::support::until;
use super::tables::Tables;

/// Few rows, so that they are written again and again.
pub(super) const SMALL: Scale = Scale { warehouses: 3, customers: 30, items: 200 };

/// A database, and the same tables once more.
pub(super) struct Opened {
    pub(super) database: MemDb,
    pub(super) tables: Tables,
}

/// A folder with a log.
pub(super) struct LogFolder {
    pub(super) folder: TempDir,
    pub(super) path: PathBuf,
}

pub(super) fn segment(scale: Scale) -> Segment {
    Segment::anonymous(Tables::bytes(scale) + (1 << 20)).unwrap()
}

/// Opens a database with small tables.
pub(super) fn open(options: &DatabaseOptions) -> Result<Opened, String> {
    // A process that another test has forked keeps the locks of all files until it becomes another
    // program.
    let is_locked = |error: &String| error.starts_with("another server has the log ");
    let mut opened = try_open(options);
    until("the lock", || {
        if opened.as_ref().is_err_and(&is_locked) {
            opened = try_open(options);
        }
        !opened.as_ref().is_err_and(&is_locked)
    });
    opened
}

fn try_open(options: &DatabaseOptions) -> Result<Opened, String> {
    let mut placed = None;
    let database = MemDb::open(options, |scale| {
        let segment = segment(scale);
        placed = Some((segment.clone(), scale));
        Ok(segment)
    })?;
    let (segment, scale) = placed.unwrap();
    Ok(Opened { database, tables: Tables::place(&segment, scale).unwrap() })
}

/// Opens a database that is only in memory.
pub(super) fn in_memory() -> Opened {
    open(&DatabaseOptions { log: None, scale: Some(SMALL), seed: 7 }).unwrap()
}

impl LogFolder {
    pub(super) fn new() -> LogFolder {
        let folder = TempDir::with_prefix("daiko-memdb-").unwrap();
        let path = folder.path().join("log");
        LogFolder { folder, path }
    }

    pub(super) fn options(&self) -> DatabaseOptions {
        log_options(&self.path, Fsync::Never)
    }

    pub(super) fn open(&self) -> Opened {
        open(&self.options()).unwrap()
    }

    /// Makes a log with records of so many requests.
    pub(super) fn filled(requests: usize) -> LogFolder {
        let folder = LogFolder::new();
        let opened = folder.open();
        writes().take(requests).for_each(|request| {
            assert!(opened.database.execute(&request).1 > Default::default(), "{request:?}");
        });
        let log = opened.database.log().unwrap();
        log.reach(opened.database.execute(&DbRequest::Check).1).unwrap();
        folder
    }
}

pub(super) fn log_options(path: &Path, fsync: Fsync) -> DatabaseOptions {
    let log = LogOptions { fsync, rewrite_bytes: u64::MAX, ..LogOptions::new(path) };
    DatabaseOptions { log: Some(log), scale: Some(SMALL), seed: 7 }
}

/// Requests that change rows, and are not refused.
pub(super) fn writes() -> impl Iterator<Item = DbRequest> {
    let mut mix = Mix::new(3, 0, SMALL);
    let is_refused = |request: &DbRequest| match request {
        DbRequest::NewOrder(order) => order.lines().iter().any(|line| line.item > SMALL.items),
        _ => false,
    };
    std::iter::repeat_with(move || mix.next().1)
        .filter(move |request| request.is_write() && !is_refused(request))
}

/// Returns all rows.
pub(super) fn rows(tables: &Tables) -> Vec<u8> {
    fn add<T: Pod>(rows: &mut Vec<u8>, table: &Array<T>) {
        (0..table.len()).for_each(|index| rows.extend_from_slice(bytes_of(&table.get(index))));
    }
    let mut rows = Vec::new();
    add(&mut rows, &tables.warehouses);
    add(&mut rows, &tables.districts);
    add(&mut rows, &tables.customers);
    add(&mut rows, &tables.items);
    add(&mut rows, &tables.stock);
    add(&mut rows, &tables.orders);
    add(&mut rows, &tables.lines);
    rows
}
