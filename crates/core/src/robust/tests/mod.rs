//! Results of single steps, one after the other; and words of peers, which may be any.

use proptest::prelude::*;

use super::*;

mod barrier;
mod condvar;
mod event;
mod lane;
mod mutex;
mod rwlock;
mod scribble;
mod semaphore;

fn holder(index: u16, generation: u32) -> Holder {
    Holder::new(index, generation.try_into().unwrap())
}

const NONE_DEAD: fn(Holder) -> bool = |_| false;

/// Returns an `is_dead` that is true for some of the holders that a word may name.
fn dead(salt: u32) -> impl Fn(Holder) -> bool + Copy {
    move |holder| (holder.generation().get() ^ salt).count_ones().is_multiple_of(2)
}
