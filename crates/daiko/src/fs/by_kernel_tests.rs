//! Calls that a pipe delays as a slow disk does.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsFd;
use std::thread;

use daiko_sys::selector::FileOperation;

use super::by_kernel::by_kernel;
use crate::atomic::{AtomicBool, Ordering};
use crate::child;
use crate::net::Selector;
use crate::{JoinHandle, Preset, Runtime};

/// A runtime of one worker with a ring; none if the system has no rings.
fn with_ring() -> Option<Runtime> {
    let builder = Runtime::builder().workers(1).preset(Preset::Power);
    match builder.selector(Selector::IoUring).build() {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Reads four bytes from a pipe: it waits as a slow disk does.
fn read(from: &PipeReader) -> [u8; 4] {
    let mut bytes = [0; 4];
    let operation = FileOperation::Read { bytes: &raw mut bytes, offset: 0 };
    // SAFETY: the memory is this frame's.
    let read = unsafe { by_kernel(from.as_fd(), operation) };
    assert_eq!(read.expect("the worker has a ring").unwrap(), 4);
    bytes
}

fn yield_often(runtime: &Runtime) {
    runtime.run(|| (0..1000).for_each(|_| crate::yield_now()));
}

/// Spawns a fiber that reads; returns once the kernel has its call.
fn reading(runtime: &Runtime, from: PipeReader) -> JoinHandle<[u8; 4]> {
    let reader = runtime.spawn(move || read(&from));
    // Other fibers of the only worker run meanwhile.
    yield_often(runtime);
    assert!(!reader.is_finished());
    reader
}

fn started() -> Option<(Runtime, JoinHandle<[u8; 4]>, PipeWriter)> {
    let runtime = with_ring()?;
    let (reader, writer) = pipe().unwrap();
    let handle = reading(&runtime, reader);
    Some((runtime, handle, writer))
}

#[test]
fn a_sleeping_worker_is_woken_by_the_end_of_a_call() {
    let Some((runtime, reader, mut writer)) = started() else { return };
    while !crate::caller::inner(&runtime).all_workers()[0].is_parked() {
        thread::yield_now();
    }
    writer.write_all(b"late").unwrap();
    assert_eq!(&reader.join().unwrap(), b"late");
}

#[test]
fn a_cancel_does_not_cut_a_call_short() {
    static HAS_READ: AtomicBool = AtomicBool::new(false);
    let Some(runtime) = with_ring() else { return };
    let (from, mut writer) = pipe().unwrap();
    let reader = runtime.spawn(move || {
        HAS_READ.store(&read(&from) == b"late", Ordering::Relaxed);
        crate::yield_now();
    });
    yield_often(&runtime);
    reader.cancel();
    yield_often(&runtime);
    assert!(!reader.is_finished());
    writer.write_all(b"late").unwrap();
    assert!(reader.join().is_err(), "the cancel unwinds afterwards");
    assert!(HAS_READ.load(Ordering::Relaxed));
}

#[test]
fn many_calls_are_told_apart() {
    let Some(runtime) = with_ring() else { return };
    let pipes: Vec<_> = (0..500u32).map(|_| pipe().unwrap()).collect();
    let (readers, writers): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let readers: Vec<_> =
        readers.into_iter().map(|from| runtime.spawn(move || read(&from))).collect();
    for (number, mut writer) in writers.iter().enumerate().rev() {
        writer.write_all(&(number as u32).to_le_bytes()).unwrap();
    }
    for (number, reader) in readers.into_iter().enumerate() {
        assert_eq!(u32::from_le_bytes(reader.join().unwrap()), number as u32);
    }
}

/// The ring's descriptor is closed, so that the kernel refuses each further call.
#[test]
fn a_program_ends_if_the_kernel_takes_no_calls_while_it_has_one() {
    const NAME: &str = "fs::by_kernel_tests::\
                        a_program_ends_if_the_kernel_takes_no_calls_while_it_has_one";
    let output = child::in_child(NAME, || {
        let Some((runtime, reader, _writer)) = started() else { return };
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            let path = entry.unwrap().path();
            if fs::read_link(&path).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]")) {
                let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
                // SAFETY: the kernel's refusals are the subject of this test.
                unsafe { libc::close(number) };
            }
        }
        // The worker may be asleep in a call on the ring.
        runtime.run(crate::yield_now);
        let _ = reader.join();
    });
    if child::stdout(&output).contains("skipped: ") {
        return println!("skipped: no rings");
    }
    assert!(!output.status.success());
    let errors = child::stderr(&output);
    assert!(errors.contains("io_uring_enter failed while the kernel had calls"), "{errors}");
}

#[test]
fn a_worker_with_epoll_and_a_thread_leave_the_call_to_the_caller() {
    let is_left = || {
        let file = fs::File::open("/dev/null").unwrap();
        // SAFETY: it uses no memory.
        unsafe { by_kernel(file.as_fd(), FileOperation::SyncAll) }.is_none()
    };
    let runtime = Runtime::builder().workers(1).selector(Selector::Epoll).build().unwrap();
    assert!(runtime.run(is_left));
    assert!(is_left());
}
