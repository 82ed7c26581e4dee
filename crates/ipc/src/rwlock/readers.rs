//! Readers of one process, which are one reader to other processes.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Bytes;
use bytemuck::Pod;
use daiko_core::robust::{self, FoundData, Lock, Reads, Unlock};

use super::super::gate::{Gate, SharedGate};
use super::super::mutex::zeroed;
use super::super::wait::At;
use super::super::word::MutexAt;
use daiko_rt::Deadline;

/// Private state of this process for a lock.
pub(super) struct Local<T> {
    /// Excludes the process's writers from its readers, and from each other; they queue here.
    gate: SharedGate,
    /// Held by the reader that waits in the segment; other readers wait behind it.
    entry: Gate<()>,
    /// Number of readers. The first reader sets the process's entry in the segment; the last one
    /// clears it under this lock. Never held over a suspension.
    readers: Mutex<usize>,
    /// Written by the holder of the gate for writing; or by the holder of the gate for reading and
    /// `entry`, while there is no reader. Read by the former, and by the counted readers.
    copy: Box<UnsafeCell<T>>,
}

// SAFETY: the copy is reached as documented; a writer may be on another thread than the maker.
unsafe impl<T: Send + Sync> Sync for Local<T> {}

/// Place of a reader.
pub(super) struct Reading<'l> {
    pub(super) lock: &'l robust::RobustRwLock,
    pub(super) reads: &'l [Reads],
    pub(super) value: Bytes<'l>,
    pub(super) at: At<'l>,
}

impl<T: Pod> Local<T> {
    pub(super) fn new() -> Self {
        let copy = Box::into_raw(zeroed::<T>()).cast::<UnsafeCell<T>>();
        Local {
            gate: SharedGate::new(),
            entry: Gate::new(()),
            readers: Mutex::new(0),
            // SAFETY: the pointer comes from a box, and a cell has the layout of its content.
            copy: unsafe { Box::from_raw(copy) },
        }
    }

    pub(super) fn gate(&self) -> &SharedGate {
        &self.gate
    }

    #[inline]
    pub(super) fn copy(&self) -> *mut T {
        self.copy.get()
    }

    fn readers(&self) -> MutexGuard<'_, usize> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the caller among the readers, if there are some, and no writer waits for their end.
    fn join(&self, reading: &Reading<'_>) -> Option<FoundData> {
        let mut readers = self.readers();
        let found = reading.found().ok().filter(|_| *readers > 0)?;
        *readers += 1;
        Some(found)
    }

    /// Begins to read, for a holder of the gate for reading; `None`: the deadline has passed.
    #[inline]
    pub(super) fn enter(&self, reading: &Reading<'_>, deadline: Deadline) -> Option<FoundData> {
        self.join(reading).or_else(|| self.enter_slow(reading, deadline))
    }

    fn enter_slow(&self, reading: &Reading<'_>, deadline: Deadline) -> Option<FoundData> {
        let _entry = self.entry.pass_until(deadline)?;
        let mut in_time = true;
        loop {
            match self.attempt(reading) {
                Lock::Locked(found) => return Some(found),
                _ if !in_time => return None,
                tried => in_time = reading.word().wait_after(tried, deadline),
            }
        }
    }

    /// Enters as [`enter`](Self::enter) does, without a wait.
    pub(super) fn try_enter(&self, reading: &Reading<'_>) -> Option<FoundData> {
        if let Some(found) = self.join(reading) {
            return Some(found);
        }
        let _entry = self.entry.try_pass()?;
        match self.attempt(reading) {
            Lock::Locked(found) => Some(found),
            Lock::Held { by, .. } => {
                reading.at.segment.watch(by);
                None
            }
            Lock::Contended => None,
        }
    }

    /// Tries once, for the holder of `entry`, so that no other reader begins here as the first.
    fn attempt(&self, reading: &Reading<'_>) -> Lock {
        if let Err((by, seen)) = reading.found() {
            return Lock::Held { by, seen };
        }
        if let Some(found) = self.join(reading) {
            return Lock::Locked(found);
        }
        if *self.readers() > 0 {
            // A writer came in between: its word is the object to wait for, without a touch of the
            // entry.
            return Lock::Contended;
        }
        let tried = reading.try_read();
        if let Lock::Locked(_) = tried {
            // SAFETY: there is no reader here, none that begins, and no holder of the gate for
            // writing.
            reading.value.read(bytemuck::bytes_of_mut(unsafe { &mut *self.copy() }));
            *self.readers() = 1;
        }
        tried
    }

    /// Ends the reading of a counted reader.
    #[inline]
    pub(super) fn leave(&self, reading: &Reading<'_>) {
        let mut readers = self.readers();
        *readers -= 1;
        if *readers == 0 {
            reading.end();
        }
    }
}

impl Reading<'_> {
    fn word(&self) -> MutexAt<'_> {
        MutexAt { word: self.lock.writer(), at: self.at }
    }

    /// Returns the state of the lock for a further reader; or the live writer that keeps it out.
    #[inline]
    fn found(&self) -> Result<FoundData, (robust::Holder, robust::SeenWord)> {
        match self.lock.writer().found() {
            // The process that takes it from the dead one is told of it; readers meanwhile run
            // beside no writer.
            Err((by, _)) if self.at.segment.is_gone(by) => Ok(FoundData::Clean),
            found => found,
        }
    }

    /// Sets this process's entry, unless there is a writer.
    fn try_read(&self) -> Lock {
        let segment = self.at.segment;
        let tried = self.lock.try_read(segment.me(), self.reads, |holder| segment.is_gone(holder));
        if !matches!(tried, Lock::Locked(FoundData::Clean | FoundData::Poisoned)) {
            // A process may have taken this try for a reader: its end is a plain store.
            segment.ring_behind_store(self.at.listeners, None);
        }
        tried
    }

    /// Clears this process's entry.
    fn end(&self) {
        match self.lock.unlock_read(self.at.segment.me(), self.reads) {
            Unlock::Quiet => {}
            Unlock::Ring | Unlock::NotMine => {
                self.at.segment.ring_behind_store(self.at.listeners, None);
            }
        }
    }
}
