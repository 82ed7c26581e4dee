//! A value that is made when it is first asked for.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Call;
use super::{OnceLock, TimedOut};
use crate::cancel;
use daiko_rt::wait::Deadline;

/// A value that is made by the first who asks for it, as [`std::sync::LazyLock`].
///
/// A fiber that has to wait for another to make it suspends, any other thread blocks.
///
/// It is poisoned if the closure that makes the value panics: whoever asks panics from then on. A
/// cancel is kept back while the closure runs, as by [`cancel::shield`], because it could not be
/// run again; that of an [`OnceLock`] is unwound, as the next one who comes has his own. Who waits for
/// another can be cancelled in either.
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
    /// Touched by who makes the value, while he does.
    make: Cell<Option<F>>,
}

// SAFETY: the value is shared as that of a `OnceLock`; the closure goes to the one who runs it.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

const FORCE: Call = Call::new("LazyLock::force", true, true);

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `make` will make.
    pub const fn new(make: F) -> Self {
        LazyLock { value: OnceLock::new(), make: Cell::new(Some(make)) }
    }

    /// The value, which is made if it is not there; waits for somebody else who makes it.
    ///
    /// # Panics
    ///
    /// If the closure does, or did before; if the caller is that closure; if it would have to wait
    /// inside [`no_suspend`](crate::no_suspend), or in a [`Poller`](crate::agent::Poller).
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        match this.get(|| Deadline::NEVER) {
            Ok(value) => value,
            Err(TimedOut) => unreachable!("never"),
        }
    }

    /// As [`force`](Self::force), but waits for somebody else for at most `timeout`. How long the
    /// closure takes in the caller does not matter.
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
