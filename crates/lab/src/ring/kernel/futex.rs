//! `futex`: a private futex word per thread.

use std::{
    io, ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use super::harness::{Gate, Turn};

/// 1 after a wake, 0 after the wait that it ended.
pub(super) struct Futex(AtomicU32);

impl Gate for Futex {
    const NAME: &'static str = "futex";

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        Ok((0..threads).map(|_| Self(AtomicU32::new(0))).collect())
    }

    fn wait(&self, _: &Turn<'_>) {
        // Acquire: pairs with the Release in `wake`.
        while self.0.swap(0, Ordering::Acquire) == 0 {
            futex(&self.0, libc::FUTEX_WAIT, 0);
        }
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.0.store(1, Ordering::Release);
        futex(&self.0, libc::FUTEX_WAKE, 1);
    }
}

/// The two operations; who waits looks at the word again, whatever the result.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: `word` is an aligned u32 that lives as long as the call; WAIT
    // takes null for no timeout, WAKE ignores it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}
