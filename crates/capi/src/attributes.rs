//! Attributes: structs that begin with their size, so that later versions can add fields.

use std::ffi::c_char;

use crate::pointer::{Code, Passed};

/// The version of `daiko.h` that this library implements: `DAIKO_VERSION_NUMBER`.
pub(crate) const VERSION_NUMBER: u32 = 0x00_01_00;

/// A bound of the bytes of attributes, so that no stray size is believed.
const LARGEST: usize = 4096;

/// A struct of attributes, which begins with its size.
///
/// # Safety
///
/// It is `repr(C)`, begins with a `usize`, and any bytes are a valid value.
pub(crate) unsafe trait Attributes: Copy {
    /// Attributes that choose nothing.
    const DEFAULT: Self;

    /// Returns the size that the caller states.
    fn size(&self) -> usize;

    /// Returns the same attributes with this size.
    fn with_size(self, size: usize) -> Self;
}

/// `daiko_runtime_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RuntimeAttributes {
    size: usize,
    pub(crate) version: u32,
    pub(crate) workers: u32,
    pub(crate) stack_size: usize,
    pub(crate) guard_size: usize,
    pub(crate) preset: u32,
    pub(crate) flags: u32,
}

/// `daiko_fiber_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct FiberAttributes {
    size: usize,
    pub(crate) flags: u32,
    pub(crate) worker: u32,
    pub(crate) stack_size: usize,
    pub(crate) name: *const c_char,
}

/// `daiko_poller_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct PollerAttributes {
    size: usize,
    pub(crate) flags: u32,
    pub(crate) worker: u32,
    pub(crate) wake_fd: i32,
    pub(crate) unused: u32,
}

// SAFETY: the struct is `repr(C)`, begins with its size, and has integers alone.
unsafe impl Attributes for RuntimeAttributes {
    const DEFAULT: Self = RuntimeAttributes {
        size: size_of::<Self>(),
        version: VERSION_NUMBER,
        workers: 0,
        stack_size: 0,
        guard_size: 0,
        preset: 0,
        flags: 0,
    };

    fn size(&self) -> usize {
        self.size
    }

    fn with_size(self, size: usize) -> Self {
        RuntimeAttributes { size, ..self }
    }
}

// SAFETY: the struct is `repr(C)`, begins with its size, and has integers and a raw pointer alone.
unsafe impl Attributes for FiberAttributes {
    const DEFAULT: Self = FiberAttributes {
        size: size_of::<Self>(),
        flags: 0,
        worker: 0,
        stack_size: 0,
        name: std::ptr::null(),
    };

    fn size(&self) -> usize {
        self.size
    }

    fn with_size(self, size: usize) -> Self {
        FiberAttributes { size, ..self }
    }
}

// SAFETY: the struct is `repr(C)`, begins with its size, and has integers alone.
unsafe impl Attributes for PollerAttributes {
    const DEFAULT: Self =
        PollerAttributes { size: size_of::<Self>(), flags: 0, worker: 0, wake_fd: -1, unused: 0 };

    fn size(&self) -> usize {
        self.size
    }

    fn with_size(self, size: usize) -> Self {
        PollerAttributes { size, ..self }
    }
}

/// Returns the attributes of the caller, or those that choose nothing.
///
/// # Errors
///
/// `EINVAL` if the stated size is less than that of the first version; `E2BIG` if the attributes
/// have a choice that this version does not know.
pub(crate) fn of_caller<A: Attributes>(attributes: &Passed<A>) -> Result<A, Code> {
    if attributes.is_null() {
        return Ok(A::DEFAULT);
    }
    // The size alone may be there.
    let stated = attributes.size()?;
    if !(size_of::<A>()..=LARGEST).contains(&stated) {
        return Err(libc::EINVAL);
    }
    let known = attributes.get()?;
    if attributes.rest(stated)?.iter().any(|&byte| byte != 0) {
        return Err(libc::E2BIG);
    }
    debug_assert_eq!(known.size(), stated);
    Ok(known.with_size(size_of::<A>()))
}

/// Writes attributes that choose nothing to the caller's `bytes` at `to`.
///
/// # Errors
///
/// `EINVAL` if there is no place, or less than the first version has.
pub(crate) fn initialise<A: Attributes>(to: *mut A, size: usize) -> Result<(), Code> {
    if to.is_null() || !to.is_aligned() || !(size_of::<A>()..=LARGEST).contains(&size) {
        return Err(libc::EINVAL);
    }
    // SAFETY: by `daiko.h`, the caller has so many bytes there; they are aligned for the struct.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        to.write(A::DEFAULT.with_size(size));
    }
    Ok(())
}
