//! Targets of waits without a deadline, while deadlocks shall be reported.
//!
//! A context has a word for its target in its home. A native thread takes one from a table, which
//! takes no memory: the wait may be for a lock of the program's allocator.

use daiko_rt::deadlock::WaitKind;

use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A kind of object that threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum TargetKind {
    /// No object, or one of the engine: a wake may come from elsewhere.
    Nothing,
    Mutex,
    Condition,
    Semaphore,
    RwLock,
    Barrier,
    Once,
    /// The end of the thread with this `pthread_t`.
    Join,
    /// The address is that of a word with the address of the futex.
    Futex,
    /// A futex of the kernel.
    KernelFutex,
}

impl TargetKind {
    /// Returns the kind of the wait of the fiber that the thread is.
    pub(crate) fn of_fiber(self) -> WaitKind {
        match self {
            TargetKind::Nothing => WaitKind::Unknown,
            TargetKind::Mutex => WaitKind::Mutex,
            TargetKind::Condition => WaitKind::Condvar,
            TargetKind::Semaphore => WaitKind::Semaphore,
            TargetKind::RwLock => WaitKind::RwLock,
            TargetKind::Barrier => WaitKind::Barrier,
            TargetKind::Once => WaitKind::Once,
            TargetKind::Join => WaitKind::ThreadEnd,
            TargetKind::Futex | TargetKind::KernelFutex => WaitKind::Futex,
        }
    }

    const ALL: [TargetKind; 10] = [
        TargetKind::Nothing,
        TargetKind::Mutex,
        TargetKind::Condition,
        TargetKind::Semaphore,
        TargetKind::RwLock,
        TargetKind::Barrier,
        TargetKind::Once,
        TargetKind::Join,
        TargetKind::Futex,
        TargetKind::KernelFutex,
    ];
}

/// The target of a wait: a kind of object, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) address: usize,
}

impl Target {
    pub(crate) const NOTHING: Target = Target { kind: TargetKind::Nothing, address: 0 };

    pub(crate) fn new<T>(kind: TargetKind, object: *const T) -> Self {
        Target { kind, address: object.expose_provenance() }
    }

    /// Bits of an address of user space.
    const ADDRESS: u64 = (1 << 56) - 1;

    fn packed(self) -> u64 {
        (self.kind as u64) << 56 | self.address as u64 & Self::ADDRESS
    }

    fn unpacked(word: u64) -> Self {
        let kind = TargetKind::ALL[(word >> 56) as usize];
        Target { kind, address: (word & Self::ADDRESS) as usize }
    }
}

/// The target of one thread's wait. Written by that thread.
#[derive(Debug)]
pub(crate) struct TargetWord(AtomicU64);

impl TargetWord {
    pub(crate) const fn new() -> Self {
        TargetWord(AtomicU64::new(0))
    }

    /// Returns the target. It is certain while the thread is known to sleep.
    pub(crate) fn get(&self) -> Target {
        // Acquire: pairs with the Release in `exchange`.
        Target::unpacked(self.0.load(Ordering::Acquire))
    }

    /// Sets the target; returns the former.
    fn exchange(&self, target: Target) -> Target {
        // Release: pairs with the Acquire in `get`.
        Target::unpacked(self.0.swap(target.packed(), Ordering::Release))
    }
}

static ARE_NOTED: AtomicBool = AtomicBool::new(false);

/// Lets targets be noted from here on: before there are threads.
pub(crate) fn note_all() {
    ARE_NOTED.store(true, Ordering::Relaxed);
}

#[inline]
pub(crate) fn are_noted() -> bool {
    ARE_NOTED.load(Ordering::Relaxed)
}

/// Makes a wait for `target`, which is noted in `word` meanwhile.
pub(crate) fn noted<R>(word: Option<&TargetWord>, target: Target, wait: impl FnOnce() -> R) -> R {
    // Another wait if the caller is a handler that has interrupted it.
    let before = word.map(|word| word.exchange(target));
    let result = wait();
    if let (Some(word), Some(before)) = (word, before) {
        word.exchange(before);
    }
    result
}

/// The number of native threads that wait at a time and are noted.
const NATIVES: usize = 64;

/// The word of a native thread.
struct Native {
    /// The thread's id, or 0.
    thread: AtomicU32,
    target: TargetWord,
}

static TABLE: [Native; NATIVES] =
    [const { Native { thread: AtomicU32::new(0), target: TargetWord::new() } }; NATIVES];

fn native(thread: u32) -> Option<&'static Native> {
    TABLE.iter().find(|entry| entry.thread.load(Ordering::Relaxed) == thread)
}

/// Makes a wait of the calling thread, which is native, for `target`. It is noted if there is room.
pub(crate) fn noted_of_native<R>(thread: u32, target: Target, wait: impl FnOnce() -> R) -> R {
    let take = |entry: &&Native| {
        let (free, taken) = (Ordering::Relaxed, Ordering::Relaxed);
        entry.thread.compare_exchange(0, thread, taken, free).is_ok()
    };
    let entry = native(thread).or_else(|| TABLE.iter().find(take));
    let result = noted(entry.map(|entry| &entry.target), target, wait);
    entry.filter(|entry| entry.target.get() == Target::NOTHING).inspect(|entry| {
        entry.thread.store(0, Ordering::Relaxed);
    });
    result
}

/// Returns the target of a native thread that is known to sleep.
pub(crate) fn of_native(thread: u32) -> Option<Target> {
    native(thread).map(|entry| entry.target.get())
}

/// Forgets the native threads: the calling one is the only one of a child that was forked.
pub(crate) fn forget_natives() {
    for entry in &TABLE {
        entry.target.exchange(Target::NOTHING);
        entry.thread.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_kept_in_one_word() {
        for (number, kind) in TargetKind::ALL.into_iter().enumerate() {
            let target = Target { kind, address: 0x7fff_ffff_fff8 };
            assert_eq!((kind as usize, Target::unpacked(target.packed())), (number, target));
        }
        assert_eq!(TargetWord::new().get(), Target::NOTHING);
    }

    #[test]
    fn a_wait_in_a_handler_leaves_the_note_of_the_wait_that_it_interrupts() {
        let [outer, inner] = [1, 2].map(|address| Target { kind: TargetKind::Semaphore, address });
        noted_of_native(7, outer, || {
            assert_eq!(of_native(7), Some(outer));
            noted_of_native(7, inner, || assert_eq!(of_native(7), Some(inner)));
            assert_eq!(of_native(7), Some(outer));
            assert_eq!(of_native(8), None);
        });
        assert_eq!(of_native(7), None);
    }
}
