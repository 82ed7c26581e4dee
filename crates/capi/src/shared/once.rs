//! Initialisations of segments, which one process makes.

use std::ffi::{c_char, c_int, c_void};

use daiko::shm::{Once, Segment};
use libc::timespec;

use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

/// `daiko_initialiser`: gets the caller's argument, and whether an earlier call has not completed.
type Initialiser = unsafe extern "C" fn(*mut c_void, c_int);

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_once_open(
    once: OutPlace<*const Once>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        once.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Once::open(segment, called),
            || Once::create(segment, called),
            || Once::open_or_create(segment, called),
        );
        once.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_once_call(
    once: Passed<Once>,
    init: Option<Initialiser>,
    argument: *mut c_void,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (once, init) = (once.get()?, init.ok_or(libc::EINVAL)?);
        let deadline = deadline::named_or_never(&until)?;
        let called = once.call_once_force_timeout(deadline, |state| {
            let is_again = c_int::from(state.cause().is_some());
            // SAFETY: by `daiko.h`, the function accepts the argument that was passed with it.
            unsafe { init(argument, is_again) }
        });
        called.map_err(|_| libc::ETIMEDOUT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_once_close(once: Passed<Once>) -> Code {
    answer(|| once.take().map(drop))
}
