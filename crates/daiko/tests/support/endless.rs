//! Waits of every kind that nothing ends but an unwinding.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use daiko::cancel::CancelToken;
use daiko::sync::channel::{self, Receiver, Sender};
use daiko::sync::{Barrier, Condvar, Event, Mutex, Once, RwLock, Semaphore};
use daiko::watch::{self, NotificationArea, at_least};
use daiko::{JoinHandle, select, time};

use super::OnDrop;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// The number of kinds.
pub(crate) const KINDS: usize = 24;
/// The kind that an unwinding does not end, but follows.
pub(crate) const BLOCKING: usize = 23;

/// Waits, as the kind says, for an event that never comes.
pub(crate) fn wait(kind: usize) {
    let word = AtomicU64::new(0);
    loop {
        match kind {
            0 => daiko::park(),
            1 => daiko::park_timeout(LONG),
            2 => time::sleep(Duration::MAX),
            3 => daiko::yield_now(),
            4 => for_a_fiber(|fiber| fiber.join().unwrap()),
            5 => for_a_fiber(|fiber| fiber.join_timeout(LONG).unwrap().unwrap()),
            6 => _ = watch::wait_until(&word, at_least(1)),
            7 => _ = watch::wait_until_notified(&word, at_least(1)),
            8 => _ = watch::wait_until_timeout(&word, at_least(1), LONG),
            9 => _ = NotificationArea::<u64>::new(1).1[0].wait(),
            10 => for_a_lock(|mutex| drop(mutex.lock())),
            11 => for_a_lock(|mutex| drop(mutex.lock_timeout(LONG))),
            12 => drop(Condvar::new().wait(Mutex::new(()).lock().unwrap())),
            13 => drop(Semaphore::new(1).acquire_many(2)),
            14 => CancelToken::new().wait(),
            15 => for_a_message(|_, receiver| _ = receiver.recv()),
            16 => for_a_message(|sender, _| _ = sender.send(())),
            17 => for_a_message(|sender, receiver| {
                select! {
                    recv(receiver) -> _ => {}
                    send(sender, ()) -> _ => {}
                }
            }),
            18 => _ = Event::auto().wait_timeout(LONG),
            19 => _ = Barrier::new(2).wait(),
            20 => Once::new().wait(),
            21 => for_a_reader(&RwLock::new(())),
            22 => daiko::block_on(std::future::pending()),
            BLOCKING => daiko::blocking(|| ()),
            _ => unreachable!("there are so many kinds"),
        }
    }
}

/// No other fiber has an end.
fn for_a_message(wait: impl FnOnce(&Sender<()>, &Receiver<()>)) {
    let (sender, receiver) = channel::rendezvous();
    wait(&sender, &receiver);
}

/// The caller reads for as long as it waits to write.
fn for_a_reader(lock: &RwLock<()>) {
    let _reader = lock.read();
    drop(lock.write());
}

/// The joined fiber ends once the caller has been unwound, and the caller waits for that.
fn for_a_fiber(join: impl FnOnce(JoinHandle<()>)) {
    let [gone, ended] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (is_gone, ends) = (gone.clone(), ended.clone());
    let other = daiko::spawn(move || {
        drop(is_gone.acquire());
        ends.add_permits(1);
    });
    let _ended = OnDrop(|| {
        gone.add_permits(1);
        drop(ended.acquire());
    });
    join(other);
}

/// Its holder frees it once the caller has been unwound, which leaves it unpoisoned.
fn for_a_lock(lock: impl FnOnce(&Mutex<()>)) {
    let mutex = Arc::new(Mutex::new(()));
    let [held, gone, ended] = [(); 3].map(|()| Arc::new(Semaphore::new(0)));
    let (theirs, is_held, is_gone, ends) =
        (mutex.clone(), held.clone(), gone.clone(), ended.clone());
    daiko::spawn(move || {
        let guard = theirs.lock().unwrap();
        is_held.add_permits(1);
        drop(is_gone.acquire());
        drop(guard);
        ends.add_permits(1);
    });
    let _freed = OnDrop(|| {
        gone.add_permits(1);
        drop(ended.acquire());
        assert!(mutex.try_lock().is_ok(), "still held, or poisoned");
    });
    drop(held.acquire());
    lock(&mutex);
}
