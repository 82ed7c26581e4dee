//! `daiko_condvar`.

use std::panic::{self, AssertUnwindSafe};
use std::sync::PoisonError;

use daiko::sync::Condvar;
use daiko::time::Deadline;
use libc::timespec;

use crate::answer::{answer, caller, code_of, wait};
use crate::deadline;
use crate::mutex::EmbeddedMutex;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_condvar`.
#[repr(C, align(8))]
pub(crate) struct EmbeddedCondvar {
    condvar: Condvar,
    spare: [u8; 8],
}

const _: () = assert!(size_of::<EmbeddedCondvar>() == 32);

/// Waits, and holds the mutex again at any end.
fn wait_with(condvar: &Condvar, mutex: &EmbeddedMutex, deadline: Deadline) -> Result<(), Code> {
    let guard = mutex.guard()?;
    let waited = panic::catch_unwind(AssertUnwindSafe(|| {
        condvar.wait_timeout(guard, deadline).unwrap_or_else(PoisonError::into_inner)
    }));
    match waited {
        Ok((guard, end)) => {
            mutex.keep(guard);
            if end.timed_out() { Err(libc::ETIMEDOUT) } else { Ok(()) }
        }
        Err(payload) => {
            // The unwind has freed the mutex.
            match caller() {
                Some(fiber) => fiber.flags.shield(|| mutex.lock()),
                None => mutex.lock(),
            }
            Err(code_of(payload))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_condvar_init(condvar: OutPlace<EmbeddedCondvar>) -> Code {
    answer(|| condvar.put(EmbeddedCondvar { condvar: Condvar::new(), spare: [0; 8] }))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_condvar_wait(
    condvar: Passed<EmbeddedCondvar>,
    mutex: Passed<EmbeddedMutex>,
) -> Code {
    wait(|| wait_with(&condvar.get()?.condvar, mutex.get()?, Deadline::NEVER))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_condvar_wait_until(
    condvar: Passed<EmbeddedCondvar>,
    mutex: Passed<EmbeddedMutex>,
    until: Passed<timespec>,
) -> Code {
    wait(|| wait_with(&condvar.get()?.condvar, mutex.get()?, deadline::named(&until)?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_condvar_notify_one(condvar: Passed<EmbeddedCondvar>) -> Code {
    answer(|| {
        condvar.get()?.condvar.notify_one();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_condvar_notify_all(condvar: Passed<EmbeddedCondvar>) -> Code {
    answer(|| {
        condvar.get()?.condvar.notify_all();
        Ok(())
    })
}
