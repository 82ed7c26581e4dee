//! The keys and their values, in shards with a lock each, so that the fibers of several workers
//! seldom meet.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::PoisonError;
use std::time::Instant;

use daiko::sync::{Mutex, MutexGuard};
use hashbrown::HashTable;
use hashbrown::hash_table::{Entry as Place, OccupiedEntry};

/// The number of shards: a set of them has as many bits.
const SHARDS: usize = 64;

/// The expiry of a value that never expires.
pub(crate) const NEVER: i64 = i64::MAX;

pub(crate) struct Store {
    shards: Box<[Shard]>,
    /// The hasher has a random seed, so that clients cannot choose keys with equal hashes.
    hasher: RandomState,
    clock: Clock,
}

/// A shard, on cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<Map>);

/// The keys of one shard.
pub(crate) struct Map {
    entries: HashTable<Entry>,
    clock: Clock,
}

/// A key with its value behind it, in one allocation, so that short entries take one cache line.
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

/// Milliseconds since the store was made, from 1 on: so no expiry that is reached equals [`NEVER`].
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Store {
    pub(crate) fn new() -> Store {
        let clock = Clock(Instant::now());
        let shard = |_| Shard(Mutex::new(Map { entries: HashTable::new(), clock }));
        Store { shards: (0..SHARDS).map(shard).collect(), hasher: RandomState::new(), clock }
    }

    /// Locks the shard of a key.
    pub(crate) fn lock<'k>(&self, text: &'k [u8]) -> (MutexGuard<'_, Map>, Key<'k>) {
        let key = self.key(text);
        (self.lock_shard(key.shard()), key)
    }

    /// Calls `each` with every key and its number while all their shards are locked: other clients
    /// see all changes or none.
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
        // Other clients are served while this memory is freed.
        drop(maps);
        drop(old);
    }

    /// Returns when a value expires that is set now, to last for so long.
    pub(crate) fn expiry(&self, milliseconds: i64) -> Option<i64> {
        self.clock.now().checked_add(milliseconds)
    }

    fn key<'k>(&self, text: &'k [u8]) -> Key<'k> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text);
        Key { text, hash: hasher.finish() }
    }

    /// Locks the shards in `set`, in their order: so no two callers wait for each other.
    fn lock_set(&self, set: u64) -> Vec<MutexGuard<'_, Map>> {
        let shards = (0..SHARDS).filter(|shard| set & 1 << shard != 0);
        shards.map(|shard| self.lock_shard(shard)).collect()
    }

    fn lock_shard(&self, shard: usize) -> MutexGuard<'_, Map> {
        // A caller that panicked has left the map whole: each change is one call of it.
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    /// Returns the value of a key, unless it has expired.
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

    /// Removes a key. Returns whether there was a value.
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

    /// Frees expired entries before the table grows, so that no timer is needed. If few have
    /// expired, the table grows all the same, so that it is at most half full afterwards.
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

    /// Writes the value in place, if it is as long as the previous value.
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
    /// Chooses the shard by bits that its table uses last.
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
