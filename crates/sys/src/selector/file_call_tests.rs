//! Tests for calls on files.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::ptr::NonNull;

use super::tests::rings;
use super::{Epoll, FileCall, FileOperation, Selector};

fn call(operation: FileOperation) -> FileCall {
    FileCall::new(operation, NonNull::dangling())
}

/// Waits for `count` calls, and returns them in the order of their ends.
fn ended(selector: &dyn Selector, count: usize) -> Vec<NonNull<FileCall>> {
    let mut ended = Vec::new();
    while ended.len() < count {
        selector.wait(None, &mut |_| ()).unwrap();
        ended.extend(std::iter::from_fn(|| selector.take_ended()));
    }
    ended
}

/// More than the ring has room for, and than it reports at a time.
#[test]
fn a_ring_makes_calls_on_files() {
    const CALLS: usize = 500;
    for selector in rings(16) {
        let file = tempfile::tempfile().unwrap();
        let words: Vec<[u8; 8]> = (0..CALLS).map(|number| number.to_le_bytes()).collect();
        let offset = |number: usize| 8 * number as u64;
        let write = |(number, word): (usize, &[u8; 8])| {
            call(FileOperation::Write { bytes: word, offset: offset(number) })
        };
        let writes: Vec<_> = words.iter().enumerate().map(write).collect();
        for write in &writes {
            // SAFETY: calls, memory and file stay until all have ended, below.
            assert!(unsafe { selector.start(file.as_fd(), NonNull::from(write)) });
        }
        assert_eq!(ended(&selector, CALLS).len(), CALLS);
        assert!(writes.iter().all(|write| write.result().unwrap() == 8));
        assert_eq!(selector.take_ended(), None);

        let mut found = vec![[0; 8]; CALLS];
        let read = |(number, word): (usize, &mut [u8; 8])| {
            call(FileOperation::Read { bytes: word, offset: offset(number) })
        };
        let reads: Vec<_> = found.iter_mut().enumerate().map(read).collect();
        for read in &reads {
            // SAFETY: as above.
            assert!(unsafe { selector.start(file.as_fd(), NonNull::from(read)) });
        }
        ended(&selector, CALLS);
        assert!(reads.iter().all(|read| read.result().unwrap() == 8));
        assert_eq!(found, words);

        for operation in [FileOperation::SyncAll, FileOperation::SyncData] {
            let sync = call(operation);
            // SAFETY: as above.
            assert!(unsafe { selector.start(file.as_fd(), NonNull::from(&sync)) });
            assert_eq!(ended(&selector, 1), [NonNull::from(&sync)]);
            assert_eq!(sync.result().unwrap(), 0);
        }
    }
}

#[test]
fn a_call_in_a_ring_waits_and_tells_the_error() {
    for selector in rings(64) {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut byte = [0];
        let read = call(FileOperation::Read { bytes: &raw mut byte, offset: 0 });
        // SAFETY: all of it stays until the call has ended, below.
        assert!(unsafe { selector.start(reader.as_fd(), NonNull::from(&read)) });
        for _ in 0..10 {
            selector.poll(&mut |_| unreachable!("nothing is watched")).unwrap();
            assert_eq!(selector.take_ended(), None);
        }
        writer.write_all(b"x").unwrap();
        ended(&selector, 1);
        assert_eq!((read.result().unwrap(), byte), (1, *b"x"));

        let refused = call(FileOperation::Write { bytes: &[1], offset: 0 });
        // SAFETY: as above.
        assert!(unsafe { selector.start(reader.as_fd(), NonNull::from(&refused)) });
        ended(&selector, 1);
        assert_eq!(refused.result().unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}

#[test]
fn calls_without_a_ring_or_a_valid_offset_are_left_to_the_caller() {
    let file = tempfile::tempfile().unwrap();
    let at_position = call(FileOperation::Write { bytes: &[1], offset: u64::MAX });
    for selector in rings(64) {
        // SAFETY: it is not started.
        assert!(!unsafe { selector.start(file.as_fd(), NonNull::from(&at_position)) });
    }
    let sync = call(FileOperation::SyncAll);
    // SAFETY: as above.
    assert!(!unsafe { Epoll::new().unwrap().start(file.as_fd(), NonNull::from(&sync)) });
}
