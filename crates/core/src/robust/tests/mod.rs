//! What is said to whom, one step after the other; and what a peer may write, which is anything.

use proptest::prelude::*;

use super::*;

mod event;
mod lane;
mod mutex;
mod rwlock;
mod scribble;
mod semaphore;

fn holder(index: u16, generation: u32) -> Holder {
    Holder::new(index, generation.try_into().unwrap())
}

const NOBODY: fn(Holder) -> bool = |_| false;

/// Who is dead, in the eyes of who asks: some of those that a word may name.
fn dead(salt: u32) -> impl Fn(Holder) -> bool + Copy {
    move |holder| (holder.generation().get() ^ salt).count_ones().is_multiple_of(2)
}
