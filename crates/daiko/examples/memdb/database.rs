//! The tables, their latches and their log.
//!
//! Each warehouse has a latch. A transaction takes those of all its warehouses in ascending order,
//! before it reads a row, and frees them when its record is among records to be written: so
//! transactions are serializable in the order of records, and none waits for another in a circle.
//! It does not wait for the log meanwhile. The next holder may see changes that are not in the file
//! yet; its reply waits for them as well.
//!
//! Locks: latches in ascending order, then those of the log.

use std::sync::{Arc, PoisonError};

use daiko::shm::Segment;

use super::contents::LogEntry;
use super::log::{Log, LogOptions, Position};
use super::platform::{Mutex, MutexGuard};
use super::request::{DbRequest, Refusal, Reply};
use super::schema::{MOST_LINES, Scale};
use super::tables::Tables;
use super::transactions::WarehouseSet;

/// The settings of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseOptions {
    /// `None`: the tables are only in memory.
    pub(crate) log: Option<LogOptions>,
    /// The numbers of rows; `None`: those of the log, or of TPC-C for one warehouse.
    pub(crate) scale: Option<Scale>,
    /// The seed of the first state, if there is no log yet.
    pub(crate) seed: u64,
}

pub(crate) struct MemDb {
    tables: Tables,
    latches: Box<[Latch]>,
    log: Option<Log>,
}

/// The right to use the rows of a warehouse, on cache lines of its own. It holds the place in the
/// log of their last change.
#[repr(align(128))]
struct Latch(Mutex<Position>);

impl MemDb {
    /// Opens a database: makes the tables in the segment that `place` makes for this scale, and
    /// fills them, or repeats the requests in the log.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn open(
        options: &DatabaseOptions,
        place: impl FnOnce(Scale) -> Result<Segment, String>,
    ) -> Result<MemDb, String> {
        let mut replayed = Replayed { place: Some(place), tables: None, problem: None };
        let log = match &options.log {
            Some(log) => Some(Log::open(log, |record| replayed.repeat(record))?),
            None => None,
        };
        if let Some(problem) = replayed.problem {
            return Err(problem);
        }
        let tables = match replayed.tables {
            Some(tables) => {
                check_scale(options, tables.scale)?;
                tables
            }
            None => {
                let scale = options.scale.unwrap_or(Scale::ONE);
                replayed.fill(options.seed, scale)?;
                if let Some(log) = &log {
                    let mut record = log.begin();
                    let entry = LogEntry::Filled { seed: options.seed, scale };
                    record.add(|contents| entry.encode(contents));
                    log.reach(record.finish()).map_err(|reason| reason.to_string())?;
                }
                replayed.tables.expect("they were filled")
            }
        };
        let latches = (0..tables.scale.warehouses).map(|_| Latch(Mutex::default())).collect();
        Ok(MemDb { tables, latches, log })
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Carries out a request. A reply may not be sent before the log has reached the position.
    pub(crate) fn execute(&self, request: &DbRequest) -> (Reply, Position) {
        if *request == DbRequest::Check {
            return self.check();
        }
        let warehouses = match WarehouseSet::of(request, self.tables.scale.warehouses) {
            Ok(warehouses) => warehouses,
            Err(refusal) => return (Reply::Refused(refusal), Position::default()),
        };
        if request.is_write()
            && let Some(reason) = self.trouble()
        {
            return (Reply::Failed(reason.to_string()), Position::default());
        }
        let mut latches = [const { None }; MOST_LINES + 1];
        let held = warehouses.numbers().len();
        for (place, number) in latches.iter_mut().zip(warehouses.numbers()) {
            *place = Some(self.latch(*number));
        }
        let latches = &mut latches[..held];
        let outcome = self.tables.carry_out(request);
        let changed = match &self.log {
            Some(log) if outcome.is_ok() && request.is_write() => {
                let mut record = log.begin();
                record.add(|contents| LogEntry::Changed(*request).encode(contents));
                let position = record.finish();
                latches.iter_mut().flatten().for_each(|latch| **latch = position);
                position
            }
            _ => latches.iter().flatten().map(|latch| **latch).max().unwrap_or_default(),
        };
        (outcome.unwrap_or_else(Reply::Refused), changed)
    }

    /// Checks all tables, while no transaction runs.
    fn check(&self) -> (Reply, Position) {
        let latches: Vec<_> =
            (1..=self.tables.scale.warehouses).map(|number| self.latch(number)).collect();
        let changed = latches.iter().map(|latch| **latch).max().unwrap_or_default();
        let checked = self.tables.check();
        (checked.map_or_else(Reply::Inconsistent, |()| Reply::Consistent), changed)
    }

    /// Returns the reason if nothing can be changed now.
    fn trouble(&self) -> Option<Arc<str>> {
        self.log.as_ref()?.trouble()
    }

    fn latch(&self, warehouse: u32) -> MutexGuard<'_, Position> {
        let latch = &self.latches[warehouse as usize - 1].0;
        // A holder that panicked was ended before it changed a row: a request is checked first.
        latch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tables while the records of a log are repeated.
struct Replayed<P> {
    place: Option<P>,
    tables: Option<Tables>,
    problem: Option<String>,
}

impl<P: FnOnce(Scale) -> Result<Segment, String>> Replayed<P> {
    /// Makes the tables, and fills them.
    fn fill(&mut self, seed: u64, scale: Scale) -> Result<(), String> {
        let place = self.place.take().ok_or(UNFIT)?;
        let segment = place(scale)?;
        let tables = Tables::place(&segment, scale).map_err(|error| error.to_string())?;
        tables.fill(seed);
        self.tables = Some(tables);
        Ok(())
    }

    fn repeat(&mut self, record: &[u8]) {
        if self.problem.is_none() {
            self.problem = self.try_repeat(record).err();
        }
    }

    fn try_repeat(&mut self, record: &[u8]) -> Result<(), String> {
        match (LogEntry::decode(record), &self.tables) {
            (Some(LogEntry::Filled { seed, scale }), None) => self.fill(seed, scale),
            (Some(LogEntry::Changed(request)), Some(tables)) => {
                let done = WarehouseSet::of(&request, tables.scale.warehouses)
                    .and_then(|_| tables.carry_out(&request));
                done.map(drop).map_err(|refusal: Refusal| format!("{UNFIT} ({refusal})"))
            }
            _ => Err(UNFIT.into()),
        }
    }
}

const UNFIT: &str =
    "the records of the log do not fit each other: restore a copy, or name another log";

/// Refuses numbers of rows that were asked for, if those of the log differ.
fn check_scale(options: &DatabaseOptions, found: Scale) -> Result<(), String> {
    if options.scale.is_none_or(|asked| asked == found) {
        return Ok(());
    }
    let Scale { warehouses, customers, items } = found;
    Err(format!(
        "the log has {warehouses} warehouses, {customers} customers of a district and {items} items: leave \
         --warehouses, --customers and --items out, or name another log"
    ))
}
