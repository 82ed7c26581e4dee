//! `futex`: both sides sleep on a word at once. What a hand-made wait costs without spinning.

use super::sleepers::Patience;

pub(super) struct Futex;

impl Patience for Futex {
    const NAME: &'static str = "futex";
    const LOOKS: u32 = 0;
}
