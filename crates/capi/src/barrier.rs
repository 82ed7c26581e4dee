//! `daiko_barrier`.

use std::ffi::c_int;

use daiko::sync::Barrier;
use daiko::time::Deadline;
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_barrier`.
#[repr(C, align(8))]
pub(crate) struct EmbeddedBarrier {
    barrier: Barrier,
    spare: [u8; 16],
}

const _: () = assert!(size_of::<EmbeddedBarrier>() == 40);

fn wait_at(
    barrier: &Passed<EmbeddedBarrier>,
    is_leader: &OutPlace<c_int>,
    deadline: Deadline,
) -> Result<(), Code> {
    let result = barrier.get()?.barrier.wait_timeout(deadline).map_err(|_| libc::ETIMEDOUT)?;
    is_leader.put_if_wanted(c_int::from(result.is_leader()));
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn daiko_barrier_init(barrier: OutPlace<EmbeddedBarrier>, parties: u32) -> Code {
    answer(|| match parties {
        0 => Err(libc::EINVAL),
        _ => {
            barrier.put(EmbeddedBarrier { barrier: Barrier::new(parties as usize), spare: [0; 16] })
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_barrier_wait(
    barrier: Passed<EmbeddedBarrier>,
    is_leader: OutPlace<c_int>,
) -> Code {
    wait(|| wait_at(&barrier, &is_leader, Deadline::NEVER))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_barrier_wait_until(
    barrier: Passed<EmbeddedBarrier>,
    is_leader: OutPlace<c_int>,
    until: Passed<timespec>,
) -> Code {
    wait(|| wait_at(&barrier, &is_leader, deadline::named(&until)?))
}
