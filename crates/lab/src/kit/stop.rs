//! A request to end a run early.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

type Listener = Box<dyn FnOnce() + Send>;

/// A request to end a run early, which may arrive while a sample is taken.
#[derive(Default)]
pub struct RunStop {
    requested: AtomicBool,
    /// The action that ends the present sample.
    listener: Mutex<Option<Listener>>,
}

impl RunStop {
    /// Requests the end of the run. The present sample ends without a value.
    pub fn request(&self) {
        // Relaxed: the flag publishes no other data, and listeners are ordered by the lock.
        self.requested.store(true, Ordering::Relaxed);
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(act) = listener {
            act();
        }
    }

    /// Returns true if the end was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Calls `act` once the end is requested, at once if it was, unless the returned value is
    /// dropped before.
    pub(crate) fn listen(&self, act: impl FnOnce() + Send + 'static) -> Listening<'_> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_requested() {
            drop(listener);
            act();
        } else {
            *listener = Some(Box::new(act));
        }
        Listening(self)
    }
}

impl fmt::Debug for RunStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStop").field("requested", &self.is_requested()).finish_non_exhaustive()
    }
}

/// Ends the attention to a stop when it is dropped.
pub(crate) struct Listening<'a>(&'a RunStop);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_listener_hears_of_a_request_before_and_after_it_listens() {
        let (sender, heard) = mpsc::channel();
        let stop = RunStop::default();
        let tell = |word: &'static str| {
            let sender = sender.clone();
            move || sender.send(word).expect("the receiver is there")
        };
        drop(stop.listen(tell("dropped")));
        let first = stop.listen(tell("first"));
        stop.request();
        drop(first);
        drop(stop.listen(tell("late")));
        stop.request();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["first", "late"]);
    }
}
