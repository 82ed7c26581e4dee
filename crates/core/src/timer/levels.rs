//! The timers of a wheel, ordered by due time: levels of slots, each level coarser than the level
//! below it. Times are ticks. The wheel's lock guards all of it.

use std::ptr::NonNull;

use super::entry::Timer;
use crate::circle;

/// Number of bits of a tick that one level distinguishes.
const DIGIT: u32 = if cfg!(loom) { 1 } else { 6 };
/// Number of levels: enough for every tick that a time in ns can have.
const LEVELS: usize = if cfg!(loom) { 3 } else { 9 };
const SLOTS: usize = 1 << DIGIT;

/// Last tick that levels distinguish.
pub(super) const LAST_TICK: u64 = (1 << (DIGIT * LEVELS as u32)) - 1;

/// The timers that agree in all digits of their ticks, from that of their level upwards.
struct TimerSlot<W> {
    /// The timer that came first, if the slot is occupied.
    first: Option<NonNull<Timer<W>>>,
    /// The least tick in the slot when it had all its timers; some may have been removed since. It
    /// has no meaning while the slot is empty.
    earliest: u64,
}

impl<W> TimerSlot<W> {
    const EMPTY: Self = Self { first: None, earliest: 0 };
}

#[derive(Clone, Copy)]
struct SlotIndex {
    level: usize,
    slot: usize,
}

impl SlotIndex {
    fn shift(self) -> u32 {
        DIGIT * self.level as u32
    }
}

/// Timers, each in the slot given by [`Levels::place`]: its level is that of the highest digit in
/// which the timer's tick differs from `at`, its slot that digit of the tick.
pub(super) struct Levels<W> {
    /// A lower bound of the ticks of all timers.
    at: u64,
    /// A bit for each slot that has timers.
    occupied: [u64; LEVELS],
    slots: [[TimerSlot<W>; SLOTS]; LEVELS],
}

impl<W: Copy> Levels<W> {
    /// Levels without timers.
    pub(super) const EMPTY: Self = Self {
        at: 0,
        occupied: [0; LEVELS],
        slots: [const { [const { TimerSlot::EMPTY }; SLOTS] }; LEVELS],
    };

    /// Returns a tick before which no timer is due; unless a timer was removed, one is due at it.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.first().map(|place| self.slot(place).earliest)
    }

    /// Adds `timer`, due at `tick`, or as soon as possible if that has passed.
    ///
    /// # Safety
    ///
    /// `timer` is in no wheel. It stays alive and in place until it is removed or popped. `tick` is
    /// at most [`LAST_TICK`]. The lock is held.
    pub(super) unsafe fn insert(&mut self, timer: NonNull<Timer<W>>, tick: u64) {
        // SAFETY: alive, in no wheel, and the lock is held: this function's contract.
        unsafe {
            timer.as_ref().set_armed(tick.max(self.at));
            self.link(timer);
        }
    }

    /// Takes `timer` out.
    ///
    /// # Safety
    ///
    /// `timer` is in these levels, and the lock is held.
    pub(super) unsafe fn remove(&mut self, timer: NonNull<Timer<W>>) {
        // SAFETY: alive because it is here, as all timers here are; the lock is held.
        let (tick, next) = unsafe { (timer.as_ref().tick(), circle::remove(timer)) };
        let place = self.place(tick);
        let slot = self.slot_mut(place);
        if slot.first == Some(timer) {
            slot.first = next;
        }
        if next.is_none() {
            self.occupied[place.level] &= !(1 << place.slot);
        }
    }

    /// Takes out the first of the timers that are due at `now` or before.
    ///
    /// # Safety
    ///
    /// The lock is held.
    pub(super) unsafe fn pop_due(&mut self, now: u64) -> Option<NonNull<Timer<W>>> {
        while let Some(place) = self.first().filter(|&place| self.start(place) <= now) {
            let TimerSlot { first, earliest } = *self.slot(place);
            // Moves into the slot as far as its timers and the time allow: the further, the fewer
            // moves of timers.
            self.at = earliest.min(now);
            if place.level == 0 {
                // SAFETY: it is here, and the lock is held.
                return first.inspect(|&timer| unsafe { self.remove(timer) });
            }
            // SAFETY: the lock is held.
            unsafe { self.cascade(place) };
        }
        self.at = self.at.max(now);
        None
    }

    /// Moves the timers of the first slot to lower levels, now that `at` lies in the slot.
    ///
    /// # Safety
    ///
    /// The lock is held.
    unsafe fn cascade(&mut self, place: SlotIndex) {
        self.occupied[place.level] &= !(1 << place.slot);
        let mut rest = self.slot_mut(place).first.take();
        while let Some(timer) = rest {
            // SAFETY: they were all here, so they are alive; the lock is held.
            unsafe {
                rest = circle::remove(timer);
                self.link(timer);
            }
        }
    }

    /// Puts `timer` into the slot of its tick.
    ///
    /// # Safety
    ///
    /// `timer` is alive and in no slot, its tick is not before `at`; the lock is held.
    unsafe fn link(&mut self, timer: NonNull<Timer<W>>) {
        // SAFETY: alive, and the lock is held: this function's contract.
        let tick = unsafe { timer.as_ref().tick() };
        let place = self.place(tick);
        let slot = self.slot_mut(place);
        let earliest = if slot.first.is_some() { slot.earliest.min(tick) } else { tick };
        // SAFETY: alive and in no list; all timers of the slot are alive; the lock is held.
        unsafe { circle::insert(slot.first, timer) };
        *slot = TimerSlot { first: slot.first.or(Some(timer)), earliest };
        self.occupied[place.level] |= 1 << place.slot;
    }

    /// Returns the place of a timer of this tick.
    fn place(&self, tick: u64) -> SlotIndex {
        let highest_bit = ((tick ^ self.at) | 1).ilog2();
        let level = highest_bit / DIGIT;
        let slot = (tick >> (level * DIGIT)) as usize % SLOTS;
        SlotIndex { level: level as usize, slot }
    }

    /// Returns the slot of the timers that are due first: they differ from `at` in the lowest
    /// digit.
    fn first(&self) -> Option<SlotIndex> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        Some(SlotIndex { level, slot: self.occupied[level].trailing_zeros() as usize })
    }

    /// Returns the least tick that lies in the slot at `place`.
    fn start(&self, place: SlotIndex) -> u64 {
        let above = place.shift() + DIGIT;
        self.at >> above << above | (place.slot as u64) << place.shift()
    }

    fn slot(&self, place: SlotIndex) -> &TimerSlot<W> {
        &self.slots[place.level][place.slot]
    }

    fn slot_mut(&mut self, place: SlotIndex) -> &mut TimerSlot<W> {
        &mut self.slots[place.level][place.slot]
    }
}
