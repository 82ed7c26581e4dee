//! Semaphores of segments.

use std::ffi::c_char;
use std::mem;

use daiko::shm::{Segment, Semaphore};
use libc::timespec;

use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_open(
    semaphore: OutPlace<*const Semaphore>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
    permits: u32,
) -> Code {
    answer(|| {
        semaphore.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Semaphore::open(segment, called),
            || Semaphore::create(segment, called, permits),
            || Semaphore::open_or_create(segment, called, permits),
        );
        semaphore.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_acquire(
    semaphore: Passed<Semaphore>,
    until: Passed<timespec>,
    permit: OutPlace<u32>,
) -> Code {
    wait(|| {
        permit.check()?;
        let deadline = deadline::named_or_never(&until)?;
        let acquired = semaphore.get()?.acquire_timeout(deadline).map_err(|_| libc::ETIMEDOUT)?;
        permit.put(acquired.number())?;
        // The process keeps it: if it dies, a peer takes it.
        mem::forget(acquired);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_release(semaphore: Passed<Semaphore>, permit: u32) -> Code {
    answer(|| {
        let semaphore = semaphore.get()?;
        semaphore.give_back(permit).then_some(()).ok_or(libc::EPERM)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_semaphore_close(semaphore: Passed<Semaphore>) -> Code {
    answer(|| semaphore.take().map(drop))
}
