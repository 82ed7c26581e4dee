//! Objects of the C library, to look at their words.

use std::ffi::c_int;

/// An object of the C library, as words. It begins with zeros.
pub(super) struct Scratch<T, const WORDS: usize>(Box<T>);

impl<T, const WORDS: usize> Scratch<T, WORDS> {
    /// Sets an object up by `init`, a function that returns 0.
    pub(super) fn new(init: impl FnOnce(*mut T) -> c_int) -> Option<Self> {
        const { assert!(size_of::<T>() == WORDS * size_of::<u32>()) };
        // SAFETY: the objects of the C library are plain words.
        let mut scratch = Scratch(unsafe { Box::<T>::new_zeroed().assume_init() });
        (init(&raw mut *scratch.0) == 0).then_some(scratch)
    }

    pub(super) fn pointer(&mut self) -> *mut T {
        &raw mut *self.0
    }

    /// Returns the words.
    pub(super) fn words(&self) -> [u32; WORDS] {
        // SAFETY: as many words as the object has, all initialised.
        unsafe { (&raw const *self.0).cast::<[u32; WORDS]>().read() }
    }

    /// Returns `Some` if the words with these indices have these values, and all other words are 0.
    pub(super) fn has(&self, values: &[(usize, u32)]) -> Option<()> {
        let words = self.words();
        let expected =
            |index| values.iter().find(|(at, _)| *at == index).map_or(0, |(_, value)| *value);
        words.iter().enumerate().all(|(index, word)| *word == expected(index)).then_some(())
    }
}

/// Returns `Some` if the result of a function is 0.
pub(super) fn done(result: c_int) -> Option<()> {
    (result == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_found() {
        let words = |words: [u32; 4]| {
            Scratch::<[u32; 4], 4>::new(|object| {
                // SAFETY: the object is there.
                unsafe { object.write(words) };
                0
            })
            .unwrap()
        };
        assert_eq!(words([0, 0, 7, 0]).has(&[(2, 7)]), Some(()));
        for other in [[0, 0, 7, 1], [0, 7, 0, 0], [0, 0, 6, 0], [0; 4]] {
            assert_eq!(words(other).has(&[(2, 7)]), None);
        }
        assert!(Scratch::<[u32; 4], 4>::new(|_| libc::EINVAL).is_none());
    }
}
