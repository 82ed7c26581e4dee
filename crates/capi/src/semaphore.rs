//! `daiko_semaphore`.

use daiko::sync::Semaphore;
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_semaphore`.
#[repr(C, align(8))]
pub(crate) struct EmbeddedSemaphore {
    semaphore: Semaphore,
    spare: [u8; 16],
}

const _: () = assert!(size_of::<EmbeddedSemaphore>() == 32);

/// Checks a number of permits.
fn checked(count: u32) -> Result<u32, Code> {
    if count <= Semaphore::MAX_PERMITS { Ok(count) } else { Err(libc::EINVAL) }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_semaphore_init(semaphore: OutPlace<EmbeddedSemaphore>, permits: u32) -> Code {
    answer(|| {
        let semaphore_of = Semaphore::new(checked(permits)?);
        semaphore.put(EmbeddedSemaphore { semaphore: semaphore_of, spare: [0; 16] })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_semaphore_acquire(semaphore: Passed<EmbeddedSemaphore>, count: u32) -> Code {
    wait(|| {
        semaphore.get()?.semaphore.acquire_many(checked(count)?).forget();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_semaphore_acquire_until(
    semaphore: Passed<EmbeddedSemaphore>,
    count: u32,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (count, deadline) = (checked(count)?, deadline::named(&until)?);
        let permit = semaphore.get()?.semaphore.acquire_timeout(count, deadline);
        permit.map_err(|_| libc::ETIMEDOUT)?.forget();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_semaphore_tryacquire(semaphore: Passed<EmbeddedSemaphore>, count: u32) -> Code {
    answer(|| {
        let permit = semaphore.get()?.semaphore.try_acquire(checked(count)?);
        permit.ok_or(libc::EAGAIN)?.forget();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_semaphore_release(semaphore: Passed<EmbeddedSemaphore>, count: u32) -> Code {
    let code = answer(|| {
        semaphore.get()?.semaphore.add_permits(checked(count)?);
        Ok(())
    });
    // The one thing that a release panics about.
    if code == libc::ENOTRECOVERABLE { libc::EOVERFLOW } else { code }
}
