//! `daiko_poller`: a function that agents call.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use daiko::agent::{PollerBuilder, RegisterError, Registration};
use daiko_rt::runtime::RuntimeInner;

use crate::answer::{answer, caller, wait};
use crate::attributes::{self, PollerAttributes};
use crate::life::{HeldRuntime, with_runtime};
use crate::pointer::{Code, OutPlace, Parcel, Passed, give};

/// `DAIKO_POLLER_ON_WORKER`, `DAIKO_POLLER_PEER_ELSEWHERE`.
const ON_WORKER: u32 = 1;
const PEER_ELSEWHERE: u32 = 2;

type Look = unsafe extern "C" fn(*mut c_void) -> usize;

fn register(
    runtime: &RuntimeInner,
    attributes: PollerAttributes,
    look: Look,
    argument: Parcel,
) -> Result<Registration, Code> {
    if attributes.flags & !(ON_WORKER | PEER_ELSEWHERE) != 0 || attributes.unused != 0 {
        return Err(libc::E2BIG);
    }
    let mut builder = PollerBuilder::new();
    if attributes.flags & ON_WORKER != 0 {
        builder = builder.on(attributes.worker as usize);
    }
    if attributes.flags & PEER_ELSEWHERE != 0 {
        builder = builder.peer_elsewhere();
    }
    if attributes.wake_fd >= 0 {
        // SAFETY: by `daiko.h`, the descriptor is open during the call; it is not -1.
        let fd = unsafe { BorrowedFd::borrow_raw(attributes.wake_fd) };
        let own =
            fd.try_clone_to_owned().map_err(|error| error.raw_os_error().unwrap_or(libc::EBADF));
        builder = builder.wake_fd(own?);
    }
    let poller = move || {
        let Parcel(argument) = { argument };
        // SAFETY: by `daiko.h`, the function accepts the argument that was passed with it, until
        // the poller is unregistered.
        unsafe { look(argument) }
    };
    builder.register_at(runtime, poller).map_err(|error| match error {
        RegisterError::WakeFd(error) => error.raw_os_error().unwrap_or(libc::EBADF),
        _ => libc::EINVAL,
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_poller_attr_init(attributes: *mut PollerAttributes, size: usize) -> Code {
    answer(|| attributes::initialise(attributes, size))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_poller_register(
    runtime: Passed<HeldRuntime>,
    poller: OutPlace<*const Registration>,
    attributes: Passed<PollerAttributes>,
    look: Option<Look>,
    argument: *mut c_void,
) -> Code {
    answer(|| {
        poller.check()?;
        let (look, argument) = (look.ok_or(libc::EINVAL)?, Parcel(argument));
        let attributes = attributes::of_caller(&attributes)?;
        poller
            .put(give(with_runtime(&runtime, |inner| register(inner, attributes, look, argument))?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_poller_set_active(poller: Passed<Registration>, active: i32) -> Code {
    answer(|| {
        poller.get()?.set_active(active != 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_poller_unregister(poller: Passed<Registration>) -> Code {
    wait(|| {
        let poller = poller.take()?;
        // The poller is gone at the end, so no cancel may end the wait for its last run.
        match caller() {
            Some(fiber) => fiber.flags.shield(|| drop(poller)),
            None => drop(poller),
        }
        Ok(())
    })
}
