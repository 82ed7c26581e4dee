//! Waits without an object: park, yield, sleep; and parts without waits.

use daiko_rt::worker::suspend;
use libc::timespec;

use crate::answer::{answer, caller, wait, wait_as_fiber};
use crate::deadline;
use crate::pointer::{Code, Passed};

#[unsafe(no_mangle)]
extern "C" fn daiko_park() -> Code {
    match answer(|| if suspend::park_plainly() { Ok(()) } else { Err(NOT_PLAIN) }) {
        NOT_PLAIN => park_slow(),
        code => code,
    }
}

/// The caller has to be looked at. No code of `errno.h` is negative.
const NOT_PLAIN: Code = -1;

#[cold]
#[inline(never)]
fn park_slow() -> Code {
    wait_as_fiber(|| {
        daiko::park();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_park_until(until: Passed<timespec>) -> Code {
    wait_as_fiber(|| {
        daiko::park_timeout(deadline::named(&until)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_yield() -> Code {
    wait_as_fiber(|| {
        daiko::yield_now();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_sleep_until(until: Passed<timespec>) -> Code {
    wait(|| {
        daiko::sleep(deadline::named(&until)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_no_suspend_begin() -> Code {
    answer(|| {
        let fiber = caller().ok_or(libc::EPERM)?;
        fiber.flags.begin_no_suspend().then_some(()).ok_or(libc::EOVERFLOW)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_no_suspend_end() -> Code {
    answer(|| {
        let fiber = caller().ok_or(libc::EPERM)?;
        fiber.flags.end_no_suspend().then_some(()).ok_or(libc::EINVAL)
    })
}
