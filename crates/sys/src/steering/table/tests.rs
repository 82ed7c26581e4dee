//! Loans of a file in place of the table, with children killed at each step.

use std::cell::Cell;
use std::fs;

use super::*;
use crate::testing::{forked, in_fork, reap};

/// A step of a loan, and a function to call once it is done.
type AtStep = (&'static str, fn());

thread_local! {
    static AT_STEP: Cell<Option<AtStep>> = const { Cell::new(None) };
}

/// Runs the registered function if it belongs to this step.
pub(super) fn step(done: &str) {
    if let Some((step, call)) = AT_STEP.get()
        && step == done
    {
        call();
    }
}

/// A folder with a table and a journal, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(entries: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("daiko-table-{}", crate::thread::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("table"), entries).unwrap();
        Self(folder)
    }

    fn table(&self) -> FlowTable {
        FlowTable::at(&self.0.join("table"), &self.0.join("journal"))
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.0.join("journal")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kill_self() {
    // SAFETY: both calls take plain integers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn kill_group() {
    // SAFETY: the call takes plain integers; the child is alone in its group.
    unsafe { libc::kill(0, libc::SIGKILL) };
}

/// Reads the table once the lock is free, that is, once a guardian has finished.
fn entries_once_free(folder: &Folder) -> u64 {
    let table = folder.table();
    let files =
        Files { table: table.open_table().unwrap(), journal: table.open_journal().unwrap() };
    files.lock_in(Duration::from_secs(30)).unwrap();
    let entries = files.entries().unwrap();
    // A child that another test has forked meanwhile has the open file as well, and so the lock.
    // SAFETY: the call takes plain integers.
    assert_eq!(unsafe { libc::flock(files.journal.as_raw_fd(), libc::LOCK_UN) }, 0);
    entries
}

/// A child that borrows the table and is killed after `step`, with its whole group.
fn killed_at(folder: &Folder, step: &'static str, kill: fn()) {
    let child = forked(|| {
        // SAFETY: the call takes plain integers.
        unsafe { libc::setpgid(0, 0) };
        AT_STEP.set(Some((step, kill)));
        let _loan = folder.table().lend(1000).unwrap();
        panic!("not killed");
    });
    let status = reap(child);
    assert!(libc::WIFSIGNALED(status), "{step}: {status}");
}

#[test]
fn the_table_has_room_until_the_loan_is_dropped() {
    let folder = Folder::new("0\n");
    assert_eq!(folder.table().probe(), Ok(()));
    let loan = folder.table().lend(1000).unwrap();
    assert!(loan.has_changed());
    assert_eq!(folder.table().entries(), Ok(1024));
    assert!(folder.journal().ends_with(" 0 1024\n"), "{}", folder.journal());
    drop(loan);
    assert_eq!((folder.table().entries(), folder.journal()), (Ok(0), String::new()));
}

#[test]
fn a_table_that_has_room_is_left_as_it_is() {
    let folder = Folder::new("64\n");
    let loan = folder.table().lend(1000).unwrap();
    assert!(!loan.has_changed());
    assert_eq!(folder.table().entries(), Ok(64));
    drop(loan);
    assert_eq!(folder.table().entries(), Ok(64));
}

#[test]
fn a_kill_at_any_step_leaves_the_table_as_it_was() {
    for step in ["noted", "guarded", "changed"] {
        for kill in [kill_self, kill_group] {
            let folder = Folder::new("0\n");
            killed_at(&folder, step, kill);
            assert_eq!(entries_once_free(&folder), 0, "{step}");
            // Without a guardian, the journal stays until the next borrower reads it.
            assert_eq!(folder.journal().is_empty(), step != "noted", "{step}");
            let recovered = folder.table().recover().unwrap();
            assert_eq!(recovered == Leftover::Restored, step == "noted", "{step}");
            assert_eq!((folder.table().entries(), folder.journal()), (Ok(0), String::new()));
        }
    }
}

#[test]
fn the_next_program_restores_the_table_after_the_guardian_was_killed_as_well() {
    for recovers in [true, false] {
        let folder = Folder::new("0\n");
        killed_at_with_guardian(&folder);
        assert_eq!(entries_once_free(&folder), 1024, "it could not be restored");
        if recovers {
            assert_eq!(folder.table().recover(), Ok(Leftover::Restored));
        } else {
            let loan = folder.table().lend(1).unwrap();
            assert!(loan.has_changed(), "it was restored first");
            assert_eq!(folder.table().entries(), Ok(1));
        }
        assert_eq!(folder.table().entries(), Ok(0));
        assert_eq!(folder.table().recover(), Ok(Leftover::Nothing));
    }
}

fn killed_at_with_guardian(folder: &Folder) {
    let child = forked(|| {
        let loan = folder.table().lend(1000).unwrap();
        kill_guardian(&loan);
        kill_self();
    });
    assert!(libc::WIFSIGNALED(reap(child)));
}

/// Kills the guardian without waiting for it, so it remains a zombie.
fn kill_guardian(loan: &Loan) {
    let held = PidFd::open(loan.lent.as_ref().unwrap().guardian.pid).unwrap();
    held.send(process::KILL).unwrap();
    let mut entry = libc::pollfd { fd: held.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the entry is a live local.
    assert_eq!(unsafe { libc::poll(&mut entry, 1, -1) }, 1);
}

#[test]
fn a_loan_restores_by_itself_after_its_guardian_was_killed() {
    in_fork(|| {
        let folder = Folder::new("0\n");
        let loan = folder.table().lend(1000).unwrap();
        kill_guardian(&loan);
        drop(loan);
        assert_eq!((folder.table().entries(), folder.journal()), (Ok(0), String::new()));
    });
}

#[test]
fn a_guardian_ignores_the_signals_that_end_programs() {
    in_fork(|| {
        let folder = Folder::new("0\n");
        let loan = folder.table().lend(1000).unwrap();
        let held = PidFd::open(loan.lent.as_ref().unwrap().guardian.pid).unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            held.send(signal).unwrap();
        }
        assert_eq!(folder.table().entries(), Ok(1024));
        assert!(!held.has_ended());
        drop(loan);
        assert_eq!(folder.table().entries(), Ok(0));
    });
}

#[test]
fn a_change_by_another_program_meanwhile_stays() {
    let folder = Folder::new("0\n");
    let loan = folder.table().lend(1000).unwrap();
    fs::write(folder.0.join("table"), "512\n").unwrap();
    drop(loan);
    assert_eq!((folder.table().entries(), folder.journal()), (Ok(512), String::new()));
}

#[test]
fn a_note_of_another_boot_restores_nothing() {
    let folder = Folder::new("1024\n");
    fs::write(folder.0.join("journal"), "another-boot 7 0 1024\n").unwrap();
    assert_eq!(folder.table().recover(), Ok(Leftover::Restored));
    assert_eq!((folder.table().entries(), folder.journal()), (Ok(1024), String::new()));
}

#[test]
fn loans_exclude_each_other() {
    let folder = Folder::new("0\n");
    let loan = folder.table().lend(1000).unwrap();
    let pid = Some(std::process::id());
    assert_eq!(folder.table().recover(), Ok(Leftover::InUse { pid }));
    let refused = folder.table().lend_in(1, Duration::ZERO).unwrap_err();
    assert_eq!(refused, SteeringError::Busy { pid });
    drop(loan);
    assert!(folder.table().lend(1).unwrap().has_changed());
}

#[test]
fn a_forked_copy_of_a_loan_ends_nothing() {
    let folder = Folder::new("0\n");
    let loan = folder.table().lend(1000).unwrap();
    // SAFETY: a forked process has a copy of its own, which is not used again.
    in_fork(|| drop(unsafe { std::ptr::read(&loan) }));
    assert_eq!(folder.table().entries(), Ok(1024));
}

#[test]
fn refused_loans_are_reported_with_the_remedy() {
    let folder = Folder::new("0\n");
    let missing = FlowTable::at(&folder.0.join("missing"), &folder.0.join("journal"));
    assert_eq!(missing.probe(), Err(SteeringError::NoTable));
    assert_eq!(missing.lend(1).unwrap_err(), SteeringError::NoTable);
    assert_eq!(missing.entries(), Err(SteeringError::NoTable));
    assert_eq!(missing.recover(), Ok(Leftover::Nothing));
    fs::write(folder.0.join("journal"), "what?").unwrap();
    assert_eq!(folder.table().lend(1).unwrap_err(), SteeringError::Damaged);
    let all = [
        (SteeringError::NoTable, "CONFIG_RPS"),
        (SteeringError::NoQueue, "CONFIG_RPS"),
        (SteeringError::NotAllowed { action: "try" }, "not allowed to try: run as root"),
        (SteeringError::Busy { pid: Some(7) }, "another process (7) has changed"),
        (SteeringError::Damaged, "remove the file"),
        (SteeringError::Refused { action: "try", errno: libc::EIO }, "cannot try: "),
    ];
    for (error, part) in all {
        let line = error.to_string();
        assert!(line.contains(part) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn the_systems_own_table_is_lent_and_restored_where_that_is_allowed() {
    let before = FlowTable::system().entries();
    match FlowTable::system().lend(1000) {
        Ok(loan) => {
            assert!(FlowTable::system().entries().unwrap() > 0);
            drop(loan);
            assert_eq!(FlowTable::system().entries(), before);
        }
        Err(error) => println!("skipped: {error}"),
    }
}
