//! Calls that block, away from the worker.

use std::ffi::c_void;

use crate::answer::wait;
use crate::pointer::{Body, Code, OutPlace, Parcel};

#[unsafe(no_mangle)]
extern "C" fn daiko_blocking(
    body: Option<Body>,
    argument: *mut c_void,
    result: OutPlace<*mut c_void>,
) -> Code {
    wait(|| {
        let (body, argument) = (body.ok_or(libc::EINVAL)?, Parcel(argument));
        let Parcel(end) = daiko::blocking(move || argument.pass_to(body));
        result.put_if_wanted(end);
        Ok(())
    })
}
