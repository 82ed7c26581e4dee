//! A lock for many readers or one writer, which can be taken over from a dead holder.

use super::{FoundData, Holder, Lock, MOST_TRIES, RobustMutex, Unlock};
use crate::atomic::{AtomicU32, Ordering, const_fn, fence, unless_weakened};

/// A lock for readers or one writer, of 8 bytes and one [`Reads`] for each possible attachment.
///
/// An attachment counts its readers itself: its first one locks, its last one unlocks. To write,
/// [lock](RobustMutex::try_lock) the [writer](Self::writer), and wait until there is no
/// [reader](Self::reader).
///
/// Budget: to read, no RMW: a store to the attachment's entry, a fence, a load of the writer; the
/// same to unlock. To write, that of the mutex, a fence, and a load of each entry.
///
/// ```
/// use daiko_core::robust::{FoundData, Holder, Lock, Reads, RobustRwLock, Unlock};
///
/// let [reader, writer] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (lock, reads) = (RobustRwLock::new(), [const { Reads::new() }; 2]);
/// assert_eq!(lock.try_read(reader, &reads, |_| false), Lock::Locked(FoundData::Clean));
///
/// assert_eq!(lock.writer().try_lock(writer, |_| false), Lock::Locked(FoundData::Clean));
/// assert_eq!(lock.reader(&reads, 0, |_| false), Some(reader));
/// assert_eq!(lock.unlock_read(reader, &reads), Unlock::Ring);
/// assert_eq!(lock.reader(&reads, 0, |_| false), None);
///
/// assert!(matches!(
///     lock.try_read(reader, &reads, |_| false),
///     Lock::Held { by, .. } if by == writer
/// ));
/// assert_eq!(lock.writer().unlock(writer), Unlock::Quiet);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustRwLock {
    /// Held by the writer, also while it waits for the readers to leave.
    writer: RobustMutex,
}

/// The generation of the attachment with this place, while it reads; 0 while it does not. Written
/// by that attachment alone. The entry of a dead attachment has no meaning.
#[repr(transparent)]
#[derive(Debug)]
pub struct Reads(AtomicU32);

impl Reads {
    const_fn! {
        /// Creates the entry of an attachment that does not read.
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Returns true if `by` reads.
    #[inline]
    pub fn is(&self, by: Holder) -> bool {
        self.0.load(Ordering::Relaxed) == by.generation().get()
    }

    fn enter(&self, me: Holder) {
        self.0.store(me.generation().get(), Ordering::Relaxed);
        if !cfg!(weaken = "robust-rwlock-enter") {
            // Pairs with the fence in `RobustRwLock::reader`: the writer sees the entry, or this
            // attachment sees the writer's word.
            fence(Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        // Release: pairs with the Acquire in `by`.
        self.0.store(0, unless_weakened!("robust-rwlock-leave", Ordering::Release));
    }

    /// Returns the attachment that reads here, at the place `index`.
    fn by(&self, index: u16) -> Option<Holder> {
        // Acquire: pairs with the Release in `leave`, so that the writer writes after the reads.
        let generation = self.0.load(Ordering::Acquire).try_into().ok()?;
        Some(Holder::new(index, generation))
    }
}

impl RobustRwLock {
    const_fn! {
        /// Creates a free and clean lock.
        pub const fn new() -> Self {
            Self { writer: RobustMutex::new() }
        }
    }

    /// Returns the lock of the writer: a writer locks it, a reader waits for it.
    pub fn writer(&self) -> &RobustMutex {
        &self.writer
    }

    /// Begins to read, for all readers of the attachment `me`, unless there is a writer, or one
    /// that waits for the readers to leave. Called by its first reader.
    ///
    /// The caller rings unless the result is locked and [`Clean`](FoundData::Clean) or
    /// [`Poisoned`](FoundData::Poisoned): a writer may have taken this try for a reader, or an
    /// attachment may wait for a dead writer.
    ///
    /// # Panics
    ///
    /// If there is no entry for `me`.
    #[inline]
    pub fn try_read(&self, me: Holder, reads: &[Reads], is_dead: impl Fn(Holder) -> bool) -> Lock {
        let entry = &reads[usize::from(me.index())];
        entry.enter(me);
        match self.writer.found() {
            Ok(found) => Lock::Locked(found),
            Err(_) => self.try_read_slow(entry, is_dead),
        }
    }

    #[cold]
    fn try_read_slow(&self, entry: &Reads, is_dead: impl Fn(Holder) -> bool) -> Lock {
        for _ in 0..MOST_TRIES {
            match self.writer.found() {
                Ok(found) => return Lock::Locked(found),
                Err((by, seen)) if !is_dead(by) => {
                    entry.leave();
                    return Lock::Held { by, seen };
                }
                // An attachment that takes the word from then on sees the entry.
                Err((_, seen)) if self.writer.bury(seen) => {
                    return Lock::Locked(FoundData::OwnerDied);
                }
                Err(_) => {}
            }
        }
        entry.leave();
        Lock::Contended
    }

    /// Ends to read, for the last reader of the attachment.
    ///
    /// # Panics
    ///
    /// If there is no entry for `me`.
    #[inline]
    pub fn unlock_read(&self, me: Holder, reads: &[Reads]) -> Unlock {
        let entry = &reads[usize::from(me.index())];
        let mine = entry.is(me);
        entry.leave();
        if !cfg!(weaken = "robust-rwlock-ring") {
            // Pairs with the fence in `reader`: the writer sees that the entry is empty, or this
            // attachment sees the writer's word.
            fence(Ordering::SeqCst);
        }
        match self.writer.holder() {
            _ if !mine => Unlock::NotMine,
            Some(_) => Unlock::Ring,
            None => Unlock::Quiet,
        }
    }

    /// Returns the first attachment, at `from` or behind, that reads and is not known to be dead.
    /// For the holder of the writer's lock, which waits until that entry no longer [is](Reads::is)
    /// the attachment's, and asks again from there on. After `None` it writes.
    ///
    /// New readers are kept out meanwhile, at every place.
    pub fn reader(
        &self,
        reads: &[Reads],
        from: usize,
        is_dead: impl Fn(Holder) -> bool,
    ) -> Option<Holder> {
        if !cfg!(weaken = "robust-rwlock-drain") {
            // Pairs with the fences in `Reads::enter` and `unlock_read`.
            fence(Ordering::SeqCst);
        }
        let entries = reads.iter().zip(0..=u16::MAX).skip(from);
        entries.filter_map(|(entry, index)| entry.by(index)).find(|&by| !is_dead(by))
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustRwLock>() == 8 && size_of::<Reads>() == 4);

impl Default for RobustRwLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl Reads {
    /// Stores any entry, as a peer may.
    pub(super) fn spoil(&self, generation: u32) {
        self.0.store(generation, Ordering::Relaxed);
    }
}
