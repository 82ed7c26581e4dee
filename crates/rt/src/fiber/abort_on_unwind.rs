//! A guard against unwinding.

/// Aborts the process when it is dropped, as its frame unwinds: other code relies on the frame.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
