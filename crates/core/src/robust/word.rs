//! The common parts of the words of all objects.

/// Number of times an exchange is tried again because the word has changed meanwhile. Honest peers
/// do not get there; a hostile one could keep a caller busy for ever.
pub(super) const MOST_TRIES: usize = if cfg!(loom) { 4 } else { 64 };

/// The value of a word at a look, for a waiter that waits until it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenWord(pub(super) u64);

/// A value on lines of its own; two, as processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug)]
pub(super) struct LinePair<T>(pub(super) T);
