//! A lock for many readers or one writer, which is taken over from the dead.

use super::{Found, Holder, Lock, MOST_TRIES, Mutex, Unlock};
use crate::sync::{AtomicU32, Ordering, const_fn, fence, unless_weakened};

/// A lock for readers or one writer, of 8 bytes and one [`Reads`] for each attachment there may be.
///
/// The readers of one attachment are counted by itself: its first one locks, its last one unlocks. To write,
/// [lock](Mutex::try_lock) the [writer](Self::writer), and wait until [nobody reads](Self::reader).
///
/// Budget: to read, no RMW: a store to the attachment's entry, a fence, a load of the writer; the same to unlock. To write,
/// that of the mutex, a fence, and a load of each entry.
///
/// ```
/// use daiko_core::robust::{Found, Holder, Lock, Reads, RwLock, Unlock};
///
/// let [reader, writer] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (lock, reads) = (RwLock::new(), [const { Reads::new() }; 2]);
/// assert_eq!(lock.try_read(reader, &reads, |_| false), Lock::Locked(Found::Clean));
///
/// assert_eq!(lock.writer().try_lock(writer, |_| false), Lock::Locked(Found::Clean));
/// assert_eq!(lock.reader(&reads, 0, |_| false), Some(reader));
/// assert_eq!(lock.unlock_read(reader, &reads), Unlock::Ring);
/// assert_eq!(lock.reader(&reads, 0, |_| false), None);
///
/// assert!(matches!(lock.try_read(reader, &reads, |_| false), Lock::Held { by, .. } if by == writer));
/// assert_eq!(lock.writer().unlock(writer), Unlock::Quiet);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RwLock {
    /// Had by who writes, or waits until nobody reads.
    writer: Mutex,
}

/// The generation of the attachment with this place, while it reads; 0 while it does not. Written by that
/// attachment alone; of a dead one it means nothing.
#[repr(transparent)]
#[derive(Debug)]
pub struct Reads(AtomicU32);

impl Reads {
    const_fn! {
        /// Nobody reads.
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Whether `by` reads.
    #[inline]
    pub fn is(&self, by: Holder) -> bool {
        self.0.load(Ordering::Relaxed) == by.generation().get()
    }

    fn enter(&self, me: Holder) {
        self.0.store(me.generation().get(), Ordering::Relaxed);
        if !cfg!(weaken = "robust-rwlock-enter") {
            // Pairs with the fence in `RwLock::reader`: he sees the entry, or his word is seen here.
            fence(Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        // Release: pairs with the Acquire in `by`.
        self.0.store(0, unless_weakened!("robust-rwlock-leave", Ordering::Release));
    }

    /// Who reads here, at the place `index`.
    fn by(&self, index: u16) -> Option<Holder> {
        // Acquire: who writes does so after what was read: pairs with the Release in `leave`.
        let generation = self.0.load(Ordering::Acquire).try_into().ok()?;
        Some(Holder::new(index, generation))
    }
}

impl RwLock {
    const_fn! {
        /// Free, and clean.
        pub const fn new() -> Self {
            Self { writer: Mutex::new() }
        }
    }

    /// Who writes, or is about to: to be locked by who wants to, and waited for by who wants to read.
    pub fn writer(&self) -> &Mutex {
        &self.writer
    }

    /// Begins to read, unless somebody writes or is about to, for the first reader of the attachment `me`. It locks
    /// for all of them.
    ///
    /// The caller rings unless it is locked and [`Clean`](Found::Clean) or [`Poisoned`](Found::Poisoned): somebody may have taken this try
    /// for a reader, or may wait for a dead writer.
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
                // Whoever takes the word from then on sees the entry.
                Err((_, seen)) if self.writer.bury(seen) => return Lock::Locked(Found::OwnerDied),
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
            // Pairs with the fence in `reader`: he sees that the entry is empty, or his word is seen here.
            fence(Ordering::SeqCst);
        }
        match self.writer.holder() {
            _ if !mine => Unlock::NotMine,
            Some(_) => Unlock::Ring,
            None => Unlock::Quiet,
        }
    }

    /// Who reads, at `from` or behind, and is not known to be dead, for who has the writer's lock. He waits until that one's entry
    /// [is](Reads::is) not his any more, and asks again from there on. After `None` he writes.
    ///
    /// Who begins to read meanwhile is kept out, wherever he is.
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
const _: () = assert!(size_of::<RwLock>() == 8 && size_of::<Reads>() == 4);

impl Default for RwLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
impl Reads {
    /// As a peer may leave it.
    pub(super) fn spoil(&self, generation: u32) {
        self.0.store(generation, Ordering::Relaxed);
    }
}
