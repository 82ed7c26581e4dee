//! `daiko_event`.

use std::ffi::c_int;

use daiko::sync::Event;
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_event`.
#[repr(C, align(8))]
pub(crate) struct EmbeddedEvent {
    event: Event,
    spare: [u8; 16],
}

const _: () = assert!(size_of::<EmbeddedEvent>() == 32);

#[unsafe(no_mangle)]
extern "C" fn daiko_event_init(event: OutPlace<EmbeddedEvent>, is_auto: c_int) -> Code {
    answer(|| {
        let event_of = if is_auto == 0 { Event::manual() } else { Event::auto() };
        event.put(EmbeddedEvent { event: event_of, spare: [0; 16] })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_event_set(event: Passed<EmbeddedEvent>) -> Code {
    answer(|| {
        event.get()?.event.set();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_event_reset(event: Passed<EmbeddedEvent>) -> Code {
    answer(|| {
        event.get()?.event.reset();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_event_wait(event: Passed<EmbeddedEvent>) -> Code {
    wait(|| {
        event.get()?.event.wait();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_event_wait_until(
    event: Passed<EmbeddedEvent>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let deadline = deadline::named(&until)?;
        event.get()?.event.wait_timeout(deadline).map_err(|_| libc::ETIMEDOUT)
    })
}
