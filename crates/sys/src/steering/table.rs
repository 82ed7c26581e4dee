//! A temporary change of the system's table of flows. It is undone when the loan ends, even if its
//! process is killed.
//!
//! The table is system-wide and outlives every process. Three mechanisms restore it:
//!
//! 1. The loan, when it is dropped.
//! 2. A guardian: a process forked before the change into a session of its own, which waits for the
//!    end of the borrower, for any reason.
//! 3. A journal, written before the change. If both processes were killed, the next borrower finds
//!    the journal and restores the table.
//!
//! The two processes keep the journal locked as long as one of them lives, so loans exclude each
//! other. The table is restored only if it still has the value of the loan: a later change by an
//! administrator takes precedence.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{SteeringError, TABLE};
use crate::descriptor::check;
use crate::limits::text;
use crate::process::{self, PidFd, boot_id};

/// The file that records the value to restore.
pub(super) const JOURNAL: &str = "/run/daiko-steering";
/// Limit of the wait for another loan to end: a sample of the lab takes some seconds.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// The system's table of flows (`net.core.rps_sock_flow_entries`). Packets follow their readers
/// only if it has room.
#[derive(Debug, Clone)]
pub struct FlowTable {
    table: PathBuf,
    journal: PathBuf,
}

/// The state of an earlier loan that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Leftover {
    /// No loan was found.
    Nothing,
    /// A loan is in force.
    InUse {
        /// The borrower; `None` if it has not written the journal yet.
        pid: Option<u32>,
    },
    /// The borrower and its guardian were killed; the table is restored now.
    Restored,
}

impl FlowTable {
    /// The table of this system.
    pub fn system() -> Self {
        Self { table: TABLE.into(), journal: JOURNAL.into() }
    }

    /// Another file than the system's, for tests.
    #[doc(hidden)]
    pub fn at(table: &Path, journal: &Path) -> Self {
        Self { table: table.into(), journal: journal.into() }
    }

    /// The number of flows that it has room for.
    ///
    /// # Errors
    ///
    /// [`SteeringError::NoTable`], also in network namespaces other than the system's first.
    pub fn entries(&self) -> Result<u64, SteeringError> {
        let entries = text(&self.table).and_then(|text| first_number(text.as_bytes()));
        entries.ok_or(SteeringError::NoTable)
    }

    /// Checks that the caller may [change](Self::lend) the table, by the permissions of its file.
    /// Changes nothing.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn probe(&self) -> Result<(), SteeringError> {
        self.open_table().map(drop)
    }

    /// Gives the table room for `entries` flows, rounded up to a power of two, until the loan is
    /// dropped. A table that already has room is left unchanged.
    ///
    /// # Errors
    ///
    /// [`SteeringError::Busy`] if another process borrows the table for longer than some seconds.
    ///
    /// # Panics
    ///
    /// If `entries` is 0.
    pub fn lend(&self, entries: u32) -> Result<Loan, SteeringError> {
        self.lend_in(entries, PATIENCE)
    }

    fn lend_in(&self, entries: u32, patience: Duration) -> Result<Loan, SteeringError> {
        assert!(entries > 0, "a table without room");
        let files = Files { table: self.open_table()?, journal: self.open_journal()? };
        files.lock_in(patience)?;
        let _ = files.recover()?;
        let before = files.entries().map_err(SteeringError::of("read the table"))?;
        if before != 0 {
            return Ok(Loan { lent: None });
        }
        let during = u64::from(entries.checked_next_power_of_two().unwrap_or(1 << 31));
        let lent = Lent::new(files, Change { pid: std::process::id(), before, during })?;
        Ok(Loan { lent: Some(lent) })
    }

    /// Restores the table if a borrower was killed together with its guardian.
    ///
    /// # Errors
    ///
    /// [`SteeringError::NotAllowed`] if there is a value to restore but the caller may not.
    pub fn recover(&self) -> Result<Leftover, SteeringError> {
        match text(&self.journal) {
            None => return Ok(Leftover::Nothing),
            Some(text) if text.is_empty() => return Ok(Leftover::Nothing),
            Some(_) => {}
        }
        let files = Files { table: self.open_table()?, journal: self.open_journal()? };
        match files.lock_in(Duration::ZERO) {
            Ok(()) => files.recover(),
            Err(SteeringError::Busy { pid }) => Ok(Leftover::InUse { pid }),
            Err(error) => Err(error),
        }
    }

    fn open_table(&self) -> Result<File, SteeringError> {
        OpenOptions::new().read(true).write(true).open(&self.table).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => SteeringError::NoTable,
                _ => SteeringError::of("change net.core.rps_sock_flow_entries")(error),
            }
        })
    }

    /// The journal is never removed: a borrower that has just opened it locks the file that the
    /// next borrower will find.
    fn open_journal(&self) -> Result<File, SteeringError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&self.journal);
        file.map_err(SteeringError::of("note in /run the values to restore"))
    }
}

/// A borrowed table, restored on drop.
#[derive(Debug)]
#[must_use]
pub struct Loan {
    /// `None` if the table had room already.
    lent: Option<Lent>,
}

impl Loan {
    /// Returns true if the table was changed for this loan. Otherwise it had room already and keeps
    /// it.
    pub fn has_changed(&self) -> bool {
        self.lent.is_some()
    }
}

/// A change and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    pid: u32,
    before: u64,
    during: u64,
}

impl Change {
    fn line(&self) -> String {
        format!("{} {} {} {}\n", boot_id(), self.pid, self.before, self.during)
    }

    /// Parses a line of the journal; `None` if it is invalid. A line of another boot becomes a
    /// change that restores nothing.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let [boot_then, pid, before, during] = fields[..] else { return None };
        let change = Self {
            pid: pid.parse().ok()?,
            before: before.parse().ok()?,
            during: during.parse().ok()?,
        };
        let same = boot_then == boot_id();
        Some(if same { change } else { Self { during: change.before, ..change } })
    }
}

#[derive(Debug)]
struct Files {
    table: File,
    journal: File,
}

impl Files {
    /// Locks the journal. The lock belongs to the open file, so forked processes share it.
    fn lock_in(&self, patience: Duration) -> Result<(), SteeringError> {
        let deadline = Instant::now() + patience;
        loop {
            // SAFETY: the call takes plain integers.
            match check(unsafe {
                libc::flock(self.journal.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
            }) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(SteeringError::of("lock the journal in /run")(error));
                }
                Err(_) if Instant::now() >= deadline => {
                    let pid = self.noted().ok().flatten().map(|change| change.pid);
                    return Err(SteeringError::Busy { pid });
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Restores the table after an earlier borrower that held the lock.
    fn recover(&self) -> Result<Leftover, SteeringError> {
        let Some(change) = self.noted()? else { return Ok(Leftover::Nothing) };
        self.restore(&change).map_err(SteeringError::of("restore the table"))?;
        Ok(Leftover::Restored)
    }

    fn noted(&self) -> Result<Option<Change>, SteeringError> {
        let mut bytes = [0; 128];
        let len = self.journal.read_at(&mut bytes, 0);
        let len = len.map_err(SteeringError::of("read the journal in /run"))?;
        if len == 0 {
            return Ok(None);
        }
        let line = std::str::from_utf8(&bytes[..len]).ok();
        line.and_then(Change::parse).map(Some).ok_or(SteeringError::Damaged)
    }

    /// Allocates no memory, here and below: that is forbidden after a fork from a process with
    /// several threads.
    fn restore(&self, change: &Change) -> io::Result<()> {
        if self.entries()? == change.during {
            self.set_entries(change.before)?;
        }
        self.journal.set_len(0)
    }

    fn entries(&self) -> io::Result<u64> {
        let mut bytes = [0; 32];
        let len = self.table.read_at(&mut bytes, 0)?;
        first_number(&bytes[..len]).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    fn set_entries(&self, entries: u64) -> io::Result<()> {
        let mut bytes = [0; 32];
        let room = bytes.len();
        let mut rest = &mut bytes[..];
        writeln!(rest, "{entries}")?;
        let len = room - rest.len();
        // In one call, as the kernel parses each write by itself.
        self.table.write_at(&bytes[..len], 0).map(drop)
    }
}

/// The number in the first line.
fn first_number(bytes: &[u8]) -> Option<u64> {
    let line = bytes.split(|&byte| byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// A change that is in force.
#[derive(Debug)]
struct Lent {
    files: Files,
    change: Change,
    guardian: Guardian,
}

impl Lent {
    fn new(files: Files, change: Change) -> Result<Self, SteeringError> {
        let refused = SteeringError::of("change net.core.rps_sock_flow_entries");
        files.journal.write_at(change.line().as_bytes(), 0).map_err(&refused)?;
        step("noted");
        let guardian = Guardian::start(&files, &change);
        let guardian =
            guardian.map_err(SteeringError::of("fork a process that restores the table"))?;
        step("guarded");
        let lent = Self { files, change, guardian };
        lent.files.set_entries(change.during).map_err(&refused)?;
        step("changed");
        Ok(lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A copy in a forked process must end nothing.
        if self.change.pid != std::process::id() {
            return;
        }
        self.guardian.release();
        // Needed if the guardian was killed; otherwise there is nothing left to do. If this fails,
        // the journal remains.
        let _ = self.files.restore(&self.change);
    }
}

/// The process that restores the table when its parent ends or asks for it.
#[derive(Debug)]
struct Guardian {
    pid: u32,
    say: PipeWriter,
}

impl Guardian {
    fn start(files: &Files, change: &Change) -> io::Result<Self> {
        let parent = PidFd::open(std::process::id()).map_err(io::Error::other)?;
        let (hear, say) = io::pipe()?;
        let (mut begun, begin) = io::pipe()?;
        // SAFETY: the child allocates nothing, takes no lock, and leaves by `_exit`.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            guard(files, change, &parent, &hear, begin);
        }
        drop((begin, hear));
        // Only from now on the guardian survives a kill of this process and its group.
        let ready = begun.read_exact(&mut [0]);
        let guardian = Self { pid: pid as u32, say };
        ready.map(|()| guardian)
    }

    /// Asks the guardian to restore the table and waits until it has.
    fn release(&mut self) {
        let _ = self.say.write(&[0]);
        let _ = process::wait(Some(self.pid));
    }
}

/// Main function of the guardian.
fn guard(
    files: &Files,
    change: &Change,
    parent: &PidFd,
    hear: &PipeReader,
    begin: PipeWriter,
) -> ! {
    leave_group();
    let needed = [files.table.as_raw_fd(), files.journal.as_raw_fd(), parent.as_fd().as_raw_fd()];
    close_but(&mut [needed[0], needed[1], needed[2], hear.as_raw_fd(), begin.as_raw_fd()]);
    let begun = (&begin).write(&[0]).is_ok();
    drop(begin);
    if begun {
        wait_for(parent.as_fd().as_raw_fd(), hear.as_raw_fd());
    }
    process::exit(files.restore(change).is_err().into())
}

/// Makes the process survive its terminal, a kill of the group, and all signals but SIGKILL.
fn leave_group() {
    // SAFETY: the set is a live local, filled before it is used; the other calls take plain
    // integers and a constant.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"daiko-steering".as_ptr());
    }
}

/// Closes all other descriptors, so that a reader of the parent's output does not wait for the
/// guardian.
fn close_but(needed: &mut [RawFd]) {
    needed.sort_unstable();
    let mut next = 0;
    for &fd in needed.iter().chain([&i32::MAX]) {
        if next < fd {
            // SAFETY: the call takes plain integers; this process does not use those descriptors
            // any more.
            unsafe { libc::syscall(libc::SYS_close_range, next, fd - 1, 0) };
        }
        next = fd.saturating_add(1);
    }
}

/// Waits until the parent has ended or has written to the pipe.
fn wait_for(parent: RawFd, hear: RawFd) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = [entry(parent), entry(hear)];
    // SAFETY: the two entries are a live local.
    while unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) } < 1 {}
}

#[cfg(not(test))]
fn step(_: &str) {}
#[cfg(test)]
use tests::step;

#[cfg(test)]
mod tests;
