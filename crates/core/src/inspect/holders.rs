//! The holders of locks, and the waits of threads that run no fiber, as far as they are noted.

use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{Memory, Struct, address, read_field};
use super::reader::Reader;
use super::row::{Place, Wait};
use super::table::Field;

/// A party that holds a lock, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// The fiber with this id.
    Fiber(u64),
    /// The thread with this id of the kernel, which runs no fiber.
    Thread(u32),
}

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The holder.
    pub by: Party,
    /// The place that has taken the lock.
    pub at: Option<Rc<Place>>,
}

impl<M: Memory> Reader<M> {
    /// Returns true if the process notes the holders of locks.
    pub fn tracks_locks(&self) -> bool {
        let held = &self.table().held;
        let notes = read_field(self.memory(), address(held.notes), Field { offset: 0, bytes: 1 });
        notes.is_some_and(|notes| notes & held.notes_locks != 0)
    }

    /// Returns the holders that the process has noted, by the addresses of the locks.
    pub fn holders(&self) -> HashMap<u64, LockHolder> {
        let held = &self.table().held;
        let (mut holders, mut places) = (HashMap::new(), HashMap::new());
        for index in 0..held.set_count {
            let at = address(held.sets).wrapping_add(index * held.set_bytes);
            let at = at.wrapping_add(u64::from(held.slots.offset));
            let Some(slots) = Struct::read(self.memory(), at, u64::from(held.slots.bytes)) else {
                continue;
            };
            for slot in slots.chunks(held.slot_bytes) {
                let (lock, by) = (slot.get(held.lock), slot.get(held.by));
                if lock == 0 {
                    continue;
                }
                let by = match by & held.by_thread {
                    0 => Party::Fiber(by),
                    _ => Party::Thread((by >> 1) as u32),
                };
                let place = slot.get(held.at);
                let place = places.entry(place).or_insert_with(|| self.place(place).map(Rc::new));
                holders.insert(lock, LockHolder { by, at: place.clone() });
            }
        }
        holders
    }

    /// Returns the waits of threads that run no fiber, each with the kernel's id of the thread.
    pub fn thread_waits(&self) -> Vec<(u32, Wait)> {
        let layout = &self.table().thread_waits;
        let bytes = layout.slot_count * layout.slot_bytes;
        let Some(slots) = Struct::read(self.memory(), address(layout.slots), bytes) else {
            return Vec::new();
        };
        let waits = slots.chunks(layout.slot_bytes).filter_map(|slot| {
            let (thread, target) = (slot.get(layout.thread), slot.get(layout.target));
            let wait = self.wait_of(target).filter(|_| thread != 0 && target != 0)?;
            Some((thread as u32, wait))
        });
        waits.collect()
    }
}
