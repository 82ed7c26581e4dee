//! Cost of the questions that a thread asks about itself: its identity and its own storage.

use std::cell::Cell;
use std::hint::black_box;

use super::calls::counted;
use super::laps::SELDOM;
use crate::kit::{Effort, Failure, Sample};

/// Questions in a round. With this many, the cost of counting rounds is negligible.
pub(super) const ASKED: u64 = 100;

/// Value that a thread writes to its own storage and reads back.
pub(super) const MARK: usize = 0x5eed;

thread_local! {
    /// Has neither lazy initialisation nor a destructor, like C's `__thread`.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Measures reads of a kernel thread's thread-local.
pub(super) fn thread_local(effort: Effort) -> Result<Sample, Failure> {
    // The address escapes through `black_box`, so the compiler must assume writes and reads the
    // value anew for each question.
    OWN.with(|own| black_box(own).set(MARK));
    ask(effort, || own() == MARK)
}

/// Not inlined, like a call of a library. If it were inlined, the address would be computed once
/// and the thread register read only then.
#[inline(never)]
fn own() -> usize {
    OWN.get()
}

/// Measures calls of `right`, which returns whether the answer is that of this thread.
pub(super) fn ask(effort: Effort, right: impl Fn() -> bool) -> Result<Sample, Failure> {
    counted(effort, SELDOM, ASKED, "questions about the thread itself", || {
        Ok((0..ASKED).map(|_| u64::from(black_box(right()))).sum())
    })
}

#[cfg(test)]
mod tests {
    use super::super::laps;
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_answer_about_another_thread_is_wrong() {
        let effort = Effort { rounds: 3, limit: Duration::from_secs(60) };
        let asked = Cell::new(0);
        let right = |wrong| {
            asked.set(asked.get() + 1);
            asked.get() != wrong
        };
        assert_eq!(laps::count(&ask(effort, || right(0)).expect("all are right")), 3 * ASKED);
        assert!(matches!(ask(effort, || right(4 * ASKED + 7)), Err(Failure::Broken(_))));
    }
}
