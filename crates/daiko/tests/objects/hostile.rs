//! A peer that writes arbitrary words, and a file that is cut short.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use daiko::shm::{
    Barrier, BarrierError, Cause, Channel, Condvar, Event, MpmcChannel, Mutex, Once, RecvError,
    RwLock, Segment, Semaphore, SendError,
};

use crate::place::{Place, raw_object, until_a_waiter_listens};
use crate::support::{OnDrop, workers};

/// A wait that no peer may extend.
const WAIT: Duration = Duration::from_micros(100);
const NAMES: [&str; 9] =
    ["mutex", "rwlock", "semaphore", "event", "channel", "condvar", "barrier", "once", "mpmc"];

pub(crate) type Objects = (Mutex<u64>, RwLock<u64>, Semaphore, Event, Channel<u64>);
pub(crate) type MoreObjects = (Condvar, Barrier, Once, MpmcChannel<u64>);

/// Objects of these names.
pub(crate) fn objects(segment: &Segment) -> (Objects, MoreObjects) {
    (first_objects(segment), more_objects(segment))
}

fn first_objects(segment: &Segment) -> Objects {
    let channel = Channel::options().capacity(4).senders(2);
    (
        Mutex::create(segment, "mutex", 0).unwrap(),
        RwLock::create(segment, "rwlock", 0).unwrap(),
        Semaphore::create(segment, "semaphore", 4).unwrap(),
        Event::create(segment, "event").unwrap(),
        Channel::create(segment, "channel", channel).unwrap(),
    )
}

/// More objects, of the rest of the names.
fn more_objects(segment: &Segment) -> MoreObjects {
    let mpmc = MpmcChannel::options().capacity(4).senders(2).receivers(2);
    (
        Condvar::create(segment, "condvar").unwrap(),
        Barrier::create(segment, "barrier", 3).unwrap(),
        Once::create(segment, "once").unwrap(),
        MpmcChannel::create(segment, "mpmc", mpmc).unwrap(),
    )
}

/// Writes to all words of the objects, in random order, until the end.
pub(crate) fn scribble(segment: &Segment, ends: &AtomicBool) {
    let objects = NAMES.map(|name| raw_object(segment, name));
    let mut dice = 1u64;
    while !ends.load(Ordering::Relaxed) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let object = &objects[(dice >> 60) as usize % objects.len()];
        let words = object.slice::<AtomicU64>(0, object.spec().bytes / 8);
        // Mostly the first few words, which matter most. The value is a live process, none, or
        // arbitrary.
        let at =
            (dice >> 40) as usize % if dice & 1 == 0 { 8.min(words.len()) } else { words.len() };
        let me = segment.me().bits();
        let anything = [0, 1, me, me | 3, dice, u64::MAX, dice >> 48][(dice >> 33) as usize % 7];
        words[at].store(anything, Ordering::Relaxed);
        thread::yield_now();
    }
}

/// Calls everything. Each call returns in time.
pub(crate) fn use_all((first, more): &(Objects, MoreObjects)) {
    let (mutex, rwlock, semaphore, event, channel) = first;
    let (condvar, barrier, once, mpmc) = more;
    for _ in 0..200 {
        if let Ok(guard) = mutex.lock_timeout(WAIT) {
            // The lock that it takes again may be held for ever by a process of no word.
            drop(condvar.wait_timeout(guard, WAIT));
        }
        condvar.notify_one();
        condvar.notify_all();
        if let Ok(mut party) = barrier.party() {
            let _ = (party.wait_timeout(WAIT), party.wait_timeout(WAIT));
        }
        let _ = once.call_once_force_timeout(WAIT, |_| ());
        if let (Ok(sender), Ok(receiver)) = (mpmc.sender(), mpmc.receiver()) {
            let _ = (sender.send_timeout(1, WAIT), receiver.recv_timeout(WAIT));
            let _ = (receiver.clone().try_recv(), sender.clone().try_send(1));
        }
        drop(mutex.lock_timeout(WAIT).map(|mut value| *value ^= 1));
        drop(rwlock.read_timeout(WAIT).map(|value| *value));
        drop(rwlock.write_timeout(WAIT).map(|mut value| *value ^= 1));
        drop((rwlock.try_read(), mutex.try_lock()));
        drop(rwlock.try_write());
        if let Ok(permit) = semaphore.acquire_timeout(WAIT) {
            let number = permit.forget();
            drop(semaphore.adopt(number));
            let _ = semaphore.add_permit(number);
        }
        event.set();
        let _ = (event.reset(), event.wait_timeout(WAIT));
        if let (Ok(mut sender), Ok(mut receiver)) = (channel.sender(), channel.receiver()) {
            let _ = (sender.send_timeout(1, WAIT), receiver.recv_timeout(WAIT));
            let _ = (receiver.try_recv(), sender.try_send(1));
        }
        mutex.clear_poison();
        rwlock.clear_poison();
    }
}

#[test]
fn calls_return_in_time_in_spite_of_any_writes_of_a_peer() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let (all, ends) = (objects(&segment), AtomicBool::new(false));
    let use_all = || use_all(&all);
    thread::scope(|s| {
        s.spawn(|| scribble(&other, &ends));
        let _ends = OnDrop(|| ends.store(true, Ordering::Relaxed));
        use_all();
        workers(1).scope(|fibers| fibers.spawn(use_all).join().unwrap());
    });
}

#[test]
fn locks_and_channels_of_a_file_that_is_cut_short_say_so() {
    let place = Place::new("cut");
    let (mutex, rwlock, _, _, channel) = first_objects(&place.segment);
    let (condvar, barrier, once, mpmc) = more_objects(&place.segment);
    let (mut sender, mut receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
    let (to_many, of_many) = (mpmc.sender().unwrap(), mpmc.receiver().unwrap());
    let mut party = barrier.party().unwrap();
    sender.send(1).unwrap();
    let waits = {
        let mutex = mutex.clone();
        thread::spawn(move || condvar.wait(mutex.lock().unwrap()).map(drop).unwrap_err().cause())
    };
    until_a_waiter_listens(&place.segment, "condvar", 24);
    File::options().write(true).open(place.segment.path()).unwrap().set_len(0).unwrap();
    assert_eq!(mutex.lock().map(drop).unwrap_err().cause(), Cause::Truncated);
    assert_eq!(rwlock.read().map(drop).unwrap_err().cause(), Cause::Truncated);
    assert_eq!(rwlock.write().map(drop).unwrap_err().cause(), Cause::Truncated);
    assert_eq!(receiver.recv(), Err(RecvError::Truncated));
    assert_eq!(receiver.try_recv(), Err(RecvError::Truncated));
    assert_eq!(sender.try_send(2), Err(SendError::Truncated));
    assert_eq!(sender.send(2), Err(SendError::Truncated));
    assert_eq!(of_many.recv(), Err(RecvError::Truncated));
    assert_eq!(of_many.try_recv(), Err(RecvError::Truncated));
    assert_eq!(to_many.send(2), Err(SendError::Truncated));
    assert_eq!(party.wait(), Err(BarrierError::Truncated));
    once.call_once_force(|state| assert_eq!(state.cause(), Some(Cause::Truncated)));
    assert_eq!(waits.join().unwrap(), Cause::Truncated);
}
