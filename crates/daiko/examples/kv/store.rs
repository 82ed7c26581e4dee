//! The keys and their values, in shards with a lock each, so that the fibers of several workers
//! seldom meet. With a log, each change becomes a record there: no other way leads to the maps.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use daiko::sync::{Mutex, MutexGuard};
use hashbrown::HashTable;
use hashbrown::hash_table::{Entry as Place, OccupiedEntry};

use super::contents::{self, KeyChange};
use super::log::{Log, LogOptions, Position, Record};
use super::record::Format;

/// The number of shards: a set of them has as many bits.
const SHARDS: usize = 64;

/// The expiry of a value that never expires.
pub(crate) const NEVER: i64 = i64::MAX;

pub(crate) struct Store {
    shards: Box<[Shard]>,
    /// The hasher has a random seed, so that clients cannot choose keys with equal hashes.
    hasher: RandomState,
    clock: Clock,
    log: Option<Log>,
}

/// A shard, on cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<Map>);

/// The keys of one shard.
pub(crate) struct Map {
    entries: HashTable<Entry>,
    clock: Clock,
    /// The place in the log of its last change.
    changed: Position,
}

/// The right to change maps, which notes each change for the log.
pub(crate) struct MapWriter<'s> {
    log: Option<&'s Log>,
    clock: Clock,
    /// The record of the request, once there is a change.
    record: Option<Record<'s>>,
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
struct Clock {
    start: Instant,
    /// The milliseconds of Unix time at the time 0.
    unix: i64,
}

impl Store {
    /// Creates a store without a log.
    pub(crate) fn new() -> Store {
        let clock = Clock::new();
        let map = || Map { entries: HashTable::new(), clock, changed: Position::default() };
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(map()))).collect();
        Store { shards, hasher: RandomState::new(), clock, log: None }
    }

    /// Creates a store with the keys in a log, which has all later changes as well.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn open(options: &LogOptions) -> Result<Store, String> {
        let mut store = Store::new();
        let apply = |record: &[u8]| contents::changes(record).for_each(|each| store.apply(each));
        store.log = Some(Log::open(options, apply)?);
        Ok(store)
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Returns the reason if no key can be changed now.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.log.as_ref()?.trouble()
    }

    /// Calls `read` with a key while its shard is locked. A reply that tells of the key may not be
    /// sent before the log has reached the position.
    pub(crate) fn read<R>(
        &self,
        text: &[u8],
        read: impl FnOnce(&mut Map, Key<'_>) -> R,
    ) -> (R, Position) {
        let key = self.key(text);
        let mut map = self.lock_shard(key.shard());
        (read(&mut map, key), map.changed)
    }

    /// Calls `each` with every key and its number while all their shards are locked: other clients
    /// see all changes or none. The position is as for [`read`](Self::read).
    pub(crate) fn read_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(&mut Map, Key<'k>),
    ) -> Position {
        self.change_each(keys, |_, _, map, key| each(map, key))
    }

    /// Calls `change` with a key while its shard is locked. The position is as for
    /// [`read`](Self::read).
    pub(crate) fn change<R>(
        &self,
        text: &[u8],
        change: impl FnOnce(&mut MapWriter<'_>, &mut Map, Key<'_>) -> R,
    ) -> (R, Position) {
        let key = self.key(text);
        let mut map = self.lock_shard(key.shard());
        let mut writer = self.writer();
        let result = change(&mut writer, &mut map, key);
        (result, writer.finish([&mut *map]))
    }

    /// Calls `each` with every key and its number while all their shards are locked: other clients
    /// see all changes or none, and so does a restart. The position is as for
    /// [`read`](Self::read).
    pub(crate) fn change_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(usize, &mut MapWriter<'_>, &mut Map, Key<'k>),
    ) -> Position {
        let keys: Vec<_> = keys.map(|text| self.key(text)).collect();
        let set = keys.iter().fold(0, |set, key| set | 1 << key.shard());
        let mut maps = self.lock_set(set);
        let mut writer = self.writer();
        for (number, key) in keys.into_iter().enumerate() {
            let before = set & ((1 << key.shard()) - 1);
            each(number, &mut writer, &mut maps[before.count_ones() as usize], key);
        }
        writer.finish(maps.iter_mut().map(|map| &mut **map))
    }

    /// Returns the number of keys; the position is as for [`read`](Self::read).
    pub(crate) fn len(&self) -> (usize, Position) {
        let maps = self.lock_set(u64::MAX);
        let changed = maps.iter().map(|map| map.changed).max();
        (maps.iter().map(|map| map.entries.len()).sum(), changed.unwrap_or_default())
    }

    /// Removes all keys. The position is as for [`read`](Self::read).
    pub(crate) fn clear(&self) -> Position {
        let mut maps = self.lock_set(u64::MAX);
        let old: Vec<_> = maps.iter_mut().map(|map| mem::take(&mut map.entries)).collect();
        let mut writer = self.writer();
        writer.note(&KeyChange::Clear);
        let position = writer.finish(maps.iter_mut().map(|map| &mut **map));
        // Other clients are served while this memory is freed.
        drop(maps);
        drop(old);
        position
    }

    /// Rewrites the log, if there is one, so that it has the present keys only. Each shard is
    /// locked in turn while its keys are copied.
    pub(crate) fn rewrite_log(&self) {
        if let Some(log) = &self.log {
            log.rewrite((0..SHARDS).map(|shard| self.lock_shard(shard).records(log.format())));
        }
    }

    /// Repeats a change from the log.
    fn apply(&self, change: KeyChange<'_>) {
        match change {
            KeyChange::Set { key, value, expires } => {
                let key = self.key(key);
                let mut map = self.lock_shard(key.shard());
                match self.clock.of_unix(expires) {
                    expires if expires < self.clock.now() => _ = map.remove(key),
                    expires => map.set(key, value, expires),
                }
            }
            KeyChange::Remove { key } => {
                let key = self.key(key);
                self.lock_shard(key.shard()).remove(key);
            }
            KeyChange::Clear => {
                self.lock_set(u64::MAX).iter_mut().for_each(|map| map.entries.clear())
            }
            KeyChange::Rewritten => {}
        }
    }

    /// Returns when a value expires that is set now, to last for so long.
    pub(crate) fn expiry(&self, milliseconds: i64) -> Option<i64> {
        self.clock.now().checked_add(milliseconds)
    }

    fn writer(&self) -> MapWriter<'_> {
        MapWriter { log: self.log.as_ref(), clock: self.clock, record: None }
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

impl MapWriter<'_> {
    pub(crate) fn set(&mut self, map: &mut Map, key: Key<'_>, value: &[u8], expires: i64) {
        map.set(key, value, expires);
        self.note(&KeyChange::Set { key: key.text, value, expires });
    }

    /// Changes the value of an entry, and not its expiry.
    pub(crate) fn set_value(&mut self, entry: &mut Entry, value: &[u8]) {
        entry.set_value(value);
        self.note(&KeyChange::Set { key: entry.key(), value, expires: entry.expires });
    }

    /// Removes a key. Returns whether there was a value.
    pub(crate) fn remove(&mut self, map: &mut Map, key: Key<'_>) -> bool {
        let was_there = map.remove(key);
        if was_there {
            self.note(&KeyChange::Remove { key: key.text });
        }
        was_there
    }

    /// Adds a change to the record; the expiry is that of the store.
    #[inline]
    fn note(&mut self, change: &KeyChange<'_>) {
        let Some(log) = self.log else { return };
        let change = match *change {
            KeyChange::Set { key, value, expires } => {
                KeyChange::Set { key, value, expires: self.clock.to_unix(expires) }
            }
            other => other,
        };
        self.record.get_or_insert_with(|| log.begin()).add(|record| change.encode(record));
    }

    /// Completes the record of changes of `maps`. Returns the position of the last of all of their
    /// changes.
    fn finish<'m>(self, maps: impl IntoIterator<Item = &'m mut Map>) -> Position {
        match self.record.map(Record::finish) {
            Some(position) => {
                maps.into_iter().for_each(|map| map.changed = position);
                position
            }
            None => maps.into_iter().map(|map| map.changed).max().unwrap_or_default(),
        }
    }
}

impl Map {
    /// Returns the value of a key, unless it has expired.
    pub(crate) fn get(&mut self, key: Key<'_>) -> Option<&mut Entry> {
        self.place(key).map(OccupiedEntry::into_mut)
    }

    fn set(&mut self, key: Key<'_>, value: &[u8], expires: i64) {
        self.make_room();
        match self.entries.entry(key.hash, |entry| key.is(entry), |entry| entry.hash) {
            Place::Occupied(mut place) => {
                place.get_mut().set_value(value);
                place.get_mut().expires = expires;
            }
            Place::Vacant(place) => _ = place.insert(Entry::new(key, value, expires)),
        }
    }

    fn remove(&mut self, key: Key<'_>) -> bool {
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

    /// Returns records of all entries.
    fn records(&self, format: Format) -> Vec<u8> {
        let (mut records, now) = (Vec::new(), self.clock.now());
        for entry in self.entries.iter().filter(|entry| entry.expires >= now) {
            let expires = self.clock.to_unix(entry.expires);
            let set = KeyChange::Set { key: entry.key(), value: entry.value(), expires };
            format.append(&mut records, &contents::encoded(&[set]));
        }
        records
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

    fn key(&self) -> &[u8] {
        &self.text[..self.key_bytes]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.text[self.key_bytes..]
    }

    /// Writes the value in place, if it is as long as the previous value.
    fn set_value(&mut self, value: &[u8]) {
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
        entry.hash == self.hash && entry.key() == self.text
    }
}

impl Clock {
    fn new() -> Clock {
        // A clock that is set before 1970 counts as 1970.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), unix: (unix.as_millis() as i64 - 1).max(0) }
    }

    fn now(self) -> i64 {
        self.start.elapsed().as_millis() as i64 + 1
    }

    /// Converts an expiry to Unix time.
    fn to_unix(self, expires: i64) -> i64 {
        expires.saturating_add(self.unix)
    }

    /// Converts an expiry from Unix time. [`NEVER`] stays, and so does the far future.
    fn of_unix(self, expires: i64) -> i64 {
        if expires == NEVER { NEVER } else { expires.saturating_sub(self.unix) }
    }
}
