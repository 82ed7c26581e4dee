//! The numbers by which a segment names the kinds of objects.

pub(super) const SERVICE: u32 = 1;
pub(super) const EVENT: u32 = 2;
pub(super) const MUTEX: u32 = 3;
pub(super) const CHANNEL: u32 = 4;
pub(super) const SEMAPHORE: u32 = 5;
pub(super) const RWLOCK: u32 = 6;
pub(super) const CONDVAR: u32 = 7;
pub(super) const BARRIER: u32 = 8;
pub(super) const ONCE: u32 = 9;
pub(super) const MPMC_CHANNEL: u32 = 10;
pub(super) const WORDS: u32 = 11;
pub(super) const ARRAY: u32 = 12;
