//! Doorbells of this process's threads.

use daiko_core::doorbell::{Doorbell, SpinSeat};
use daiko_core::governor::Company;
use daiko_core::robust::Holder;

use crate::atomic::{AtomicU64, Ordering};
use crate::error::{SegmentError, Table};
use crate::layout::SEATS;
use crate::segment::Segment;

/// Bit of a returned doorbell, set beside its last owner. The word 0 is a doorbell that never had
/// an owner.
const FREE: u64 = 1;

/// A doorbell of a segment, owned while one thread of this process sleeps on it. Dropping it
/// returns the doorbell.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::Segment;
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let bell = segment.doorbell()?;
/// bell.doorbell().park();
/// assert!(!segment.ring_bell(bell.number(), None), "it is parked");
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Debug)]
pub struct Bell {
    /// Keeps the segment mapped without counting as its user.
    segment: Segment,
    number: usize,
}

impl Segment {
    /// Takes a doorbell for a thread of this process.
    ///
    /// # Errors
    ///
    /// If all are in use, or the segment was inherited or truncated.
    pub fn doorbell(&self) -> Result<Bell, SegmentError> {
        self.check_own()?;
        let number = self.take_any_bell().or_else(|| {
            // Some may belong to dead processes that no process has checked yet.
            self.watch_all();
            self.take_any_bell()
        });
        self.check_whole()?;
        let number = number.ok_or_else(|| self.full(Table::Doorbells))?;
        let bell = Bell { segment: self.unused(), number };
        bell.doorbell().unpark();
        bell.doorbell().set_cpu(None);
        Ok(bell)
    }

    fn take_any_bell(&self) -> Option<usize> {
        let number = self.tables().owners.iter().position(|owner| self.take_bell(owner))?;
        // Relaxed: see `bells`.
        self.tables().header.0.bells.fetch_max(number as u32 + 1, Ordering::Relaxed);
        Some(number)
    }

    /// Takes the doorbell of `owner` if it has no live owner.
    fn take_bell(&self, owner: &AtomicU64) -> bool {
        let word = owner.load(Ordering::Relaxed);
        if !self.is_free_bell(word) {
            return false;
        }
        // Relaxed: only its owner uses the doorbell, and the owner's messages to other threads
        // order the rest.
        let (taken, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        owner.compare_exchange(word, self.me().bits(), taken, failed).is_ok()
    }

    /// The doorbells on which a thread may sleep: all in use, and a few more. Loaded for each ring.
    /// A scan of all doorbells would be too long, and doorbells with numbers that are congruent
    /// modulo the number of listener bits lie in one set of the cache.
    #[inline]
    pub(crate) fn bells(&self) -> &[Doorbell] {
        let tables = self.tables();
        // Relaxed: a sleeper has counted its doorbell before the fence in `Doorbell::park`.
        let count = tables.header.0.bells.load(Ordering::Relaxed) as usize;
        &tables.doorbells[..count.min(tables.doorbells.len())]
    }

    fn is_free_bell(&self, word: u64) -> bool {
        word & FREE != 0 || Holder::of(word).is_none_or(|holder| self.is_gone(holder))
    }
}

impl Bell {
    /// The number by which objects refer to the doorbell.
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The word to sleep on.
    #[inline]
    pub fn doorbell(&self) -> &Doorbell {
        &self.segment.tables().doorbells[self.number]
    }

    /// The segment of the doorbell.
    #[inline]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The seat of `cpu`, taken by the thread that spins there.
    pub fn seat(&self, cpu: u32) -> &SpinSeat {
        &self.segment.tables().seats[cpu as usize % SEATS]
    }

    /// Looks for other awake threads, as seen from `cpu`, to decide if spinning is useful.
    pub fn company(&self, cpu: Option<u32>) -> Company {
        let mut company = Company::default();
        for (number, owner) in self.segment.tables().owners.iter().enumerate() {
            let word = owner.load(Ordering::Relaxed);
            if word == 0 || company.elsewhere && company.here {
                break;
            }
            let bell = &self.segment.tables().doorbells[number];
            if number == self.number || !bell.is_awake() || self.segment.is_free_bell(word) {
                continue;
            }
            match bell.cpu() {
                at if at.is_some() && at == cpu => company.here = true,
                _ => company.elsewhere = true,
            }
        }
        company
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.segment.check_own().is_err() {
            return;
        }
        // An exchange: the doorbell has another owner if this process was declared dead by mistake.
        let (mine, relaxed) = (self.segment.me().bits(), Ordering::Relaxed);
        let owner = &self.segment.tables().owners[self.number];
        let _ = owner.compare_exchange(mine, mine | FREE, relaxed, relaxed);
    }
}

#[cfg(test)]
mod tests {
    use daiko_core::doorbell::Listeners;

    use super::*;

    #[test]
    fn a_ring_reaches_every_doorbell_that_is_in_use() {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let listeners = Listeners::new();
        let bells: Vec<_> = (0..130).map(|_| segment.doorbell().unwrap()).collect();
        for bell in &bells {
            listeners.listen(bell.number());
            bell.doorbell().park();
        }
        let _ = segment.ring(&listeners, None);
        assert!(bells.iter().all(|bell| !bell.doorbell().is_parked()));
        assert_eq!(segment.bells().len(), bells.len(), "no more than that are looked at");
    }
}
