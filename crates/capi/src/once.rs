//! `daiko_once`.

use std::ffi::c_void;

use daiko::sync::Once;

use crate::answer::wait;
use crate::pointer::{Code, Passed};

/// `daiko_once_flag`.
#[repr(C, align(8))]
pub(crate) struct EmbeddedOnce {
    once: Once,
    spare: [u8; 16],
}

const _: () = assert!(size_of::<EmbeddedOnce>() == 40);

#[unsafe(no_mangle)]
extern "C" fn daiko_once(
    once: Passed<EmbeddedOnce>,
    init: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> Code {
    let code = wait(|| {
        let (once, init) = (once.get()?, init.ok_or(libc::EINVAL)?);
        // SAFETY: by `daiko.h`, the function accepts the argument that was passed with it.
        once.once.call_once(|| unsafe { init(argument) });
        Ok(())
    });
    // The one thing that it panics about: a call by its own function.
    if code == libc::ENOTRECOVERABLE { libc::EDEADLK } else { code }
}
