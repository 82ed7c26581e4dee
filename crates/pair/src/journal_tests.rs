use super::*;
use crate::machine::testing::{Described, thread};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A folder, and a journal in it whose session was killed: nobody has the lock.
fn killed(changes: &[(ThreadId, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut journal = Journal::create(folder.path()).unwrap();
    for (thread, before, during) in changes {
        journal.note(*thread, &set(before), &set(during)).unwrap();
    }
    folder
}

#[test]
fn threads_of_a_killed_session_are_put_back_once() {
    let (a, b, c) = (thread(1_000_001, 1), thread(1_000_001, 2), thread(1_000_001, 3));
    let folder = killed(&[(a, "0-3", "0"), (b, "0-3", "1"), (a, "0-3", "2"), (c, "0-3", "3")]);
    let machine = Described::default();
    // The first died after its second change was noted, and before it was made; the third was changed by somebody else.
    for (thread, now) in [(a, "0"), (b, "1"), (c, "1-2")] {
        machine.set(thread, &set(now));
    }
    let restored = restore(folder.path(), &machine).unwrap();
    assert_eq!(restored, Restored { killed: 1, threads: 2, changed: 1, ..Restored::default() });
    assert_eq!([a, b, c].map(|thread| machine.mask(thread)), ["0-3", "0-3", "1-2"]);
    assert_eq!(restore(folder.path(), &machine).unwrap(), Restored::default());
}

#[test]
fn a_session_that_runs_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let journal = Journal::create(folder.path()).unwrap();
    let restored = restore(folder.path(), &Described::default()).unwrap();
    assert_eq!(restored, Restored { running: 1, ..Restored::default() });
    journal.finish().unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_may_not_be_put_back_stays_noted() {
    let a = thread(1_000_001, 1);
    let folder = killed(&[(a, "0-3", "0")]);
    let machine = Described::with(&[a], &set("0"));
    machine.refused.borrow_mut().push(a);
    assert_eq!(restore(folder.path(), &machine).unwrap().refused, 1);
    machine.refused.borrow_mut().clear();
    assert_eq!(restore(folder.path(), &machine).unwrap().threads, 1);
    assert_eq!(machine.mask(a), "0-3");
}

/// By this process's own threads: one is in the journal, another has inherited.
#[test]
fn a_thread_that_was_started_meanwhile_is_put_back_too() {
    let own = thread::of(std::process::id()).unwrap();
    let (first, last) = (own[0].id, own[own.len() - 1].id);
    assert_ne!(first, last, "a test has a thread of its own");
    let folder = killed(&[(first, "0-3", "1")]);
    let machine = Described::with(&[first, last], &set("1"));
    assert_eq!(restore(folder.path(), &machine).unwrap().threads, 2);
    assert_eq!([first, last].map(|thread| machine.mask(thread)), ["0-3", "0-3"]);
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for error in [
        Journal::create(folder.path()).unwrap_err(),
        restore(folder.path(), &Described::default()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
    let nowhere = folder.path().join("none");
    assert_eq!(restore(&nowhere, &Described::default()).unwrap(), Restored::default());
}

#[test]
fn a_full_disk_is_told_before_anything_is_changed() {
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let error = Journal::begin("/dev/full".into(), full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_journal_of_another_start_or_cut_short_changes_nothing_more() {
    let change = Change { thread: thread(1, 2), before: set("0-1"), during: set("1") };
    let text = format!("{}{change}\n", head());
    let read = |text: &str| parse(text.as_bytes());
    assert_eq!(read(&text), [change]);
    assert_eq!(read(&text.replace(&boot_id(), "another")), []);
    for len in 0..text.len() {
        assert_eq!(read(&text[..len]), [], "{len}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        parse(&[head().as_bytes(), &bytes].concat());
        Change::parse(&bytes);
    }
}
