//! The log: each change is a record in a file before its client hears of it.
//!
//! A request that changes data adds its record to the pending records while it has the locks of
//! the data, so that records have the order of the changes. Before the replies of a connection are
//! sent, its fiber waits until the log has reached their position ([`Log::reach`]). The first
//! waiter is the *leader*: it lets the runnable fibers add their records, writes all of them, and
//! wakes the other waiters. One write, and one `fdatasync`, serve many requests.
//!
//! - A write fails as there is no room: writes are refused until there is room, which is tried
//!   again each second.
//! - It fails for another reason, or a synchronisation fails: writes are refused until a restart;
//!   the state of the device is unknown, so nothing is tried again.
//!
//! The reply to a change is an error then, but the change stays in memory, where other requests
//! see it, and is written once there is room.
//!
//! Locks: those of the data before `state`; `file` before `state`.
//!
//! Two examples include this module and those beside it. A program gives them two modules of its
//! own: `contents`, which defines the contents of records, and `platform`.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::contents::REWRITTEN_NOTE;
use super::file::{AppendError, LogFile, sync_folder, tell};
use super::platform::{self, Condvar, Event, Mutex, MutexGuard, let_run};
use super::record::{Format, begin};

/// The bytes that a rewrite may leave to be copied while writes wait.
const FEW_BYTES: u64 = 64 << 10;
/// The capacity that the buffer of pending records keeps.
const KEPT_BYTES: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// The time at which written records are made to last (`fdatasync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fsync {
    /// Before the reply: a loss of power loses no change that was confirmed.
    Always,
    /// Each second: a loss of power loses those of the last one or two seconds.
    EverySecond,
    /// At a time that the kernel chooses.
    Never,
}

impl Fsync {
    /// All, with their names, which are those of Redis.
    pub(crate) const NAMES: [(&str, Fsync); 3] =
        [("always", Fsync::Always), ("everysec", Fsync::EverySecond), ("no", Fsync::Never)];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, fsync)| *fsync == self).map_or("", |(name, _)| name)
    }
}

/// The settings of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    pub(crate) path: PathBuf,
    pub(crate) fsync: Fsync,
    /// The length from which the log is rewritten, whenever it has doubled.
    pub(crate) rewrite_bytes: u64,
    /// Whether records behind a damaged one are given up.
    pub(crate) cuts_damaged: bool,
}

impl LogOptions {
    pub(crate) fn new(path: &Path) -> LogOptions {
        let (path, fsync) = (path.into(), Fsync::EverySecond);
        LogOptions { path, fsync, rewrite_bytes: 64 << 20, cuts_damaged: false }
    }
}

/// A number of bytes of records, counted from the start of the server. 0: no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

pub(crate) struct Log {
    format: Format,
    fsync: Fsync,
    rewrite_bytes: u64,
    /// Held while records are written, and while the file is replaced.
    file: Mutex<LogFile>,
    state: Mutex<LogState>,
    /// Waiters for a turn of a leader, by its number.
    turns: [Condvar; 2],
    /// All records up to this position have been written, and synchronised if `fsync` is `Always`.
    /// Stored by the leader.
    reached: AtomicU64,
    /// Set when the log is to be rewritten.
    rewrite_is_due: Event,
}

struct LogState {
    /// The records that no leader has taken.
    pending: Vec<u8>,
    /// An empty buffer for later records.
    spare: Vec<u8>,
    /// The position behind the last record.
    end: u64,
    /// The position behind the last record that a leader has taken.
    taken: u64,
    /// The number of turns of leaders that have begun.
    turn: usize,
    is_led: bool,
    trouble: Option<Trouble>,
    facts: LogFacts,
    /// The length from which the file is rewritten.
    rewrite_from: u64,
}

/// Facts for the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFacts {
    /// The bytes of the file now, and after the last rewrite.
    pub(crate) bytes: u64,
    pub(crate) rewritten_bytes: u64,
    /// The number of rewrites, and whether one is under way.
    pub(crate) rewrites: u64,
    pub(crate) is_rewriting: bool,
    pub(crate) refuses_writes: bool,
}

/// The reason why writes are refused.
#[derive(Clone)]
struct Trouble {
    text: Arc<str>,
    ends: TroubleEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TroubleEnd {
    WithRoom,
    Never,
}

impl Log {
    /// Opens the log, and calls `each` with the contents of its records.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn open(options: &LogOptions, each: impl FnMut(&[u8])) -> Result<Log, String> {
        let (file, contents) = LogFile::open(&options.path, options.cuts_damaged, each)?;
        let facts = LogFacts {
            bytes: file.len,
            rewritten_bytes: contents.rewritten,
            rewrites: 0,
            is_rewriting: false,
            refuses_writes: false,
        };
        let state = LogState {
            pending: Vec::new(),
            spare: Vec::new(),
            end: 0,
            taken: 0,
            turn: 0,
            is_led: false,
            trouble: None,
            facts,
            rewrite_from: options.rewrite_bytes.max(2 * contents.rewritten),
        };
        let log = Log {
            format: contents.format,
            fsync: options.fsync,
            rewrite_bytes: options.rewrite_bytes,
            file: Mutex::new(file),
            state: Mutex::new(state),
            turns: Default::default(),
            reached: AtomicU64::new(0),
            rewrite_is_due: Event::auto(),
        };
        log.ask_for_rewrite(&log.state());
        Ok(log)
    }

    pub(crate) fn fsync(&self) -> Fsync {
        self.fsync
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn facts(&self) -> LogFacts {
        let state = self.state();
        LogFacts { refuses_writes: state.trouble.is_some(), ..state.facts }
    }

    /// Returns the reason if writes are refused now.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.state().trouble.as_ref().map(|trouble| trouble.text.clone())
    }

    /// Begins a record. The caller has the locks of the data that it changes.
    pub(crate) fn begin(&self) -> Record<'_> {
        let mut state = self.state();
        let start = begin(&mut state.pending);
        Record { format: self.format, state, start }
    }

    /// Returns the position up to which records have been written as the settings demand.
    pub(crate) fn reached(&self) -> Position {
        // Acquire: pairs with the Release in `lead`. Records before it are in the file.
        Position(self.reached.load(Ordering::Acquire))
    }

    /// Waits until all records up to `position` have been written, and synchronised if the settings
    /// demand it.
    ///
    /// # Errors
    ///
    /// The reason, for the client, if that fails. Records up to [`reached`](Self::reached) are
    /// safe.
    pub(crate) fn reach(&self, position: Position) -> Result<(), Arc<str>> {
        if position <= self.reached() {
            return Ok(());
        }
        let mut state = self.state();
        loop {
            if position <= self.reached() {
                return Ok(());
            }
            if let Some(trouble) = &state.trouble {
                return Err(trouble.text.clone());
            }
            if state.is_led {
                let is_taken = position.0 <= state.taken;
                let turn = &self.turns[(state.turn + usize::from(!is_taken)) % 2];
                state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_led = true;
            drop(state);
            self.lead();
            state = self.state();
        }
    }

    /// Writes all pending records. The caller has become the leader.
    fn lead(&self) {
        let leader = Leader { log: self };
        // Fibers that can run add their records to this turn.
        let_run();
        let mut file = self.file();
        let (mut records, end) = self.state().take();
        let appended = file.append(&records, self.fsync == Fsync::Always);
        let mut state = self.state();
        match appended {
            Ok(()) => {
                // Release: pairs with the Acquire in `reached`.
                self.reached.store(end, Ordering::Release);
                state.facts.bytes = file.len;
                state.recover();
                self.ask_for_rewrite(&state);
                records.clear();
                records.shrink_to(KEPT_BYTES);
                state.spare = records;
            }
            Err(AppendError::NoRoom(error)) => {
                records.extend_from_slice(&state.pending);
                state.pending = records;
                let text = format!("the log cannot be written: {error}; make room for it");
                self.refuse(&mut state, &text, TroubleEnd::WithRoom);
            }
            Err(AppendError::Failed(error)) => self.refuse_for_ever(&mut state, &error),
        }
        drop((state, file));
        drop(leader);
    }

    /// Does the work of each second, for ever.
    pub(crate) fn keep(&self) -> ! {
        loop {
            platform::sleep(SECOND);
            self.retry();
            self.sync_written();
        }
    }

    /// Tries to write the records for which there was no room.
    fn retry(&self) {
        let mut state = self.state();
        let waits = |trouble: &Trouble| trouble.ends == TroubleEnd::WithRoom;
        if state.trouble.as_ref().is_some_and(waits) && !state.is_led {
            state.is_led = true;
            drop(state);
            self.lead();
        }
    }

    /// Makes written records last, if that is due each second.
    fn sync_written(&self) {
        if self.fsync != Fsync::EverySecond {
            return;
        }
        let mut file = self.file();
        if !mem::take(&mut file.is_dirty) {
            return;
        }
        // Other fibers write meanwhile.
        let written = Arc::clone(&file.file);
        file.is_syncing = true;
        drop(file);
        let synced = written.sync_data();
        self.file().is_syncing = false;
        if let Err(error) = synced {
            self.refuse_for_ever(&mut self.state(), &error);
        }
    }

    /// Asks for a rewrite if the file has grown so long.
    fn ask_for_rewrite(&self, state: &LogState) {
        if state.facts.bytes >= state.rewrite_from && !state.facts.is_rewriting {
            self.rewrite_is_due.set();
        }
    }

    /// Asks for a rewrite. Returns false if there is one already.
    pub(crate) fn rewrite_now(&self) -> bool {
        let is_rewriting = self.state().facts.is_rewriting;
        if !is_rewriting {
            self.rewrite_is_due.set();
        }
        !is_rewriting
    }

    /// Waits until the log is to be rewritten.
    pub(crate) fn await_rewrite(&self) {
        self.rewrite_is_due.wait();
        self.state().facts.is_rewriting = true;
        self.rewrite_is_due.reset();
    }

    /// Replaces the file by a shorter one with the same data: the records that `pieces` make of all
    /// data, then those that are added meanwhile. If that fails, the log stays as it is.
    pub(crate) fn rewrite(&self, pieces: impl Iterator<Item = Vec<u8>>) {
        self.state().facts.is_rewriting = true;
        let rewritten = self.try_rewrite(pieces);
        let mut state = self.state();
        state.facts.is_rewriting = false;
        match rewritten {
            Ok(()) => {
                state.facts.rewrites += 1;
                state.rewrite_from = self.rewrite_bytes.max(2 * state.facts.rewritten_bytes);
                self.ask_for_rewrite(&state);
            }
            Err(reason) => {
                state.rewrite_from = 2 * state.facts.bytes;
                tell(&format!("the log is not rewritten: {reason}; it grows on"));
            }
        }
    }

    fn try_rewrite(&self, pieces: impl Iterator<Item = Vec<u8>>) -> Result<(), String> {
        let mut new = self.file().create_new(self.format).map_err(told)?;
        let rewritten = self.fill(&mut new, pieces);
        let rewritten = rewritten.and_then(|filled| self.replace(&mut new, filled));
        if rewritten.is_err() {
            new.discard();
        }
        rewritten
    }

    /// Writes all data to `new`, and most of the records that are added meanwhile.
    fn fill(
        &self,
        new: &mut LogFile,
        pieces: impl Iterator<Item = Vec<u8>>,
    ) -> Result<Filled, String> {
        // Records of changes that the pieces show already may follow them: it does no harm.
        let mut from = self.file().len;
        for piece in pieces {
            new.extend(&piece).map_err(told)?;
            let_run();
        }
        let mut note = Vec::new();
        self.format.append(&mut note, REWRITTEN_NOTE);
        new.extend(&note).map_err(told)?;
        let rewritten_bytes = new.len;
        // The pieces show changes up to here, and perhaps a part only of a request's.
        let end = Position(self.state().end);
        self.reach(end).map_err(|reason| reason.to_string())?;
        loop {
            let (old, to) = {
                let file = self.file();
                (Arc::clone(&file.file), file.len)
            };
            let bytes = to - from;
            new.copy(&old, &mut from, to).map_err(told)?;
            // Most of the time is spent here, while fibers write.
            new.file.sync_data().map_err(told)?;
            if bytes <= FEW_BYTES {
                break;
            }
        }
        Ok(Filled { rewritten_bytes, from })
    }

    /// Copies the records that are missing in `new`, and makes it the log.
    fn replace(&self, new: &mut LogFile, filled: Filled) -> Result<(), String> {
        let Filled { rewritten_bytes, mut from } = filled;
        // No record is written meanwhile.
        let mut file = self.file();
        let to = file.len;
        new.copy(&file.file, &mut from, to).map_err(told)?;
        new.file.sync_all().map_err(told)?;
        platform::fs::rename(&new.path, &file.path).map_err(told)?;
        file.file = Arc::clone(&new.file);
        file.len = new.len;
        let synced = sync_folder(&file.path);
        let mut state = self.state();
        (state.facts.bytes, state.facts.rewritten_bytes) = (file.len, rewritten_bytes);
        if let Err(error) = synced {
            // After a loss of power the name may be that of the old file, without later records.
            self.refuse_for_ever(&mut state, &error);
        }
        Ok(())
    }

    fn refuse_for_ever(&self, state: &mut LogState, error: &std::io::Error) {
        let text = format!(
            "the log cannot be written: {error}; it is unknown what the device has: check it, and \
             restart the server"
        );
        self.refuse(state, &text, TroubleEnd::Never);
    }

    /// Refuses writes from now on, and all waiters.
    fn refuse(&self, state: &mut LogState, text: &str, ends: TroubleEnd) {
        let is_known = |old: &Trouble| old.ends == TroubleEnd::Never || old.ends == ends;
        if !state.trouble.as_ref().is_some_and(is_known) {
            tell(text);
            state.trouble = Some(Trouble { text: text.into(), ends });
        }
        self.turns.iter().for_each(Condvar::notify_all);
    }

    fn file(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

/// A file that is to replace the log.
struct Filled {
    /// Its bytes up to the note of its end, before records that were added meanwhile.
    rewritten_bytes: u64,
    /// The place in the old file of the records that are missing.
    from: u64,
}

/// The leader, until it has had its turn.
struct Leader<'l> {
    log: &'l Log,
}

impl Drop for Leader<'_> {
    /// Wakes the fibers of written records, and the leader of the next turn.
    fn drop(&mut self) {
        let mut state = self.log.state();
        state.is_led = false;
        if self.log.reached() < Position(state.taken) && state.trouble.is_none() {
            let text = "the log was not written, as its writer was ended; restart the server";
            self.log.refuse(&mut state, text, TroubleEnd::Never);
        }
        let [own, next] = [0, 1].map(|later| &self.log.turns[(state.turn + later) % 2]);
        own.notify_all();
        next.notify_one();
    }
}

impl LogState {
    /// Begins a turn: takes the pending records, and returns them with the position behind.
    fn take(&mut self) -> (Vec<u8>, u64) {
        self.turn += 1;
        self.taken = self.end;
        let spare = mem::take(&mut self.spare);
        (mem::replace(&mut self.pending, spare), self.end)
    }

    /// Ends a trouble that ends with room.
    fn recover(&mut self) {
        if self.trouble.as_ref().is_some_and(|trouble| trouble.ends == TroubleEnd::WithRoom) {
            self.trouble = None;
            tell("the log is written again");
        }
    }
}

/// A record that is being made.
pub(crate) struct Record<'l> {
    format: Format,
    state: MutexGuard<'l, LogState>,
    /// Its place in the pending records, or their end if it was completed.
    start: usize,
}

impl Record<'_> {
    /// Appends to its contents by `encode`.
    pub(crate) fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.state.pending);
    }

    /// Completes the record, and returns the position behind it.
    pub(crate) fn finish(mut self) -> Position {
        let start = self.start;
        self.format.finish(&mut self.state.pending, start);
        let bytes = self.state.pending.len() - start;
        self.state.end += bytes as u64;
        self.start = self.state.pending.len();
        Position(self.state.end)
    }
}

impl Drop for Record<'_> {
    /// Removes a record that was not completed, because of a panic.
    fn drop(&mut self) {
        let start = self.start;
        self.state.pending.truncate(start);
    }
}
