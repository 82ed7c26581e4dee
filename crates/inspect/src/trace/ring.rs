//! The rings of a process, and the right to read them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use daiko_core::inspect::{Memory, Reader, RecorderRow, WorkerRow};
use daiko_core::trace::{Cursor, Event, RawEvent};
use daiko_sys::process::write_word;

use crate::problem::InspectError;

/// The ring of one worker.
#[derive(Debug)]
struct Ring {
    row: RecorderRow,
    /// The account of the ring; `None`: there is no ring yet.
    cursor: Option<Cursor>,
    /// True if the events taken next come behind a gap.
    follows_gap: bool,
}

/// The events taken of one worker.
#[derive(Debug)]
pub(super) struct TakenEvents {
    /// The address of the worker.
    pub(super) worker: u64,
    /// True if events before the first one may be missing.
    pub(super) follows_gap: bool,
    /// The events, with their times modulo 2^56.
    pub(super) events: Vec<(Event, u64)>,
}

/// The rings of one process. Dropping it gives the right to read back.
pub(super) struct Rings<'r, M: Memory> {
    process: u32,
    reader: &'r Reader<M>,
    /// The rings, by the addresses of their workers.
    rings: HashMap<u64, Ring>,
}

impl Ring {
    /// Takes the events of `worker`, and gives credit for new events, if there is a ring.
    fn take(
        &mut self,
        process: u32,
        worker: u64,
        reader: &Reader<impl Memory>,
        credit: bool,
    ) -> Result<Option<TakenEvents>, InspectError> {
        let row = &self.row;
        if row.ring.is_none() {
            return Ok(None);
        }
        let is_first = self.cursor.is_none();
        let cursor = self.cursor.get_or_insert_with(|| Cursor::new(row.recorded));
        let unread = cursor.unread(row.recorded);
        let unread = unread.ok_or(InspectError::Traced { process, by: 0 })?;
        let Some(events) = reader.events(row, unread.first, unread.len) else { return Ok(None) };
        let is_exhausted = !is_first && cursor.is_exhausted(row.recorded);
        let end = cursor.take(unread, row.ring_events);
        write(process, row.credit_end_at, if credit { end } else { 0 })?;
        let events: Vec<_> =
            events.into_iter().filter_map(|words| RawEvent(words).parse()).collect();
        let follows_gap = self.follows_gap;
        // A gap lasts until there is an event behind it.
        self.follows_gap = is_exhausted || follows_gap && events.is_empty();
        Ok(Some(TakenEvents { worker, follows_gap, events }))
    }
}

impl<'r, M: Memory> Rings<'r, M> {
    pub(super) fn new(process: u32, reader: &'r Reader<M>) -> Self {
        Rings { process, reader, rings: HashMap::new() }
    }

    /// Enters the workers that are new, and leaves those that are gone. Returns the new workers.
    ///
    /// # Errors
    ///
    /// Another process reads a ring of theirs, or they may not be written.
    pub(super) fn enter_workers(&mut self) -> Result<Vec<WorkerRow>, InspectError> {
        let (mut here, mut new) = (HashSet::new(), Vec::new());
        for worker in self.reader.workers() {
            here.insert(worker.id);
            // A worker without a thread records nothing.
            if self.rings.contains_key(&worker.id) || worker.thread == 0 {
                continue;
            }
            let Some(row) = self.reader.recorder(worker.id) else { continue };
            let by = row.reader;
            if by != 0 && by != u64::from(std::process::id()) && lives(by) {
                return Err(InspectError::Traced { process: self.process, by });
            }
            write(self.process, row.reader_at, u64::from(std::process::id()))?;
            self.rings.insert(worker.id, Ring { row, cursor: None, follows_gap: false });
            new.push(worker);
        }
        self.rings.retain(|worker, _| here.contains(worker));
        Ok(new)
    }

    /// Takes the events of all rings, and gives new credit; without `credit`, none from now on.
    ///
    /// # Errors
    ///
    /// The memory may not be written any more, or another process gives credit as well.
    pub(super) fn take(&mut self, credit: bool) -> Result<Vec<TakenEvents>, InspectError> {
        let (process, reader, me) = (self.process, self.reader, u64::from(std::process::id()));
        let mut all = Vec::new();
        for (&worker, ring) in &mut self.rings {
            let Some(row) = reader.recorder(worker) else { continue };
            ring.row = row;
            match row.reader {
                0 => {}
                by if by != me => return Err(InspectError::Traced { process, by }),
                _ => all.extend(ring.take(process, worker, reader, credit)?),
            }
        }
        // Without a reader it is another worker, at the same address.
        self.rings.retain(|_, ring| ring.row.reader != 0);
        Ok(all)
    }

    /// Returns true if there is no worker.
    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Returns true if a worker has got credit.
    pub(super) fn have_begun(&self) -> bool {
        self.rings.values().any(|ring| ring.cursor.is_some())
    }

    /// Returns the number of workers without memory for a ring.
    pub(super) fn refused(&self) -> usize {
        self.rings.values().filter(|ring| ring.row.is_refused).count()
    }
}

impl<M: Memory> Drop for Rings<'_, M> {
    fn drop(&mut self) {
        for (&worker, ring) in &self.rings {
            let mine = |row: &RecorderRow| row.reader == u64::from(std::process::id());
            // The worker may be gone, with another use of its memory.
            if self.reader.recorder(worker).as_ref().is_some_and(mine) {
                let _ = write(self.process, ring.row.credit_end_at, 0);
                let _ = write(self.process, ring.row.reader_at, 0);
            }
        }
    }
}

/// Writes a word of a recorder that is the reader's to write.
fn write(process: u32, address: u64, word: u64) -> Result<(), InspectError> {
    if !address.is_multiple_of(8) {
        return Err(InspectError::Gone { process });
    }
    // SAFETY: the process's table says that readers write the word; the recorder takes any value.
    let written = unsafe { write_word(process, address, word) };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => InspectError::Denied { process },
        _ => InspectError::Gone { process },
    })
}

/// Returns true if there is a process with this id.
fn lives(process: u64) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}
