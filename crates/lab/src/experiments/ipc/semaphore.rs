//! `semaphore`: messages in slots; one `sem_t` shared by processes for the server, and one for each
//! client.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

use super::slotted::SlotBell;
use crate::kit::{ForkShared, Zeroed, again};

/// A semaphore for processes, on cache lines of its own.
#[repr(C, align(128))]
pub(super) struct ProcessSemaphore(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: once `open` has initialised it, it is used through its own functions only, which
// synchronise processes. Zeroed memory is a valid value that is not initialised. It holds no
// address.
unsafe impl Zeroed for ProcessSemaphore {}
// SAFETY: as above.
unsafe impl Sync for ProcessSemaphore {}

impl ProcessSemaphore {
    fn raw(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

impl SlotBell for ProcessSemaphore {
    const NAME: &'static str = "semaphore";
    const IS_FOR_ALL: bool = false;
    type Bells = ForkShared<Self>;

    fn open(count: usize) -> io::Result<ForkShared<Self>> {
        let all = ForkShared::<Self>::new(count).map_err(io::Error::other)?;
        // SAFETY: valid for writes, and no other process uses it yet.
        let init = |one: &Self| again(|| unsafe { libc::sem_init(one.raw(), 1, 0) }).map(drop);
        all.iter().try_for_each(init)?;
        Ok(all)
    }

    fn get(bells: &ForkShared<Self>, index: usize) -> &Self {
        &bells[index]
    }

    fn wait(&self) -> io::Result<()> {
        // SAFETY: initialised by `open`.
        again(|| unsafe { libc::sem_wait(self.raw()) }).map(drop)
    }

    fn ring(&self) -> io::Result<()> {
        // SAFETY: initialised by `open`.
        again(|| unsafe { libc::sem_post(self.raw()) }).map(drop)
    }
}
