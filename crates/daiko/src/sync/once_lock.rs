//! A value that is written once.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Form;
use super::{Once, TimedOut};
use daiko_rt::Deadline;

/// A cell for a value that is written once, by its first caller, as [`std::sync::OnceLock`].
///
/// A fiber that has to wait for another initializer suspends; any other thread blocks. If the
/// closure that makes the value panics, or the fiber that runs it is cancelled, there is no value
/// yet, and the next caller makes it. [`cancel::shield`](crate::cancel::shield) defers a cancel; a
/// [`LazyLock`](super::LazyLock), which has only one closure, does so itself.
///
/// ```
/// use daiko::sync::OnceLock;
///
/// static CONFIG: OnceLock<String> = OnceLock::new();
///
/// daiko::run(|| {
///     let reader = daiko::spawn(|| CONFIG.wait().len());
///     assert_eq!(CONFIG.get_or_init(|| "a = 1".to_owned()), "a = 1");
///     assert_eq!(reader.join().unwrap(), 5);
///     assert_eq!(CONFIG.set(String::new()), Err(String::new()));
/// });
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// Written by the initializer before completion; shared from then on.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is shared, and may be written on one thread and dropped on another.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}

const INIT: Form = Form::new("OnceLock::get_or_init", true, true);
const WAIT: Form = Form::new("OnceLock::wait", false, true);
const SET: Form = Form::new("OnceLock::set", true, true);

/// Reason why a value was not written in time; it contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SetTimeoutError<T> {
    /// A value exists already.
    Occupied(T),
    /// The time is over.
    TimedOut(T),
}

impl<T> SetTimeoutError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            SetTimeoutError::Occupied(value) | SetTimeoutError::TimedOut(value) => value,
        }
    }
}

impl<T> fmt::Display for SetTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetTimeoutError::Occupied(_) => "there is a value already",
            SetTimeoutError::TimedOut(_) => "another caller did not finish the value in time",
        })
    }
}

impl<T> fmt::Debug for SetTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetTimeoutError::Occupied(_) => "Occupied(..)",
            SetTimeoutError::TimedOut(_) => "TimedOut(..)",
        })
    }
}

impl<T> std::error::Error for SetTimeoutError<T> {}

impl<T> OnceLock<T> {
    /// Creates an empty cell.
    pub const fn new() -> Self {
        OnceLock { once: Once::new(), value: UnsafeCell::new(None) }
    }

    /// Returns the value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.once.is_completed() {
            return None;
        }
        // SAFETY: initialization is complete, so that only `&mut` access can still write.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Returns the value, if it is there, to a caller with exclusive access.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Writes the value, unless there is one; waits for another initializer.
    ///
    /// # Errors
    ///
    /// If there is a value already; the error contains `value`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    pub fn set(&self, value: T) -> Result<(), T> {
        self.set_until(value, || Deadline::NEVER).map_err(SetTimeoutError::into_inner)
    }

    /// Writes the value as [`set`](Self::set) does, but waits for another initializer for at most
    /// `timeout`.
    ///
    /// ```
    /// # use daiko::sync::{OnceLock, SetTimeoutError};
    /// # use std::time::Duration;
    /// let cell = OnceLock::new();
    /// assert_eq!(cell.set_timeout(1, Duration::ZERO), Ok(()));
    /// assert_eq!(cell.set_timeout(2, Duration::ZERO), Err(SetTimeoutError::Occupied(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is a value already, or the time is over; the error contains `value`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    pub fn set_timeout(
        &self,
        value: T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), SetTimeoutError<T>> {
        self.set_until(value, || timeout.into())
    }

    fn set_until(
        &self,
        value: T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), SetTimeoutError<T>> {
        let mut value = Some(value);
        let make = || value.take().expect("it is made once");
        let is_there = self.init(&SET, deadline, make).is_ok();
        match value {
            None => Ok(()),
            Some(value) if is_there => Err(SetTimeoutError::Occupied(value)),
            Some(value) => Err(SetTimeoutError::TimedOut(value)),
        }
    }

    /// Returns the value, which `make` makes if there is none; waits for another initializer.
    ///
    /// # Panics
    ///
    /// If `make` panics, and then there is no value yet; if the caller is inside the closure that
    /// makes this value; if it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.init(&INIT, || Deadline::NEVER, make) {
            Ok(value) => value,
            Err(TimedOut) => unreachable!("never"),
        }
    }

    /// Returns the value as [`get_or_init`](Self::get_or_init) does, but waits for another
    /// initializer for at most `timeout`. The time that `make` takes does not count.
    ///
    /// # Errors
    ///
    /// If the time is over; `make` was not run.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    #[track_caller]
    pub fn get_or_init_timeout(
        &self,
        timeout: impl Into<Deadline>,
        make: impl FnOnce() -> T,
    ) -> Result<&T, TimedOut> {
        self.init(&INIT, || timeout.into(), make)
    }

    #[inline]
    #[track_caller]
    pub(super) fn init(
        &self,
        form: &Form,
        deadline: impl FnOnce() -> Deadline,
        make: impl FnOnce() -> T,
    ) -> Result<&T, TimedOut> {
        self.once.call_with(form, deadline, |call, _| {
            let value = Some(call.user_code(make));
            // SAFETY: one initializer runs at a time, and no reader looks before completion.
            unsafe { *self.value.get() = value };
        })?;
        Ok(self.done())
    }

    /// Waits until another thread or fiber has written the value.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    #[inline]
    pub fn wait(&self) -> &T {
        let _ = self.once.see(&WAIT, || Deadline::NEVER);
        self.done()
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    pub fn wait_timeout(&self, timeout: impl Into<Deadline>) -> Result<&T, TimedOut> {
        self.once.see(&WAIT, || timeout.into())?;
        Ok(self.done())
    }

    /// Returns the value, which is known to be there.
    #[inline]
    fn done(&self) -> &T {
        match self.get() {
            Some(value) => value,
            None => unreachable!("it is done"),
        }
    }

    /// Returns the value, if it is there.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out, if it is there: from then on there is none.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        cell.get_or_init(|| value);
        cell
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => debug.field(value),
            None => debug.field(&format_args!("<uninit>")),
        };
        debug.finish()
    }
}
