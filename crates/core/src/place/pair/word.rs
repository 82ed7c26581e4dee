//! The placement word of a fiber.

use super::{Class, PASSES};
use crate::atomic::{AtomicU8, Ordering, const_fn};

/// The class of a fiber, and the number of times that it was passed over in its queue.
///
/// ```text
/// 7      5 4      2 1     0
/// | unused | passed | class |
/// ```
///
/// A thread at a time writes: the worker that runs the fiber, or that has it in its queue alone. So
/// a change is a load and a store. Any thread may read, and may get the value of a moment ago: a
/// hint, which orders nothing. All accesses are relaxed.
#[derive(Debug)]
pub struct ClassWord(AtomicU8);

const CLASS: u8 = 3;
const PASSED: u8 = 7 << PASSED_AT;
const PASSED_AT: u32 = 2;

const _: () = assert!(PASSES <= PASSED >> PASSED_AT);

impl ClassWord {
    const_fn! {
        /// Creates the word of a fiber of unknown class, which was not passed over.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            ClassWord(AtomicU8::new(0))
        }
    }

    /// Resets the word for a new fiber.
    #[inline]
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the class.
    #[inline]
    pub fn get(&self) -> Class {
        Class::from_bits(self.word() & CLASS)
    }

    /// Sets the class. Only the worker that runs the fiber.
    #[inline]
    pub fn set(&self, class: Class) {
        self.0.store(self.word() & !CLASS | class as u8, Ordering::Relaxed);
    }

    /// Returns how often the fiber was passed over, at most [`PASSES`] times.
    #[inline]
    pub fn passed(&self) -> u8 {
        (self.word() & PASSED) >> PASSED_AT
    }

    /// Sets how often the fiber was passed over. Only the worker that has the fiber in its queue
    /// alone, or has taken it out.
    #[inline]
    pub fn set_passed(&self, times: u8) {
        debug_assert!(times <= PASSED >> PASSED_AT);
        self.0.store(self.word() & !PASSED | times << PASSED_AT, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_word_change_alone() {
        let word = ClassWord::new();
        assert_eq!((word.get(), word.passed()), (Class::Unknown, 0));
        for class in [Class::Stall, Class::Compute, Class::Unknown] {
            for times in 0..=PASSES {
                word.set(class);
                word.set_passed(times);
                word.set(class);
                assert_eq!((word.get(), word.passed()), (class, times));
            }
        }
        word.reset();
        assert_eq!((word.get(), word.passed()), (Class::Unknown, 0));
    }
}
