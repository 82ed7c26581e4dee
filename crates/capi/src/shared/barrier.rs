//! Barriers of segments.

use std::ffi::{c_char, c_int};

use daiko::shm::{Barrier, BarrierError, BarrierParty, Segment};
use libc::timespec;

use super::end::{SharedEnd, close_end, give_end, use_end};
use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

fn code_of_barrier(error: BarrierError) -> Code {
    match error {
        BarrierError::Taken => libc::EBUSY,
        BarrierError::Died { .. } => libc::EOWNERDEAD,
        BarrierError::Left { .. } => libc::EPIPE,
        BarrierError::TimedOut => libc::ETIMEDOUT,
        _ => libc::EIO,
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_barrier_open(
    barrier: OutPlace<*const Barrier>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
    parties: u32,
) -> Code {
    answer(|| {
        barrier.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let opened = How::of(how)?.get(
            || Barrier::open(segment, called),
            || Barrier::create(segment, called, parties),
            || Barrier::open_or_create(segment, called, parties),
        );
        barrier.put(give(opened?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_barrier_close(barrier: Passed<Barrier>) -> Code {
    answer(|| barrier.take().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_party_connect(
    party: OutPlace<*const SharedEnd<BarrierParty>>,
    barrier: Passed<Barrier>,
) -> Code {
    answer(|| {
        party.check()?;
        party.put(give_end(barrier.get()?.party().map_err(code_of_barrier)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_party_wait(
    party: Passed<SharedEnd<BarrierParty>>,
    until: Passed<timespec>,
    is_leader: OutPlace<c_int>,
) -> Code {
    wait(|| {
        let (deadline, mut party) = (deadline::named_or_never(&until)?, use_end(&party)?);
        let result = party.wait_timeout(deadline).map_err(code_of_barrier)?;
        is_leader.put_if_wanted(c_int::from(result.is_leader()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_party_close(party: Passed<SharedEnd<BarrierParty>>) -> Code {
    close_end(party)
}
