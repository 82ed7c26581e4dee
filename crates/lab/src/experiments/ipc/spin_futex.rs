//! `spin-futex`: both sides look some hundred times, then sleep on a word. What one makes by hand for
//! processes that wait for each other.

use super::sleepers::Patience;

pub(super) struct SpinFutex;

impl Patience for SpinFutex {
    const NAME: &'static str = "spin-futex";
    /// Some microseconds: longer than an answer takes from another CPU, shorter than a sleep.
    const LOOKS: u32 = 300;
}
