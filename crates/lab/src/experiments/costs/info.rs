//! How soon a thread knows who it is, and what is its own.

use std::cell::Cell;
use std::hint::black_box;

use super::calls::counted;
use super::laps::SELDOM;
use crate::kit::{Effort, Failure, Sample};

/// Questions in a round: beside as many, counting rounds is nothing.
pub(super) const ASKED: u64 = 100;

/// What a thread writes to storage of its own, and reads there.
pub(super) const MARK: usize = 0x5eed;

thread_local! {
    /// Without lazy initialisation or destructor, as C's `__thread`.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Reads a thread-local of the kernel thread.
pub(super) fn thread_local(effort: Effort) -> Result<Sample, Failure> {
    // Who has seen the address may write there: each question reads anew.
    OWN.with(|own| black_box(own).set(MARK));
    ask(effort, || own() == MARK)
}

/// A call of its own, as those of a library are: inlined, the address would be
/// computed once, and the thread's register read only then.
#[inline(never)]
fn own() -> usize {
    OWN.get()
}

/// Asks `right`, which says whether the answer is this thread's.
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
