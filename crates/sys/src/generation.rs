//! Tells a process from the children that it forks, without a system call.
//!
//! A word lies in memory that the kernel clears in a forked child. So a child finds no number
//! there, takes a new one, and knows that it has inherited all that bears another number.

use std::io;
use std::num::NonZeroU32;

use crate::Scope;
use crate::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::memory::{Mapping, map_once, page_size, wipe_on_fork};

/// The word of this process: the number of its generation; 0: it has none yet. Null before the
/// first use.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// The number of the last generation among this process and its ancestors.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The generation of a process: all processes between which nothing was forked have one.
///
/// # Examples
///
/// ```
/// use daiko_sys::generation::Generation;
///
/// let here = Generation::current().unwrap();
/// assert!(here.is_current());
/// // SAFETY: the child only compares two numbers.
/// match unsafe { libc::fork() } {
///     0 => unsafe { libc::_exit(here.is_current().into()) },
///     child => {
///         let mut status = -1;
///         // SAFETY: the status is a live local.
///         unsafe { libc::waitpid(child, &mut status, 0) };
///         assert_eq!(status, 0);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(NonZeroU32);

impl Generation {
    /// Returns the generation of this process.
    ///
    /// # Errors
    ///
    /// The error of `mmap`, or of `madvise(MADV_WIPEONFORK)`, which Linux has since 4.14.
    pub fn current() -> io::Result<Self> {
        let word = word()?;
        // Relaxed, here and below: numbers, which nothing is published by.
        if let Some(found) = NonZeroU32::new(word.load(Ordering::Relaxed)) {
            return Ok(Generation(found));
        }
        let new = NonZeroU32::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed));
        let taken = word.compare_exchange(0, new.get(), Ordering::Relaxed, Ordering::Relaxed);
        let other = taken.err().and_then(NonZeroU32::new);
        Ok(Generation(other.unwrap_or(new)))
    }

    /// Returns the generation of a process that runs contexts.
    ///
    /// # Panics
    ///
    /// If it cannot be had: as [`current`](Self::current) says. Not if that has succeeded before.
    #[inline]
    pub fn of_context() -> Self {
        // Acquire: as in `is_current`.
        // SAFETY: if there is a word, it is never unmapped.
        let word = unsafe { WORD.load(Ordering::Acquire).as_ref() };
        match word.and_then(|word| NonZeroU32::new(word.load(Ordering::Relaxed))) {
            Some(number) => Generation(number),
            None => Self::current().expect("MADV_WIPEONFORK, which Linux has since 4.14"),
        }
    }

    /// Returns true if the calling process is of this generation.
    #[inline]
    pub fn is_current(self) -> bool {
        // Acquire: pairs with the Release in `map_once`.
        // SAFETY: there is a generation, so the word is mapped; it is never unmapped.
        unsafe { (*WORD.load(Ordering::Acquire)).load(Ordering::Relaxed) == self.0.get() }
    }

    /// Makes the calling process, a forked child, one of this generation: the processes are to act
    /// as one.
    pub fn join(self) {
        // Acquire: as in `is_current`.
        // SAFETY: as in `is_current`.
        unsafe { (*WORD.load(Ordering::Acquire)).store(self.0.get(), Ordering::Relaxed) };
    }
}

/// Returns the word, which is mapped at the first call.
fn word() -> io::Result<&'static AtomicU32> {
    let word = map_once(&WORD, || {
        let mapping = Mapping::new(page_size(), Scope::Private).map_err(io::Error::other)?;
        wipe_on_fork(&mapping)?;
        Ok::<_, io::Error>(mapping)
    })?;
    // SAFETY: mapped for good, zeroed and aligned to a page.
    Ok(unsafe { &*word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LinuxPart, in_fork};

    #[test]
    fn a_forked_child_is_of_another_generation_and_so_is_its_child() {
        if LinuxPart::Wiping.is_lacking() {
            return;
        }
        let here = Generation::current().unwrap();
        assert_eq!(Generation::current().unwrap(), here);
        in_fork(|| {
            assert!(!here.is_current());
            let child = Generation::current().unwrap();
            assert!(child != here && child.is_current() && !here.is_current());
            in_fork(|| {
                let grandchild = Generation::current().unwrap();
                assert!(grandchild != here && grandchild != child);
            });
            assert!(child.is_current());
        });
        assert!(here.is_current());
    }

    #[test]
    fn a_child_may_join_the_generation_of_its_parent() {
        let here = Generation::current().unwrap();
        in_fork(|| {
            here.join();
            assert!(here.is_current());
            assert_eq!(Generation::current().unwrap(), here);
        });
    }
}
