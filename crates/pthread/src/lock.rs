//! Locks that handlers of the program may ask for, too.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::home;
use crate::mask::HeldSignals;

/// A lock whose holder blocks signals.
pub(crate) struct SignalLock<T>(Mutex<T>);

/// A held lock.
pub(crate) struct SignalLocked<'l, T> {
    value: MutexGuard<'l, T>,
    /// Dropped last.
    _signals: Option<HeldSignals>,
}

impl<T> SignalLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SignalLock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> SignalLocked<'_, T> {
        let signals = home::hold_signals();
        SignalLocked {
            value: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            _signals: signals,
        }
    }

    /// Locks it while the caller holds signals, for several locks.
    pub(crate) fn keep(&self, _: &HeldSignals) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for SignalLocked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for SignalLocked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
