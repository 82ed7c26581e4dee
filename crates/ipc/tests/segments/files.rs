//! Files that are not segments, or not for this process.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{self, Command};
use std::time::SystemTime;

use daiko_ipc::{MIN_BYTES, Segment, SegmentError};
use daiko_sys::file::Reason;

use crate::segments::{FOLDER, LEFTOVER, name_of, remove_leftovers};
use crate::support::{Place, refused};

/// Offsets in the header: see `layout.rs`.
const MAGIC: u64 = 0;
const VERSION: u64 = 8;
const MACHINE: u64 = 12;
const BYTES: u64 = 16;
const PAGE_BYTES: u64 = 36;

/// A segment without processes, with other bytes at `offset`.
fn changed(offset: u64, bytes: &[u8]) -> Place {
    let place = Place::new();
    drop(place.create());
    place.file().write_all_at(bytes, offset).unwrap();
    place
}

#[track_caller]
fn reason(error: &SegmentError) -> Reason {
    let SegmentError::File(error) = error else { panic!("{error}") };
    error.reason()
}

#[test]
fn a_file_of_something_else_is_no_segment() {
    for contents in [&b"x"[..], &[0; MIN_BYTES], &[b'x'; 2 * MIN_BYTES]] {
        let place = Place::new();
        fs::write(place.path(), contents).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
        for opened in [place.open(), Segment::open_or_create(place.path(), MIN_BYTES)] {
            let error = refused(opened, "choose another name");
            assert!(matches!(error, SegmentError::Foreign { path } if path == place.path()));
        }
        assert_eq!(fs::read(place.path()).unwrap(), contents, "it is left as it was");
    }
    let error = refused(changed(MAGIC, b"nokiad").open(), "choose another name");
    assert!(matches!(error, SegmentError::Foreign { .. }));
}

#[test]
fn a_segment_of_another_version_is_refused_by_its_version() {
    let error = refused(changed(VERSION, &9u32.to_ne_bytes()).open(), "one version of daiko");
    assert!(matches!(error, SegmentError::Version { found: 9, .. }));
}

#[test]
fn a_segment_of_another_machine_is_refused() {
    let error = refused(changed(MACHINE, &[1, 2, 3, 4]).open(), "have it created here");
    assert!(matches!(error, SegmentError::Machine { .. }));
}

#[test]
fn a_segment_of_a_kernel_with_other_pages_is_refused() {
    let error = refused(changed(PAGE_BYTES, &777u32.to_ne_bytes()).open(), "have it created here");
    assert!(matches!(error, SegmentError::Pages { found: 777, .. }));
}

#[test]
fn a_file_of_another_size_than_it_says_is_refused() {
    let other = MIN_BYTES as u64 + 4096;
    let error = refused(changed(BYTES, &other.to_ne_bytes()).open(), "created anew");
    let sizes = |error| match error {
        SegmentError::Size { says, has, .. } => (says, has),
        error => panic!("{error}"),
    };
    assert_eq!(sizes(error), (other, MIN_BYTES as u64));
    for has in [100, 4096, 4097, MIN_BYTES as u64 - 1, MIN_BYTES as u64 + 1] {
        let place = Place::new();
        drop(place.create());
        place.file().set_len(has).unwrap();
        let error = refused(place.open(), "created anew");
        assert_eq!(sizes(error), (MIN_BYTES as u64, has));
    }
}

/// The file is consistent in that.
#[test]
fn a_segment_smaller_than_its_tables_is_refused() {
    for has in [4096, MIN_BYTES as u64 - 4096] {
        let place = changed(BYTES, &has.to_ne_bytes());
        place.file().set_len(has).unwrap();
        let error = refused(place.open(), "created anew");
        assert!(matches!(error, SegmentError::Size { has: file, .. } if file == has));
    }
    for bytes in [0, 1, MIN_BYTES - 1] {
        let place = Place::new();
        for made in [
            Segment::create(place.path(), bytes),
            Segment::open_or_create(place.path(), bytes),
            Segment::anonymous(bytes),
        ] {
            let error = refused(made, "ask for at least");
            assert!(matches!(error, SegmentError::TooSmall { bytes: asked } if asked == bytes));
        }
    }
}

#[test]
fn refusals_of_the_file_system_are_reported() {
    let place = Place::new();
    let error = refused(place.open(), "start the program that creates it first");
    assert_eq!(reason(&error), Reason::Missing);
    let _segment = place.create();
    let error = refused(Segment::create(place.path(), MIN_BYTES), "open it");
    assert_eq!(reason(&error), Reason::Taken);

    let empty = Place::new();
    fs::write(empty.path(), "").unwrap();
    assert_eq!(reason(&refused(empty.open(), "remove it")), Reason::Empty);

    let error = refused(Segment::open("/dev/shm/"), "use NAME");
    assert_eq!(reason(&error), Reason::BadName);
    let directory = Place::new();
    fs::create_dir(directory.path()).unwrap();
    for opened in [directory.open(), Segment::open_or_create(directory.path(), MIN_BYTES)] {
        let error = refused(opened, "is a directory");
        assert_eq!(reason(&error), Reason::NotAFile { kind: "a directory" });
    }
    let error =
        refused(Segment::open_or_create(directory.path().join("no/x"), MIN_BYTES), "create");
    assert_eq!(reason(&error), Reason::NoDirectory);
    fs::remove_dir(directory.path()).unwrap();

    let error = refused(Segment::create(Place::new().path(), 1 << 50), "no room");
    assert_eq!(reason(&error), Reason::Full { bytes: 1 << 50 });
}

#[test]
fn a_segment_of_another_user_is_permission_denied() {
    let place = Place::new();
    drop(place.create());
    let (denied, whose) = match std::os::unix::fs::chown(place.path(), Some(12345), None) {
        Ok(()) => (place.open(), "of user 12345"),
        Err(_) => (Segment::open("/etc/passwd"), "of user 0"),
    };
    let error = refused(denied, whose);
    assert!(matches!(reason(&error), Reason::Denied { owner: Some(_) }));
}

#[test]
fn only_its_user_may_open_a_segment() {
    let place = Place::new();
    let segment = place.create();
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(segment.path(), place.path());
}

#[test]
fn a_descriptor_of_anything_but_a_segment_without_a_name_is_refused() {
    use std::os::fd::AsFd;
    let place = Place::new();
    let _segment = place.create();
    let error = refused(Segment::from_fd(place.file().as_fd()), "");
    assert_eq!(reason(&error), Reason::Unsealed);
    let anonymous = Segment::anonymous(MIN_BYTES).unwrap();
    let second = anonymous.as_fd(Segment::from_fd).unwrap();
    assert_ne!(anonymous.me(), second.me());
    assert_eq!(anonymous.attached().len(), 2);
}

#[test]
fn old_segments_of_killed_test_processes_are_removed_and_no_others() {
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let old = SystemTime::now().checked_sub(LEFTOVER).unwrap();
    let file = |pid, name, modified| {
        let path = Path::new(FOLDER).join(name_of(pid, name));
        fs::File::create(&path).unwrap().set_modified(modified).unwrap();
        Place::at(path)
    };
    let leftover = file(ended.id(), "old", old);
    let kept = [file(ended.id(), "new", SystemTime::now()), file(process::id(), "old", old)];
    remove_leftovers();
    assert!(!leftover.path().exists() && kept.iter().all(|file| file.path().exists()));
}
