//! Files in fibers: `std` is the oracle for results, and the other fibers of the worker run on.

mod support;

use std::ffi::CString;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use daiko::Runtime;
use daiko::fs::{File, OpenOptions, TryLockError};
use daiko::net::Selector;
use proptest::prelude::*;
use support::{end, workers};

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("daiko-files-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A pipe with a name.
    fn pipe(&self) -> PathBuf {
        let path = self.file("pipe");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Folders on a file system with a device, and on one without.
fn parents() -> Vec<PathBuf> {
    let memory = Path::new("/dev/shm");
    let both = [std::env::temp_dir(), memory.into()];
    both.into_iter().filter(|parent| parent.is_dir()).collect()
}

/// A call on a file of a few thousand bytes.
#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    ReadAt(usize, u64),
    Write(Vec<u8>),
    WriteAt(Vec<u8>, u64),
    Seek(SeekFrom),
    SetLen(u64),
    Evict,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..5000);
    let seek = prop_oneof![
        (0u64..9000).prop_map(SeekFrom::Start),
        (-3000i64..3000).prop_map(SeekFrom::Current),
        (-3000i64..3000).prop_map(SeekFrom::End),
    ];
    let step = prop_oneof![
        3 => (0usize..6000).prop_map(Step::Read),
        2 => (0usize..6000, 0u64..9000).prop_map(|(len, at)| Step::ReadAt(len, at)),
        3 => bytes().prop_map(Step::Write),
        2 => (bytes(), 0u64..9000).prop_map(|(bytes, at)| Step::WriteAt(bytes, at)),
        2 => seek.prop_map(Step::Seek),
        1 => (0u64..9000).prop_map(Step::SetLen),
        1 => Just(Step::Evict),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

/// The outcome of a step: a number, or the error's, and the bytes that were read.
type Outcome = (Result<u64, Option<i32>>, Vec<u8>);

/// Does the steps with a file that `open` opens, for reading, writing and creating.
fn outcomes<F>(steps: &[Step], open: impl Fn() -> F) -> Vec<Outcome>
where
    F: Read + Write + Seek + FileExt + AsRawFd + SetLen,
{
    let mut file = open();
    let mut outcome = |step: &Step| {
        let mut read = Vec::new();
        let result = match step {
            Step::Read(len) => {
                read = vec![0; *len];
                // A read of all that there is may take several calls.
                read_all(&mut read, |bytes, _| file.read(bytes))
            }
            Step::ReadAt(len, at) => {
                read = vec![0; *len];
                read_all(&mut read, |bytes, done| file.read_at(bytes, at + done))
            }
            Step::Write(bytes) => file.write_all(bytes).map(|()| bytes.len() as u64),
            Step::WriteAt(bytes, at) => file.write_all_at(bytes, *at).map(|()| 0),
            Step::Seek(to) => file.seek(*to),
            Step::SetLen(len) => file.set_len(*len).map(|()| *len),
            Step::Evict => {
                evict(&file);
                Ok(0)
            }
            Step::Reopen => {
                file = open();
                Ok(0)
            }
        };
        (result.map_err(|error| error.raw_os_error()), read)
    };
    steps.iter().map(&mut outcome).collect()
}

fn read_all(
    bytes: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<usize>,
) -> std::io::Result<u64> {
    let mut done = 0;
    while done < bytes.len() {
        match read(&mut bytes[done..], done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done as u64)
}

/// Makes the kernel drop the file's pages, which are on the device then.
fn evict(file: &impl AsRawFd) {
    // SAFETY: both take plain integers.
    unsafe {
        libc::fdatasync(file.as_raw_fd());
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
}

trait SetLen {
    fn set_len(&self, len: u64) -> std::io::Result<()>;
}

impl SetLen for fs::File {
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.set_len(len)
    }
}

impl SetLen for File {
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.set_len(len)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_does_as_that_of_std(steps in steps()) {
        for parent in parents() {
            let folder = Folder::new(&parent);
            let theirs = outcomes(&steps, || {
                let path = folder.file("theirs");
                fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
            });
            let (path, steps) = (folder.file("ours"), steps.clone());
            let ours = move || outcomes(&steps, || {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap()
            });
            // With a ring where there is one, by the pool alone, and in a thread.
            let by_pool = Runtime::builder().workers(1).selector(Selector::Epoll).build().unwrap();
            let in_turn: [&dyn Fn() -> Vec<Outcome>; 3] =
                [&|| daiko::run(ours.clone()), &|| by_pool.run(ours.clone()), &ours];
            for outcomes in in_turn {
                prop_assert_eq!(&outcomes(), &theirs);
                let contents = ["theirs", "ours"].map(|name| fs::read(folder.file(name)).unwrap());
                prop_assert_eq!(&contents[0], &contents[1]);
                fs::remove_file(folder.file("ours")).unwrap();
            }
        }
    }
}

/// Runs `body` in a fiber of a runtime with one worker.
fn on_one_worker<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let runtime: Runtime = workers(1);
    let result = runtime.spawn(body).join().unwrap();
    end(runtime);
    result
}

/// Opening a pipe waits for its other end, which another fiber of the only worker opens. That fiber
/// would never run if the wait blocked the worker.
#[test]
fn the_worker_runs_other_fibers_while_a_call_waits() {
    for parent in parents() {
        let folder = Folder::new(&parent);
        let path = folder.pipe();
        let text = on_one_worker(move || {
            let reader = {
                let path = path.clone();
                daiko::spawn(move || {
                    let mut text = String::new();
                    File::open(path).unwrap().read_to_string(&mut text).unwrap();
                    text
                })
            };
            let mut writer = OpenOptions::new().write(true).open(path).unwrap();
            for _ in 0..3 {
                // The reader waits for more meanwhile, on the pool.
                daiko::sleep(std::time::Duration::from_millis(1));
                writer.write_all(b"word ").unwrap();
            }
            drop(writer);
            reader.join().unwrap()
        });
        assert_eq!(text, "word word word ");
    }
}

/// The kernel writes into the buffer of a read. A cancelled fiber does not leave it before.
#[test]
fn a_cancelled_fiber_keeps_its_buffer_until_the_read_has_ended() {
    let folder = Folder::new(&std::env::temp_dir());
    let path = folder.pipe();
    let (is_cancelled, read) = on_one_worker(move || {
        let (tell, told) = std::sync::mpsc::channel();
        let reader = {
            let path = path.clone();
            daiko::spawn(move || {
                let mut file = File::open(path).unwrap();
                tell.send(()).unwrap();
                let mut bytes = [0; 4];
                let read = file.read(&mut bytes).unwrap();
                tell.send(()).unwrap();
                daiko::yield_now();
                (read, bytes)
            })
        };
        let mut writer = OpenOptions::new().write(true).open(path).unwrap();
        // Until it reads.
        while told.try_recv().is_err() {
            daiko::yield_now();
        }
        reader.cancel();
        for _ in 0..1000 {
            daiko::yield_now();
        }
        assert!(!reader.is_finished() && told.try_recv().is_err());
        writer.write_all(b"late").unwrap();
        let ended = reader.join();
        (ended.is_err(), told.try_recv().is_ok())
    });
    assert!(is_cancelled && read, "the read ends, then the cancel unwinds");
}

#[test]
fn errors_are_those_of_std() {
    let folder = Folder::new(&std::env::temp_dir());
    let missing = folder.file("missing");
    daiko::run(move || {
        let told = |error: std::io::Error| error.raw_os_error();
        assert_eq!(File::open(&missing).map_err(told).unwrap_err(), Some(libc::ENOENT));
        assert_eq!(daiko::fs::read(&missing).map_err(told).unwrap_err(), Some(libc::ENOENT));
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(full.write(b"x").map_err(told).unwrap_err(), Some(libc::ENOSPC));
        let mut read_only = File::open("/proc/self/status").unwrap();
        assert_eq!(read_only.write(b"x").map_err(told).unwrap_err(), Some(libc::EBADF));
        let error = File::create_new(&missing).unwrap().preallocate(u64::MAX).unwrap_err();
        assert_eq!(told(error), Some(libc::EFBIG));
    });
}

/// A buffer at a multiple of the largest block.
#[repr(align(4096))]
struct Block([u8; 8192]);

#[test]
fn a_direct_file_takes_whole_blocks_and_refuses_others_as_std_does() {
    for parent in parents() {
        let folder = Folder::new(&parent);
        let path = folder.file("direct");
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_DIRECT);
        let theirs = match options.open(&path) {
            Ok(file) => file,
            Err(error) => {
                support::skip(&format!("{} has no direct files: {error}", parent.display()));
                continue;
            }
        };
        on_one_worker(move || {
            let opened = OpenOptions::from(options).open(&path).unwrap();
            for file in [opened, File::from(theirs.try_clone().unwrap())] {
                let mut block = Block([7; 8192]);
                file.write_all_at(&block.0, 0).unwrap();
                block.0.fill(0);
                file.read_exact_at(&mut block.0[4096..], 4096).unwrap();
                assert!(block.0[..4096] == [0; 4096] && block.0[4096..] == [7; 4096]);
                let told =
                    |read: std::io::Result<usize>| read.map_err(|error| error.raw_os_error());
                let ours = told(file.read_at(&mut block.0[1..4097], 0));
                assert_eq!(ours, told(theirs.read_at(&mut block.0[1..4097], 0)));
                assert_eq!(file.read_at(&mut block.0, 8192).unwrap(), 0, "the end");
            }
        });
    }
}

#[test]
fn a_lock_is_waited_for_while_other_fibers_run() {
    let folder = Folder::new(&std::env::temp_dir());
    let path = folder.file("lock");
    on_one_worker(move || {
        let holder = File::create(&path).unwrap();
        holder.lock().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = {
            let path = path.clone();
            daiko::spawn(move || {
                let file = File::options().read(true).open(path).unwrap();
                assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
                assert!(matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
                tell.send(()).unwrap();
                file.lock_shared().unwrap();
                file
            })
        };
        support::yield_until("the waiter", || told.try_recv().is_ok());
        for _ in 0..100 {
            daiko::yield_now();
        }
        assert!(!waiter.is_finished());
        holder.unlock().unwrap();
        let file = waiter.join().unwrap();
        holder.try_lock_shared().unwrap();
        assert!(matches!(holder.try_lock(), Err(TryLockError::WouldBlock)));
        file.unlock().unwrap();
        holder.try_lock().unwrap();
    });
}

#[test]
fn all_entries_of_a_folder_are_listed() {
    let folder = Folder::new(&std::env::temp_dir());
    let path = folder.0.clone();
    let mut names = daiko::run(move || {
        // One batch, and one more than that.
        (0..257).for_each(|number| daiko::fs::write(path.join(number.to_string()), "").unwrap());
        let entries = daiko::fs::read_dir(&path).unwrap().map(Result::unwrap);
        let name = |entry: daiko::fs::DirEntry| {
            assert!(entry.file_type().unwrap().is_file() && entry.metadata().unwrap().len() == 0);
            assert_eq!(entry.path(), path.join(entry.file_name()));
            entry.file_name().into_string().unwrap().parse::<u32>().unwrap()
        };
        entries.map(name).collect::<Vec<_>>()
    });
    names.sort_unstable();
    assert_eq!(names, (0..257).collect::<Vec<_>>());
}

#[test]
fn a_call_that_would_wait_panics_inside_no_suspend() {
    let caught = daiko::run(|| {
        daiko::spawn(|| daiko::no_suspend(|| File::open("/proc/self/status"))).join().is_err()
    });
    assert!(caught);
}
