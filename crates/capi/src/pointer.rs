//! Pointers that C passes.
//!
//! `daiko.h` says which of them may be NULL. An object that is not at NULL has the type of the
//! parameter, and lives until the function has returned.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// A number of `errno.h`.
pub(crate) type Code = c_int;

/// A function of the caller's, with the argument that it gets.
pub(crate) type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// A pointer of the caller's to its own data, which Daiko hands on.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Parcel(pub(crate) *mut c_void);

// SAFETY: the pointer is only handed on; its owner says which threads may use its target.
unsafe impl Send for Parcel {}
// SAFETY: as above.
unsafe impl Sync for Parcel {}

impl Parcel {
    /// Calls `body` with the pointer.
    pub(crate) fn pass_to(self, body: Body) -> Parcel {
        // SAFETY: by `daiko.h`, the function accepts the argument that was passed with it.
        Parcel(unsafe { body(self.0) })
    }
}

/// An object that the caller shares for the time of a call, or NULL.
#[repr(transparent)]
pub(crate) struct Passed<T>(*const T);

impl<T> Passed<T> {
    /// Passes NULL.
    pub(crate) fn none() -> Self {
        Passed(std::ptr::null())
    }

    /// Passes `object`, as C does.
    #[cfg(test)]
    pub(crate) fn of(object: &T) -> Self {
        Passed(object)
    }

    /// Returns the object.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, or not at its alignment.
    #[inline(always)]
    pub(crate) fn get(&self) -> Result<&T, Code> {
        if !self.0.is_aligned() {
            return Err(libc::EINVAL);
        }
        // SAFETY: aligned, as was just found; by the rule of this module, an object lies there, and
        // lives as long as the parameter.
        unsafe { self.0.as_ref() }.ok_or(libc::EINVAL)
    }

    /// Returns the address of the object.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(crate) fn address(&self) -> Result<NonNull<T>, Code> {
        self.get().map(NonNull::from)
    }

    /// Returns true if there is no object.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the integer that the object begins with, even if the rest is not there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn size(&self) -> Result<usize, Code> {
        let size: Passed<usize> = Passed(self.0.cast());
        size.get().copied()
    }

    /// Returns the bytes behind the object, where the caller has `stated` bytes in all.
    pub(crate) fn rest(&self, stated: usize) -> Result<&[u8], Code> {
        bytes(self.0.wrapping_add(1).cast(), stated.saturating_sub(size_of::<T>()))
    }

    /// Takes the object, which [`give`] has made.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn take(self) -> Result<Box<T>, Code> {
        let object = self.address()?;
        // SAFETY: by `daiko.h`, the pointer comes from `give`, and is not used again.
        Ok(unsafe { Box::from_raw(object.as_ptr()) })
    }
}

/// Returns the pointer of a new object, which C has until [`Passed::take`].
pub(crate) fn give<T>(object: T) -> *const T {
    Box::into_raw(Box::new(object))
}

/// A place of the caller's for a result, or NULL. It may be uninitialised.
#[repr(transparent)]
pub(crate) struct OutPlace<T>(*mut T);

impl<T> OutPlace<T> {
    /// Checks that there is a place.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, or not at its alignment.
    pub(crate) fn check(&self) -> Result<(), Code> {
        if self.0.is_null() || !self.0.is_aligned() { Err(libc::EINVAL) } else { Ok(()) }
    }

    /// Writes the result to the place.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(crate) fn put(&self, value: T) -> Result<(), Code> {
        self.check()?;
        // SAFETY: by the rule of this module the place is valid for a write; aligned, as was just
        // found.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes the result to the place, if there is one.
    pub(crate) fn put_if_wanted(&self, value: T) {
        let _ = self.put(value);
    }

    /// Returns true if the caller does not want the result.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Returns the bytes at `at`.
///
/// # Errors
///
/// As [`numbers`].
pub(crate) fn bytes<'a>(at: *const u8, len: usize) -> Result<&'a [u8], Code> {
    numbers(at, len)
}

/// Returns the numbers at `at`.
///
/// # Errors
///
/// `EINVAL` if there are some, but no address, or not at its alignment.
pub(crate) fn numbers<'a, T: Number>(at: *const T, len: usize) -> Result<&'a [T], Code> {
    match NonNull::new(at.cast_mut()) {
        _ if len == 0 => Ok(&[]),
        _ if len > isize::MAX as usize / size_of::<T>() || !at.is_aligned() => Err(libc::EINVAL),
        None => Err(libc::EINVAL),
        // SAFETY: by the rule of this module the numbers are there, and live until the end of the
        // call; aligned, and not more than `isize::MAX` bytes. A number has any bits.
        Some(at) => Ok(unsafe { std::slice::from_raw_parts(at.as_ptr(), len) }),
    }
}

/// An integer.
pub(crate) trait Number: Copy {}

impl Number for u8 {}
impl Number for u32 {}

/// Returns the place for bytes at `at`. They may be uninitialised, and are only written.
///
/// # Errors
///
/// As [`bytes`].
pub(crate) fn bytes_mut<'a>(at: *mut u8, len: usize) -> Result<&'a mut [u8], Code> {
    match bytes(at, len)? {
        [] => Ok(&mut []),
        // SAFETY: `bytes` has checked the address and the length; by `daiko.h`, the caller alone
        // uses the place, until the end of the call.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(at, len) }),
    }
}
