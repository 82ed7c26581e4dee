//! Signal masks of kernel threads.

use std::mem::MaybeUninit;
use std::ptr;

use crate::atomic::{AtomicU64, Ordering};

/// A set of signals, as the kernel has it: bit n is signal n + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(u64);

/// The bit of a signal.
const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The signal by which the C library cancels a thread.
pub(crate) const SIGCANCEL: i32 = 32;
/// The signal by which the C library changes the user of all threads: it waits for each of them.
const SIGSETXID: i32 = 33;
/// The signal of pokes: the last one that there is. The program is told that there is one less.
pub(crate) const POKE: i32 = 64;
/// Signals that a thread raises itself by a fault: they cannot wait.
const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Further signals that the program does not block, though it asks for it.
static KEPT_OPEN: AtomicU64 = AtomicU64::new(0);

/// Keeps a signal of the program open in all threads.
pub(crate) fn keep_open(signal: i32) {
    KEPT_OPEN.fetch_or(bit(signal), Ordering::Relaxed);
}

/// Lets the calling kernel thread get a signal.
pub(crate) fn open(signal: i32) {
    let before = Mask::of_thread();
    before.without(Mask(bit(signal))).set();
}

/// A mask that one thread changes, and others read.
pub(crate) struct MaskWord(AtomicU64);

impl MaskWord {
    pub(crate) fn new(mask: Mask) -> Self {
        MaskWord(AtomicU64::new(mask.0))
    }

    pub(crate) fn get(&self) -> Mask {
        // Relaxed: a reader gets one of the masks, and looks again.
        Mask(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, mask: Mask) {
        self.0.store(mask.0, Ordering::Relaxed);
    }
}

impl Mask {
    /// All signals that may wait.
    const ALL: Self = Mask(!FAULTS & !bit(SIGSETXID) & !bit(POKE));

    /// Signals that no program blocks.
    const NEVER: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(SIGCANCEL) | bit(SIGSETXID);

    /// Returns the mask of the calling kernel thread.
    pub(crate) fn of_thread() -> Self {
        Self::exchange(None)
    }

    /// Blocks all signals that may wait in the calling kernel thread, and returns the mask before.
    pub(crate) fn block_all() -> Self {
        Self::exchange(Some(Self::ALL))
    }

    /// Returns the signals that wait for the calling kernel thread, or for the process.
    pub(crate) fn pending() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: writes the live local. Zeros are a set.
        unsafe {
            libc::sigpending(set.as_mut_ptr());
            Self::read(set.as_ptr())
        }
    }

    /// Makes it the mask of the calling kernel thread.
    pub(crate) fn set(self) {
        Self::exchange(Some(self));
    }

    /// Sets the mask of the calling kernel thread, if there is a new one; returns the former.
    fn exchange(new: Option<Self>) -> Self {
        let mut before = 0u64;
        let new = new.as_ref().map_or(ptr::null(), |new| &raw const new.0);
        // Not by `pthread_sigmask`, which leaves the C library's own signals out.
        // SAFETY: reads and writes masks of that size. It does not fail.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                new,
                &raw mut before,
                size_of::<u64>(),
            )
        };
        Mask(before)
    }

    /// Returns the set at `set`.
    ///
    /// # Safety
    ///
    /// `set` is a set of signals.
    pub(crate) unsafe fn read(set: *const libc::sigset_t) -> Self {
        // SAFETY: by this function's contract; the first word has the signals that there are.
        Mask(
            unsafe { set.cast::<u64>().read() } & !Self::NEVER & !KEPT_OPEN.load(Ordering::Relaxed),
        )
    }

    /// Writes all signals of the set to `set`, as the kernel keeps it in the frame of a handler.
    ///
    /// # Safety
    ///
    /// `set` is writable.
    pub(crate) unsafe fn write_whole(self, set: *mut libc::sigset_t) {
        // SAFETY: by this function's contract.
        unsafe { set.cast::<u64>().write(self.0) };
    }

    /// Writes the set to `set`.
    ///
    /// # Safety
    ///
    /// `set` is writable.
    pub(crate) unsafe fn write(self, set: *mut libc::sigset_t) {
        // SAFETY: by this function's contract.
        unsafe {
            libc::sigemptyset(set);
            set.cast::<u64>().write(self.0 & !Self::NEVER);
        }
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Mask(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Mask(self.0 & !other.0)
    }

    /// Returns true if signals pass that `other` blocks.
    pub(crate) fn lets_in_more_than(self, other: Self) -> bool {
        other.0 & !Self::NEVER & !self.0 != 0
    }

    /// Returns the signals in the set.
    pub(crate) fn signals(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |&signal| self.0 & bit(signal) != 0)
    }
}

/// Signals that the calling kernel thread blocks until this is dropped: for a lock that a handler
/// of the program may ask for, too.
pub(crate) struct HeldSignals(Mask);

impl HeldSignals {
    pub(crate) fn hold() -> Self {
        HeldSignals(Mask::block_all())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Runs `body` while the calling thread blocks all signals, so that threads that it starts do.
pub(crate) fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    let _held = HeldSignals::hold();
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_those_of_the_kernel() {
        let before = Mask::block_all();
        assert_eq!(
            Mask::of_thread(),
            Mask(Mask::ALL.0 & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP))
        );
        before.set();
        assert_eq!(Mask::of_thread(), before);
        let one = Mask(bit(libc::SIGUSR1));
        assert!(Mask(0).lets_in_more_than(one) && !one.lets_in_more_than(Mask(0)));
        assert_eq!(one.signals().collect::<Vec<_>>(), [libc::SIGUSR1]);
        assert_eq!(Mask::ALL.without(Mask::ALL).with(one), one);
    }
}
