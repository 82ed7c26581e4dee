//! The table of attached processes.
//!
//! Changed under the segment's lock only, which the kernel frees when its holder dies. Each change
//! ends in one store, so that a death before it has changed nothing. Any process reads it without
//! the lock.

use std::num::NonZeroU32;

use daiko_core::robust::Holder;
use daiko_sys::process::ProcessId;

use crate::atomic::{AtomicU64, Ordering};
use crate::layout::{Attached, MAX_ATTACHED};

/// The state of a place: free or attached, and the generation of its last process.
///
/// ```text
/// 63        32 31    1    0
/// | generation | unused | LIVE |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct AttachmentState(u64);

impl AttachmentState {
    const LIVE: u64 = 1;

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    fn live(generation: NonZeroU32) -> AttachmentState {
        AttachmentState(u64::from(generation.get()) << 32 | Self::LIVE)
    }

    fn ended(self) -> AttachmentState {
        AttachmentState(self.0 & !Self::LIVE)
    }
}

/// The places of all attached processes.
pub(crate) struct AttachmentTable<'s>(pub(crate) &'s [Attached; MAX_ATTACHED]);

impl AttachmentTable<'_> {
    #[inline]
    fn state(&self, index: usize) -> AttachmentState {
        // Acquire: pairs with the Release in `attach` and `end`.
        AttachmentState(self.0[index].state.load(Ordering::Acquire))
    }

    /// Returns true if `holder` is not attached any more. Its locks are free then.
    #[inline]
    pub(crate) fn is_gone(&self, holder: Holder) -> bool {
        let index = usize::from(holder.index());
        index >= MAX_ATTACHED || self.state(index) != AttachmentState::live(holder.generation())
    }

    /// The attached processes.
    pub(crate) fn live(&self) -> impl Iterator<Item = (Holder, ProcessId)> {
        (0..MAX_ATTACHED).filter_map(|index| {
            let state = self.state(index);
            let generation = NonZeroU32::new(state.generation()).filter(|_| state.is_live())?;
            Some((Holder::new(index as u16, generation), process_at(&self.0[index])))
        })
    }

    /// Returns true if the process of `holder`, which is attached, has marked the file.
    pub(crate) fn is_marked(&self, holder: Holder) -> bool {
        // Relaxed: written before the state, which has been acquired.
        let place = self.0.get(usize::from(holder.index()));
        place.is_some_and(|place| place.is_marked.load(Ordering::Relaxed) == 1)
    }

    /// Attaches a process; `None` if the table is full. `mark` marks the file with the number of
    /// the place, and returns true on success. Called under the lock.
    pub(crate) fn attach(
        &self,
        process: ProcessId,
        mark: impl FnOnce(u16) -> bool,
    ) -> Option<Holder> {
        let index = (0..MAX_ATTACHED).find(|&index| !self.state(index).is_live())?;
        let generation = self.state(index).generation().wrapping_add(1);
        // Generations wrap around after 2^32 attachments in one place.
        let generation = NonZeroU32::new(generation).unwrap_or(NonZeroU32::MIN);
        let place = &self.0[index];
        // Relaxed: published by the state.
        place.pid.store(process.pid.into(), Ordering::Relaxed);
        place.start_ticks.store(process.start_ticks, Ordering::Relaxed);
        place.pid_namespace.store(process.pid_namespace, Ordering::Relaxed);
        place.time_namespace.store(process.time_namespace, Ordering::Relaxed);
        place.boot.store(process.boot, Ordering::Relaxed);
        place.image.store(process.image, Ordering::Relaxed);
        place.is_marked.store(mark(index as u16).into(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `state`.
        place.state.store(AttachmentState::live(generation).0, Ordering::Release);
        Some(Holder::new(index as u16, generation))
    }

    /// Detaches `holder`, because it leaves or was found dead. Returns false if it was detached
    /// before.
    ///
    /// Needs no lock, as the generation identifies the holder.
    pub(crate) fn end(&self, holder: Holder) -> bool {
        let Some(place) = self.0.get(usize::from(holder.index())) else { return false };
        let live = AttachmentState::live(holder.generation());
        // Release: pairs with the Acquire in `state`: the holder's stores come before its end.
        // Acquire: of several processes that record the end, each sees all that the first saw.
        let (ended, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        place.state.compare_exchange(live.0, live.ended().0, ended, failed).is_ok()
    }
}

/// The process that was entered at a place.
fn process_at(place: &Attached) -> ProcessId {
    // Relaxed: written before the state, which has been acquired.
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    ProcessId {
        pid: load(&place.pid) as u32,
        start_ticks: load(&place.start_ticks),
        pid_namespace: load(&place.pid_namespace),
        time_namespace: load(&place.time_namespace),
        boot: load(&place.boot),
        image: load(&place.image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Box<[Attached; MAX_ATTACHED]> {
        // SAFETY: consists of atomics, which are valid when zeroed.
        unsafe { Box::new_zeroed().assume_init() }
    }

    fn process(pid: u32) -> ProcessId {
        let ticks = u64::from(pid) * 10;
        let (pid_namespace, time_namespace) = (3, 4);
        let (boot, image) = (5, 6);
        ProcessId { pid, start_ticks: ticks, pid_namespace, time_namespace, boot, image }
    }

    #[test]
    fn no_two_attachments_are_alike() {
        let places = places();
        let table = AttachmentTable(&places);
        let first = table.attach(process(1), |_| false).unwrap();
        let second = table.attach(process(2), |_| false).unwrap();
        assert!(!table.is_gone(first) && !table.is_gone(second));
        assert_eq!(table.live().last(), Some((second, process(2))));
        assert!(table.end(first) && !table.end(first));
        let third = table.attach(process(3), |_| false).unwrap();
        assert_eq!(third.index(), first.index());
        assert!(table.is_gone(first) && !table.end(first) && !table.is_gone(third));
        assert_eq!(table.live().map(|(_, holder)| holder.pid).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn a_full_table_takes_no_process() {
        let places = places();
        let table = AttachmentTable(&places);
        let all: Vec<_> =
            (1..=256).map(|pid| table.attach(process(pid), |_| false).unwrap()).collect();
        assert_eq!(table.attach(process(999), |_| false), None);
        assert!(table.end(all[17]));
        assert_eq!(table.attach(process(999), |_| false).unwrap().index(), 17);
    }

    #[test]
    fn any_word_of_a_peer_is_read_as_a_process_or_none() {
        let places = places();
        let table = AttachmentTable(&places);
        for word in [0, 1, 2, u64::MAX, 1 << 32, 1 << 32 | 1] {
            places.iter().for_each(|place| place.state.store(word, Ordering::Relaxed));
            let stranger = Holder::new(u16::MAX, NonZeroU32::MAX);
            assert!(table.is_gone(stranger) && !table.end(stranger));
            assert!(table.live().count() <= MAX_ATTACHED);
            let _ = table.attach(process(1), |_| false);
        }
    }
}
