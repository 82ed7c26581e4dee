use super::*;
use crate::machine::testing::{Described, thread};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A folder with the journal of a killed session, which is therefore unlocked.
fn killed(changes: &[(ThreadId, &str, &str)]) -> tempfile::TempDir {
    let folder = folder();
    let mut journal = Journal::create(folder.path()).unwrap();
    for (thread, before, during) in changes {
        journal.note(*thread, &set(before), &set(during)).unwrap();
    }
    folder
}

fn put_back(threads: usize, changed: usize) -> PutBack {
    PutBack { threads, changed, refused: 0 }
}

#[test]
fn threads_of_a_killed_session_are_put_back_once() {
    let (a, b, c) = (thread(1_000_001, 1), thread(1_000_001, 2), thread(1_000_001, 3));
    let folder = killed(&[(a, "0-3", "0"), (b, "0-3", "1"), (a, "0-3", "2"), (c, "0-3", "3")]);
    let machine = Described::default();
    // The session died between recording the second change of the first thread and making it. The
    // third thread was bound by another party.
    for (thread, now) in [(a, "0"), (b, "1"), (c, "1-2")] {
        machine.set(thread, &set(now));
    }
    let restored = restore(folder.path(), &machine).unwrap();
    let wanted = Restored { killed: 1, threads: put_back(2, 1), ..Restored::default() };
    assert_eq!(restored, wanted);
    assert_eq!([a, b, c].map(|thread| machine.mask(thread)), ["0-3", "0-3", "1-2"]);
    assert_eq!(restore(folder.path(), &machine).unwrap(), Restored::default());
}

#[test]
fn a_session_that_runs_is_left_alone() {
    let folder = folder();
    let journal = Journal::create(folder.path()).unwrap();
    let restored = restore(folder.path(), &Described::default()).unwrap();
    assert_eq!(restored, Restored { running: 1, ..Restored::default() });
    journal.finish(&Described::default()).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_thread_that_cannot_be_restored_stays_noted() {
    let a = thread(1_000_001, 1);
    let folder = killed(&[(a, "0-3", "0")]);
    let machine = Described::with(&[a], &set("0"));
    machine.refused.borrow_mut().push(a);
    assert_eq!(restore(folder.path(), &machine).unwrap().threads.refused, 1);
    machine.refused.borrow_mut().clear();
    assert_eq!(restore(folder.path(), &machine).unwrap().threads, put_back(1, 0));
    assert_eq!(machine.mask(a), "0-3");
}

#[test]
fn a_change_is_noted_once() {
    let a = thread(1_000_001, 1);
    let folder = killed(&[(a, "0-3", "0"), (a, "0-3", "1"), (a, "0-3", "0"), (a, "0-3", "1")]);
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 3);
}

#[test]
fn an_invalid_journal_is_left_and_reported_and_the_rest_are_restored() {
    let a = thread(1_000_001, 1);
    let folder = killed(&[(a, "0-3", "0")]);
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("later"), "daiko-pair 3 whatever\n1 2 3\n").unwrap();
    fs::write(folder.path().join("cut"), "daiko-pa").unwrap();
    let machine = Described::with(&[a], &set("0"));
    let mut restored = restore(folder.path(), &machine).unwrap();
    restored.left.sort();
    assert_eq!((restored.killed, restored.threads), (2, put_back(1, 0)));
    let left: Vec<_> = restored.left.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(left, ["folder", "later"]);
    assert!(restored.left[1].1.contains("version"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn a_folder_that_other_users_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for error in [
        Journal::create(folder.path()).unwrap_err(),
        restore(folder.path(), &Described::default()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "other users can write to it");
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
fn a_change_that_could_not_be_noted_is_tried_again() {
    let folder = folder();
    let mut journal = Journal::create(folder.path()).unwrap();
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let own = std::mem::replace(&mut journal.file, full);
    let mut note = || journal.note(thread(1, 2), &set("0-1"), &set("1"));
    assert!(note().is_err() && note().is_err());
    journal.file = own;
    journal.note(thread(1, 2), &set("0-1"), &set("1")).unwrap();
    assert!(fs::read_to_string(&journal.path).unwrap().ends_with("1 2 20 0-1 1\n"));
}

#[test]
fn a_journal_of_another_start_or_cut_short_changes_nothing_more() {
    let change = Change { thread: thread(1, 2), before: set("0-1"), during: set("1") };
    let text = format!("{}{change}\n", head(7));
    let read = |text: &str| parse(text.as_bytes());
    assert_eq!(read(&text), Content::Changes { since: 7, changes: vec![change] });
    assert_eq!(read(&text.replace(&boot_id(), "another")), Content::Over);
    for len in 0..head(7).len() {
        assert_eq!(read(&text[..len]), Content::Over, "{len}");
    }
    for len in head(7).len()..text.len() {
        assert_eq!(read(&text[..len]), Content::Changes { since: 7, changes: Vec::new() }, "{len}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        parse(&bytes);
        parse(&[head(1).as_bytes(), &bytes].concat());
    }
}
