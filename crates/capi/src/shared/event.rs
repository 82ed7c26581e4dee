//! Events of segments.

use std::ffi::c_char;

use daiko::shm::{Event, Segment};
use libc::timespec;

use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_open(
    event: OutPlace<*const Event>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        event.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Event::open(segment, called),
            || Event::create(segment, called),
            || Event::open_or_create(segment, called),
        );
        event.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_set(event: Passed<Event>) -> Code {
    answer(|| {
        event.get()?.set();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_reset(event: Passed<Event>) -> Code {
    answer(|| {
        event.get()?.reset();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_wait(event: Passed<Event>, until: Passed<timespec>) -> Code {
    wait(|| {
        let deadline = deadline::named_or_never(&until)?;
        event.get()?.wait_timeout(deadline).map_err(|_| libc::ETIMEDOUT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_event_close(event: Passed<Event>) -> Code {
    answer(|| event.take().map(drop))
}
