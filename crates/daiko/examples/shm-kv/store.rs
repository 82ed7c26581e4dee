//! The keys and their values.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::PoisonError;

use daiko::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::protocol::{self, Outcome, Refusal, Request};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The store. Fibers that wait for its lock let other fibers of their worker serve meanwhile.
#[derive(Default)]
pub(crate) struct Store {
    map: RwLock<Map>,
}

impl Store {
    /// Carries out a request, for a reply of at most `slot_bytes`.
    pub(crate) fn carry_out(&self, request: Request<'_>, slot_bytes: usize) -> Outcome {
        match request {
            Request::Get { key } => self.read().get(key).cloned().ok_or(Refusal::NoKey),
            Request::Set { key, value } => {
                self.write().insert(key.to_vec(), value.to_vec());
                Ok(Vec::new())
            }
            Request::Del { key } => {
                self.write().remove(key).map(|_| Vec::new()).ok_or(Refusal::NoKey)
            }
            Request::Incr { key, by } => self.incr(key, by),
            Request::Keys { after } => {
                let map = self.read();
                let behind = map.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded));
                Ok(protocol::encode_keys(behind.map(|(key, _)| &key[..]), slot_bytes))
            }
            // The server handles this request.
            Request::Stop => Ok(Vec::new()),
        }
    }

    /// Adds to a number; a key without a value counts as 0.
    fn incr(&self, key: &[u8], by: i64) -> Outcome {
        let mut map = self.write();
        let number = map.get(key).map_or(Some(0), |value| number(value));
        let sum = number.ok_or(Refusal::NoNumber)?.checked_add(by).ok_or(Refusal::OutOfRange)?;
        let text = sum.to_string().into_bytes();
        map.insert(key.to_vec(), text.clone());
        Ok(text)
    }

    // A handler that panicked has left the map whole: each request changes it once.
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
