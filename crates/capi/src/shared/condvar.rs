//! Condition variables of segments.

use std::ffi::c_char;
use std::panic::{self, AssertUnwindSafe};

use daiko::shm::{Condvar, Segment};
use daiko::time::Deadline;
use libc::timespec;

use super::mutex::HeldSharedMutex;
use super::{How, name};
use crate::answer::{answer, caller, code_of, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

/// Waits, and holds the mutex again at any end.
fn wait_with(condvar: &Condvar, mutex: &HeldSharedMutex, deadline: Deadline) -> Result<(), Code> {
    let guard = mutex.guard()?;
    let waited = panic::catch_unwind(AssertUnwindSafe(|| condvar.wait_timeout(guard, deadline)));
    match waited {
        Ok(Ok((guard, end))) => {
            mutex.keep(guard);
            if end.timed_out() { Err(libc::ETIMEDOUT) } else { Ok(()) }
        }
        Ok(Err(error)) => {
            mutex.keep(error.into_inner().0);
            Err(libc::EOWNERDEAD)
        }
        Err(payload) => {
            // The unwind has freed the mutex.
            let lock = || mutex.lock(Deadline::NEVER);
            match caller() {
                Some(fiber) => fiber.flags.shield(lock)?,
                None => lock()?,
            }
            Err(code_of(payload))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_condvar_open(
    condvar: OutPlace<*const Condvar>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        condvar.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Condvar::open(segment, called),
            || Condvar::create(segment, called),
            || Condvar::open_or_create(segment, called),
        );
        condvar.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_condvar_wait(
    condvar: Passed<Condvar>,
    mutex: Passed<HeldSharedMutex>,
    until: Passed<timespec>,
) -> Code {
    wait(|| wait_with(condvar.get()?, mutex.get()?, deadline::named_or_never(&until)?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_condvar_notify_one(condvar: Passed<Condvar>) -> Code {
    answer(|| {
        condvar.get()?.notify_one();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_condvar_notify_all(condvar: Passed<Condvar>) -> Code {
    answer(|| {
        condvar.get()?.notify_all();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_condvar_close(condvar: Passed<Condvar>) -> Code {
    answer(|| condvar.take().map(drop))
}
