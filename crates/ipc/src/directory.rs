//! The objects of a segment, by name.
//!
//! Entries are added under the segment's lock and never change afterwards. The store of an entry's
//! kind commits it. All memory outside of committed entries is free, so a death before that store
//! costs nothing.

use crate::atomic::Ordering;
use crate::layout::{MAX_NAME, MAX_OBJECTS, Name, OBJECT_ALIGN, OBJECTS};

/// The description of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpec {
    /// The kind: one of the numbers in `object`; not 0.
    pub kind: u32,
    /// Size in bytes.
    pub bytes: usize,
    /// A hash of the properties on which creator and users must agree.
    pub agreed: u64,
    /// Values chosen by the creator.
    pub chosen: [u32; 4],
}

/// An object and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundObject {
    pub(crate) offset: usize,
    pub(crate) spec: ObjectSpec,
}

impl FoundObject {
    fn end(&self) -> usize {
        self.offset + self.spec.bytes
    }
}

/// Reason for the lack of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// All entries are in use.
    Entries,
    /// The size of the largest free part.
    Bytes(usize),
}

/// Returns true if the name is valid for an object.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains('\0')
}

/// The entries of a segment of `bytes` bytes.
pub(crate) struct Directory<'s> {
    pub(crate) names: &'s [Name; MAX_OBJECTS],
    pub(crate) bytes: usize,
}

impl Directory<'_> {
    /// Finds the object of this name.
    pub(crate) fn find(&self, name: &str) -> Option<FoundObject> {
        let mut entries = self.names.iter().filter(|entry| is_called(entry, name));
        entries.find_map(|entry| self.read(entry))
    }

    /// All objects with their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, FoundObject)> {
        let named = |entry| Some((name_of(entry), self.read(entry)?));
        self.names.iter().filter_map(named)
    }

    /// Size of the largest free part in bytes.
    pub(crate) fn free(&self) -> usize {
        self.gaps().into_iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// Finds room for an object. The memory may hold data of an uncommitted object. Called under
    /// the lock.
    pub(crate) fn room_for(&self, bytes: usize) -> Result<usize, NoRoom> {
        self.free_entry().ok_or(NoRoom::Entries)?;
        let fits = |&(start, end): &(usize, usize)| end - start >= bytes;
        let gap = self.gaps().into_iter().find(fits);
        gap.map(|(start, _)| start).ok_or_else(|| NoRoom::Bytes(self.free()))
    }

    /// Commits a complete object at `offset`, which `room_for` returned. Called under the lock.
    pub(crate) fn enter(&self, name: &str, offset: usize, spec: ObjectSpec) {
        let entry = self.free_entry().expect("there was room");
        // Relaxed: published by the store of the kind.
        for (at, word) in entry.name.iter().enumerate() {
            word.store(word_of(name, at), Ordering::Relaxed);
        }
        entry.offset.store(offset as u64, Ordering::Relaxed);
        entry.bytes.store(spec.bytes as u64, Ordering::Relaxed);
        entry.agreed.store(spec.agreed, Ordering::Relaxed);
        for (word, chosen) in entry.chosen.iter().zip(spec.chosen) {
            word.store(chosen, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `read`: a process that finds the object finds it
        // complete.
        entry.kind.store(spec.kind, Ordering::Release);
    }

    fn free_entry(&self) -> Option<&Name> {
        self.names.iter().find(|entry| entry.kind.load(Ordering::Relaxed) == 0)
    }

    /// The object of an entry; `None` if the entry is free or points outside of the segment.
    fn read(&self, entry: &Name) -> Option<FoundObject> {
        // Acquire: pairs with the Release in `enter`.
        let kind = entry.kind.load(Ordering::Acquire);
        let offset = usize::try_from(entry.offset.load(Ordering::Relaxed)).ok()?;
        let bytes = usize::try_from(entry.bytes.load(Ordering::Relaxed)).ok()?;
        let end = offset.checked_add(bytes)?;
        let inside = offset >= OBJECTS && end <= self.bytes && offset.is_multiple_of(OBJECT_ALIGN);
        let chosen = [0, 1, 2, 3].map(|at| entry.chosen[at].load(Ordering::Relaxed));
        let agreed = entry.agreed.load(Ordering::Relaxed);
        (kind != 0 && inside)
            .then_some(FoundObject { offset, spec: ObjectSpec { kind, bytes, agreed, chosen } })
    }

    /// The free parts as (start, end), aligned.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut objects: Vec<_> = self.names.iter().filter_map(|entry| self.read(entry)).collect();
        objects.sort_by_key(|object| object.offset);
        let mut gaps = Vec::new();
        let mut free = OBJECTS;
        for object in objects {
            gaps.push((free, object.offset));
            free = free.max(object.end().next_multiple_of(OBJECT_ALIGN));
        }
        gaps.push((free, self.bytes));
        gaps.retain(|(start, end)| start < end);
        gaps
    }
}

/// Eight bytes of a name, padded with zeros.
fn word_of(name: &str, at: usize) -> u64 {
    let bytes = name.as_bytes();
    let byte = |i: usize| bytes.get(8 * at + i).copied().unwrap_or(0);
    u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(byte))
}

fn is_called(entry: &Name, name: &str) -> bool {
    let word_is = |(at, word): (usize, &crate::atomic::AtomicU64)| {
        word.load(Ordering::Relaxed) == word_of(name, at)
    };
    // Acquire: pairs with the Release in `enter`.
    entry.kind.load(Ordering::Acquire) != 0 && entry.name.iter().enumerate().all(word_is)
}

fn name_of(entry: &Name) -> String {
    let words = entry.name.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    let bytes: Vec<u8> = words.flatten().take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = OBJECTS + 4096;

    fn names() -> Box<[Name; MAX_OBJECTS]> {
        // SAFETY: consists of atomics, which are valid when zeroed.
        unsafe { Box::new_zeroed().assume_init() }
    }

    fn spec(bytes: usize) -> ObjectSpec {
        ObjectSpec { kind: 7, bytes, agreed: 0x1234, chosen: [1, 2, 3, 4] }
    }

    fn add(directory: &Directory<'_>, name: &str, bytes: usize) -> usize {
        let offset = directory.room_for(bytes).unwrap();
        directory.enter(name, offset, spec(bytes));
        offset
    }

    #[test]
    fn entries_are_found_by_name_alone() {
        let names = names();
        let directory = Directory { names: &names, bytes: SIZE };
        let longest = "x".repeat(MAX_NAME);
        let first = add(&directory, "queue", 100);
        let second = add(&directory, &longest, 300);
        assert_eq!(directory.find("queue"), Some(FoundObject { offset: first, spec: spec(100) }));
        assert_eq!(directory.find(&longest), Some(FoundObject { offset: second, spec: spec(300) }));
        for other in ["queu", "queues", "", &longest[1..]] {
            assert_eq!(directory.find(other), None, "{other:?}");
        }
        let all: Vec<_> = directory.all().map(|(name, _)| name).collect();
        assert_eq!(all, ["queue".to_string(), longest]);
    }

    #[test]
    fn objects_do_not_overlap_and_fill_the_segment() {
        let names = names();
        let directory = Directory { names: &names, bytes: SIZE };
        let mut found: Vec<_> = (0..4)
            .map(|at| (add(&directory, &format!("o{at}"), 100 + 300 * at), 100 + 300 * at))
            .collect();
        found.sort();
        assert!(found.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{found:?}");
        assert!(found.iter().all(|(offset, _)| offset % OBJECT_ALIGN == 0));
        let free = directory.free();
        assert_eq!(directory.room_for(free + 1), Err(NoRoom::Bytes(free)));
        add(&directory, "rest", free);
        assert_eq!(directory.free(), 0);
        assert_eq!(directory.room_for(1), Err(NoRoom::Bytes(0)));
    }

    #[test]
    fn entries_end() {
        let names = names();
        let directory = Directory { names: &names, bytes: OBJECTS + (MAX_OBJECTS + 1) * 128 };
        (0..MAX_OBJECTS).for_each(|at| _ = add(&directory, &format!("o{at}"), 8));
        assert_eq!(directory.room_for(8), Err(NoRoom::Entries));
    }

    #[test]
    fn an_entry_that_leads_outside_is_none() {
        let outside = [
            (0, 8),
            (OBJECTS as u64 - 128, 128),
            (OBJECTS as u64 + 1, 8),
            (SIZE as u64, 1),
            (OBJECTS as u64, u64::MAX),
            (u64::MAX - 127, 256),
        ];
        for (offset, bytes) in outside {
            let names = names();
            let directory = Directory { names: &names, bytes: SIZE };
            directory.enter("hostile", OBJECTS, spec(8));
            names[0].offset.store(offset, Ordering::Relaxed);
            names[0].bytes.store(bytes, Ordering::Relaxed);
            assert_eq!(directory.find("hostile"), None, "{offset} {bytes}");
            assert!(directory.room_for(8).is_ok());
        }
    }

    #[test]
    fn names_have_bounds() {
        assert!(is_name("a") && is_name(&"é".repeat(31)));
        assert!(!is_name("") && !is_name(&"x".repeat(64)) && !is_name("a\0"));
    }
}
