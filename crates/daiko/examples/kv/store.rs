//! The keys and their values, in shards with a lock each, so that the fibers of several workers seldom meet.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::PoisonError;
use std::time::Instant;

use daiko::sync::{Mutex, MutexGuard};
use hashbrown::HashTable;
use hashbrown::hash_table::{Entry as Place, OccupiedEntry};

/// As many as a set of them has bits.
const SHARDS: usize = 64;

/// When a value expires that never does.
pub(crate) const NEVER: i64 = i64::MAX;

pub(crate) struct Store {
    shards: Box<[Shard]>,
    /// With a seed of its own, so that nobody can choose keys that all get the same hash.
    hasher: RandomState,
    clock: Clock,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<Map>);

/// The keys of one shard.
pub(crate) struct Map {
    entries: HashTable<Entry>,
    clock: Clock,
}

/// A key and its value behind it, in one piece of memory, so that short ones take one cache line.
pub(crate) struct Entry {
    text: Box<[u8]>,
    key_bytes: usize,
    hash: u64,
    expires: i64,
}

/// A key with its hash, which each operation computes once.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    text: &'k [u8],
    hash: u64,
}

/// Milliseconds since the store was made, from 1 on: so no time that passes ends at [`NEVER`].
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Store {
    pub(crate) fn new() -> Store {
        let clock = Clock(Instant::now());
        let shard = |_| Shard(Mutex::new(Map { entries: HashTable::new(), clock }));
        Store { shards: (0..SHARDS).map(shard).collect(), hasher: RandomState::new(), clock }
    }

    /// The shard of a key, locked.
    pub(crate) fn lock<'k>(&self, text: &'k [u8]) -> (MutexGuard<'_, Map>, Key<'k>) {
        let key = self.key(text);
        (self.lock_shard(key.shard()), key)
    }

    /// Calls `each` with every key and its number while all their shards are locked: others see all changes or none.
    pub(crate) fn for_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, &mut Map, Key<'k>),
    ) {
        let keys: Vec<_> = keys.map(|text| self.key(text)).collect();
        let set = keys.iter().fold(0, |set, key| set | 1 << key.shard());
        let mut maps = self.lock_set(set);
        for (number, key) in keys.into_iter().enumerate() {
            let before = set & ((1 << key.shard()) - 1);
            each(number, &mut maps[before.count_ones() as usize], key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock_set(u64::MAX).iter().map(|map| map.entries.len()).sum()
    }

    pub(crate) fn clear(&self) {
        let mut maps = self.lock_set(u64::MAX);
        let old: Vec<_> = maps.iter_mut().map(|map| mem::take(&mut map.entries)).collect();
        // Others go on while all that is freed.
        drop(maps);
        drop(old);
    }

    /// When a value expires that is set now, to last for so long.
    pub(crate) fn expiry(&self, milliseconds: i64) -> Option<i64> {
        self.clock.now().checked_add(milliseconds)
    }

    fn key<'k>(&self, text: &'k [u8]) -> Key<'k> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text);
        Key { text, hash: hasher.finish() }
    }

    /// The shards in `set`, in their order: so no two wait for each other.
    fn lock_set(&self, set: u64) -> Vec<MutexGuard<'_, Map>> {
        let shards = (0..SHARDS).filter(|shard| set & 1 << shard != 0);
        shards.map(|shard| self.lock_shard(shard)).collect()
    }

    fn lock_shard(&self, shard: usize) -> MutexGuard<'_, Map> {
        // Whoever panicked has left the map whole: each change is one call of it.
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    /// The value of a key, unless it has expired.
    pub(crate) fn get(&mut self, key: Key<'_>) -> Option<&mut Entry> {
        self.place(key).map(OccupiedEntry::into_mut)
    }

    pub(crate) fn set(&mut self, key: Key<'_>, value: &[u8], expires: i64) {
        self.make_room();
        match self.entries.entry(key.hash, |entry| key.is(entry), |entry| entry.hash) {
            Place::Occupied(mut place) => {
                place.get_mut().set_value(value);
                place.get_mut().expires = expires;
            }
            Place::Vacant(place) => _ = place.insert(Entry::new(key, value, expires)),
        }
    }

    /// Whether there was one.
    pub(crate) fn remove(&mut self, key: Key<'_>) -> bool {
        self.place(key).map(OccupiedEntry::remove).is_some()
    }

    fn place(&mut self, key: Key<'_>) -> Option<OccupiedEntry<'_, Entry>> {
        let clock = self.clock;
        let place = self.entries.find_entry(key.hash, |entry| key.is(entry)).ok()?;
        if place.get().expires == NEVER || place.get().expires >= clock.now() {
            return Some(place);
        }
        place.remove();
        None
    }

    /// Frees what has expired before the table grows, so that no timer has to. If that is little, the table grows all
    /// the same, so that it is half full at most when that was done.
    fn make_room(&mut self) {
        let most = self.entries.capacity();
        if self.entries.len() == most {
            let now = self.clock.now();
            self.entries.retain(|entry| entry.expires >= now);
            if self.entries.len() > most / 2 {
                self.entries.reserve(most, |entry| entry.hash);
            }
        }
    }
}

impl Entry {
    fn new(key: Key<'_>, value: &[u8], expires: i64) -> Entry {
        let text = [key.text, value].concat().into_boxed_slice();
        Entry { text, key_bytes: key.text.len(), hash: key.hash, expires }
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.text[self.key_bytes..]
    }

    /// Where it is, if it is as long as the one before.
    pub(crate) fn set_value(&mut self, value: &[u8]) {
        let (key, old) = self.text.split_at_mut(self.key_bytes);
        if old.len() == value.len() {
            old.copy_from_slice(value);
        } else {
            self.text = [&*key, value].concat().into_boxed_slice();
        }
    }
}

impl Key<'_> {
    /// By bits that a shard's table looks at last.
    fn shard(self) -> usize {
        (self.hash >> 40) as usize % SHARDS
    }

    fn is(self, entry: &Entry) -> bool {
        entry.hash == self.hash && entry.text[..entry.key_bytes] == *self.text
    }
}

impl Clock {
    fn now(self) -> i64 {
        self.0.elapsed().as_millis() as i64 + 1
    }
}
