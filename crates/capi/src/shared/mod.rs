//! Segments, and the objects in them that C opens by name.

mod barrier;
mod channel;
mod condvar;
mod end;
mod event;
mod mpmc;
mod mutex;
mod once;
mod segment;
mod semaphore;
mod service;

use std::ffi::{CStr, c_char};

use daiko::shm::{Reason, SegmentError};

use crate::pointer::Code;

/// `DAIKO_OPEN` and the rest: whether an object shall exist already.
#[derive(Clone, Copy)]
enum How {
    Open,
    Create,
    OpenOrCreate,
}

impl How {
    fn of(number: u32) -> Result<Self, Code> {
        match number {
            0 => Ok(How::Open),
            1 => Ok(How::Create),
            2 => Ok(How::OpenOrCreate),
            _ => Err(libc::EINVAL),
        }
    }

    /// Opens or creates an object.
    fn get<T>(
        self,
        open: impl FnOnce() -> Result<T, SegmentError>,
        create: impl FnOnce() -> Result<T, SegmentError>,
        either: impl FnOnce() -> Result<T, SegmentError>,
    ) -> Result<T, Code> {
        let object = match self {
            How::Open => open(),
            How::Create => create(),
            How::OpenOrCreate => either(),
        };
        object.map_err(|error| code_of_segment(&error))
    }
}

/// Returns the code of a segment or object that is not available.
fn code_of_segment(error: &SegmentError) -> Code {
    match error {
        SegmentError::File(error) => match error.reason() {
            Reason::Missing | Reason::NoDirectory => libc::ENOENT,
            Reason::Taken => libc::EEXIST,
            Reason::Denied { .. } | Reason::Exposed { .. } | Reason::Linked => libc::EACCES,
            Reason::NoList => libc::ENOTSUP,
            Reason::Full { .. } => libc::ENOSPC,
            _ => libc::EINVAL,
        },
        SegmentError::NoObject { .. } => libc::ENOENT,
        SegmentError::ObjectTaken { .. } => libc::EEXIST,
        SegmentError::Full { .. } | SegmentError::NoRoom { .. } => libc::ENOSPC,
        SegmentError::Foreign { .. }
        | SegmentError::Version { .. }
        | SegmentError::Machine { .. }
        | SegmentError::Pages { .. }
        | SegmentError::Unwatchable { .. } => libc::ENOTSUP,
        SegmentError::Size { .. } | SegmentError::Truncated { .. } => libc::EIO,
        SegmentError::Locked { .. } => libc::EAGAIN,
        SegmentError::Inherited { .. } => libc::EPERM,
        _ => libc::EINVAL,
    }
}

/// Returns the name that the caller passes.
fn name<'a>(name: *const c_char) -> Result<&'a str, Code> {
    if name.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: by `daiko.h`, a string that ends, and stays during the call.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| libc::EINVAL)
}
