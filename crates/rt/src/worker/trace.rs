//! The events of a worker, for a reader in another process: `daiko_core::trace`.

use std::alloc::Layout;
use std::panic::Location;
use std::ptr;

use daiko_core::fiber::Transition;
use daiko_core::trace::{Departure, Event, RawEvent, Ring};
use daiko_sys::clock;

use super::state::{Departed, Worker};
use crate::deadlock::WaitKind;
use crate::fiber::{ControlBlock, MAX_NAME};
use crate::runtime::pool::Pool;

const RING: Layout = Layout::new::<Ring>();

impl Worker {
    /// Begins or ends to record, as the reader asks. Called at each poll of the sources.
    #[inline]
    pub(super) fn follow_reader(&self) {
        if self.recorder.needs_ring() {
            self.make_ring();
        }
        let has_credit = self.recorder.has_credit();
        if has_credit != self.attention.is_traced() {
            self.attention.set_traced(has_credit);
        }
    }

    #[cold]
    fn make_ring(&self) {
        match self.runtime().pool.arena().alloc(RING) {
            Ok(memory) => {
                let ring = memory.cast::<Ring>();
                // SAFETY: just allocated with its layout; all zeros are a ring.
                unsafe { ring.write_bytes(0, 1) };
                self.recorder.set_ring(ring.as_ptr());
            }
            Err(_) => self.recorder.refuse_ring(),
        }
    }

    /// Frees the ring. The worker records no more.
    pub(super) fn free_ring(&self, pool: &Pool) {
        if let Some(ring) = ptr::NonNull::new(self.recorder.ring()) {
            self.recorder.set_ring(ptr::null_mut());
            // SAFETY: allocated there with this layout, and used no more.
            unsafe { pool.arena().free(ring.cast(), RING) };
        }
    }

    /// Returns true if a reader may write into this worker: its memory must not get another use.
    pub(crate) fn has_reader(&self) -> bool {
        self.recorder.has_reader()
    }

    /// Records `event` if events are recorded.
    #[inline(always)]
    pub(super) fn trace(&self, event: impl FnOnce() -> Event) {
        if self.attention.is_traced() {
            self.record(event());
        }
    }

    /// Records that `fiber` becomes runnable by the fiber or agent here, if events are recorded.
    #[inline(always)]
    pub(crate) fn trace_wake(&self, fiber: &ControlBlock) {
        if self.attention.is_traced() {
            self.record_wake(fiber);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_wake(&self, fiber: &ControlBlock) {
        self.record_all(&[Event::Wake(ptr::from_ref(fiber).addr() as u64).raw(clock::ticks())]);
    }

    #[cold]
    #[inline(never)]
    fn record(&self, event: Event) {
        self.record_all(&[event.raw(clock::ticks())]);
    }

    #[cold]
    #[inline(never)]
    fn end_record(&self) {
        self.attention.set_traced(false);
    }

    /// Records the events, or ends to record for lack of credit.
    #[inline(always)]
    fn record_all(&self, events: &[RawEvent]) {
        // SAFETY: the ring lives as long as the worker runs.
        if !unsafe { self.recorder.record(events) } {
            self.end_record();
        }
    }

    /// Picks as [`pick`](Self::pick) does, and records the switch to the fiber.
    #[cold]
    #[inline(never)]
    pub(super) fn pick_traced(&self) -> Option<&ControlBlock> {
        let next = match self.attention.has_tick() || !self.budget.take_lifo_credit() {
            true => self.pick_in_turn(),
            false => self.pick_at_once(),
        };
        let before = self.running();
        let (from, to) = (before.map(ptr::from_ref), next.map(ptr::from_ref));
        if from != to {
            let left = before.map_or(Departure::Agent, |fiber| self.departure(fiber));
            let to = to.map_or(0, |fiber| fiber.addr() as u64);
            self.record_all(&[Event::Switch { to, left }.raw(clock::ticks())]);
        }
        next
    }

    /// Returns the reason for which `fiber` leaves the worker.
    fn departure(&self, fiber: &ControlBlock) -> Departure {
        if self.has_departed() {
            return self.departure_off_stack(fiber);
        }
        Self::waits(fiber, fiber.state.suspension())
    }

    #[cold]
    #[inline(never)]
    fn departure_off_stack(&self, fiber: &ControlBlock) -> Departure {
        match self.departed.get() {
            Departed::None | Departed::Yielding(_) => Departure::Yields,
            Departed::Suspending { event, .. } => Self::waits(fiber, Some(event)),
            Departed::Finished(_) | Departed::Lost { .. } | Departed::GoesHome { .. } => {
                Departure::Ended
            }
        }
    }

    #[inline(always)]
    fn waits(fiber: &ControlBlock, suspension: Option<Transition>) -> Departure {
        match suspension {
            Some(Transition::Park) => Departure::Waits(WaitKind::Park as u8),
            Some(_) => Departure::Waits((fiber.target.get() >> 56) as u8),
            None => Departure::Yields,
        }
    }

    /// Records that `fiber` starts, with its name.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_start(&self, fiber: &ControlBlock) {
        let place = ptr::from_ref::<Location<'_>>(fiber.spawned_at.get()).addr() as u64;
        let now = clock::ticks();
        let mut events = [RawEvent::default(); 2 + MAX_NAME / Event::NAME_PIECE + 1];
        events[0] = Event::Start(ptr::from_ref(fiber).addr() as u64).raw(now);
        events[1] = Event::SpawnedAt(place).raw(now);
        let name = fiber.name().unwrap_or_default();
        let pieces = name.as_bytes().chunks(Event::NAME_PIECE);
        let len = 2 + pieces.len();
        for (event, text) in events[2..].iter_mut().zip(pieces) {
            let mut piece = [0; Event::NAME_PIECE];
            piece[..text.len()].copy_from_slice(text);
            *event = Event::Name(piece).raw(now);
        }
        self.record_all(&events[..len]);
    }
}
