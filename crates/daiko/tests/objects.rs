//! Objects that processes share in a segment. Some of the processes die.

#[path = "objects/array.rs"]
mod array;
#[path = "objects/barrier.rs"]
mod barrier;
#[path = "objects/channel.rs"]
mod channel;
#[path = "objects/condvar.rs"]
mod condvar;
#[path = "objects/event.rs"]
mod event;
#[path = "objects/hostile.rs"]
mod hostile;
#[path = "objects/kills.rs"]
mod kills;
#[path = "objects/mpmc.rs"]
mod mpmc;
#[path = "objects/mutex.rs"]
mod mutex;
#[path = "objects/once.rs"]
mod once;
#[path = "objects/place.rs"]
mod place;
#[path = "objects/rwlock.rs"]
mod rwlock;
#[path = "objects/select.rs"]
mod select;
#[path = "objects/semaphore.rs"]
mod semaphore;
#[path = "objects/sleep.rs"]
mod sleep;
#[path = "objects/stopped.rs"]
mod stopped;
mod support;
#[path = "objects/tree.rs"]
mod tree;
#[path = "objects/users.rs"]
mod users;
#[path = "objects/words.rs"]
mod words;
