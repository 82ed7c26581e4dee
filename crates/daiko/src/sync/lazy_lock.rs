//! A value that is made on first use.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Form;
use super::{OnceLock, TimedOut};
use crate::cancel;
use daiko_rt::Deadline;

/// A value that is made by its first user, as [`std::sync::LazyLock`].
///
/// A fiber that has to wait for another initializer suspends; any other thread blocks.
///
/// It is poisoned if the closure that makes the value panics: from then on each access panics. A
/// cancel is deferred while the closure runs, as by [`cancel::shield`], because the closure could
/// not be run again. The closure of an [`OnceLock`] is unwound, as the next caller brings its own.
/// A waiter can be cancelled in either.
///
/// ```
/// use daiko::sync::LazyLock;
///
/// static PRIMES: LazyLock<Vec<u32>> =
///     LazyLock::new(|| (2..100).filter(|n| (2..*n).all(|d| n % d != 0)).collect());
///
/// daiko::run(|| assert_eq!(PRIMES.len(), 25));
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Accessed by the initializer only, while it makes the value.
    make: Cell<Option<F>>,
}

// SAFETY: the value is shared as that of a `OnceLock`; the closure goes to the thread that runs it.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

const FORCE: Form = Form::new("LazyLock::force", true, true);

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Creates a value that `make` will make.
    pub const fn new(make: F) -> Self {
        LazyLock { value: OnceLock::new(), make: Cell::new(Some(make)) }
    }

    /// Returns the value, which is made if it is not there; waits for another initializer.
    ///
    /// # Panics
    ///
    /// If the closure panics, or did so before; if the caller is that closure; if it would have to
    /// wait inside [`no_suspend`](crate::no_suspend), or in a [`Poller`](crate::agent::Poller).
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        match this.get(|| Deadline::NEVER) {
            Ok(value) => value,
            Err(TimedOut) => unreachable!("never"),
        }
    }

    /// Returns the value as [`force`](Self::force) does, but waits for another initializer for at
    /// most `timeout`. The time that the closure takes in the caller does not count.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    #[track_caller]
    pub fn force_timeout(this: &Self, timeout: impl Into<Deadline>) -> Result<&T, TimedOut> {
        this.get(|| timeout.into())
    }

    #[inline]
    #[track_caller]
    fn get(&self, deadline: impl FnOnce() -> Deadline) -> Result<&T, TimedOut> {
        self.value.init(&FORCE, deadline, || match self.make.take() {
            Some(make) => cancel::shield(make),
            None => {
                panic!("daiko: a LazyLock is poisoned: the closure that makes its value panicked")
            }
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => debug.field(value),
            None => debug.field(&format_args!("<uninit>")),
        };
        debug.finish()
    }
}
