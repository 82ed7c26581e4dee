//! Processes that are killed at random, while they use all objects. The rest run on, and only the
//! values in the hand of the dead process are lost.
//!
//! The test runs for two seconds, or as long as `DAIKO_SOAK_SECONDS` says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daiko::shm::{
    Barrier, BarrierError, BarrierParty, Channel, Condvar, Event, LockResult, MpmcChannel,
    MpmcReceiver, Mutex, Receiver, RecvError, RwLock, Segment, Semaphore, SendError, Sender,
    TimedLockError,
};

use crate::place::{LONG, Place, role, theirs};
use crate::support::child::{Killed, is_child};
use crate::support::workers;

const NAME: &str = "kills::the_survivors_go_on";
const PERMITS: u32 = 3;
const CHILDREN: usize = 3;
/// The number of fibers of each child that send.
const FIBERS: u64 = 2;
/// The longest life of a child.
const LIFE: Duration = Duration::from_millis(60);

/// Two numbers that are equal while no writer changes them.
type Pair = [u64; 2];
/// The sender, and the number of its message.
type Message = [u64; 2];

pub(crate) struct Objects {
    mutex: Mutex<Pair>,
    rwlock: RwLock<Pair>,
    semaphore: Semaphore,
    event: Event,
    /// Messages from the children to the parent.
    up: Channel<Message>,
    /// Messages from the parent to one of the children.
    down: Channel<u64>,
    /// Messages from the children to several attachments of the parent.
    many: MpmcChannel<Message>,
    /// Each fiber adds a token before it takes one, so that none is ever missing.
    tokens: Mutex<u64>,
    more: Condvar,
    /// A meeting of the parent with one of the children.
    barrier: Barrier,
}

impl Objects {
    pub(crate) fn of(segment: &Segment) -> Self {
        let lanes = 2 * CHILDREN as u32 * FIBERS as u32;
        let up = Channel::options().capacity(4).senders(lanes);
        let many = MpmcChannel::options().capacity(4).senders(2 * CHILDREN as u32).receivers(2);
        Objects {
            mutex: Mutex::open_or_create(segment, "mutex", [0; 2]).unwrap(),
            rwlock: RwLock::open_or_create(segment, "rwlock", [0; 2]).unwrap(),
            semaphore: Semaphore::open_or_create(segment, "semaphore", PERMITS).unwrap(),
            event: Event::open_or_create(segment, "event").unwrap(),
            up: Channel::open_or_create(segment, "up", up).unwrap(),
            down: Channel::open_or_create(segment, "down", Channel::options().capacity(2)).unwrap(),
            many: MpmcChannel::open_or_create(segment, "many", many).unwrap(),
            tokens: Mutex::open_or_create(segment, "tokens", 0).unwrap(),
            more: Condvar::open_or_create(segment, "more tokens").unwrap(),
            barrier: Barrier::open_or_create(segment, "barrier", 2).unwrap(),
        }
    }

    /// Uses one of the objects, as `choice` says.
    fn use_one(&self, choice: u64) {
        match choice % 6 {
            5 => self.pass_token(),
            0 => self.lock(),
            1 => self.read(),
            2 => self.write(),
            3 => {
                let _permit = self.semaphore.acquire_timeout(LONG).expect("a permit is lost");
                daiko::yield_now();
            }
            _ => self.event.set(),
        }
    }

    fn lock(&self) {
        let (mut guard, in_order) = told(self.mutex.lock_timeout(LONG));
        change(&mut guard, in_order);
        if !in_order {
            self.mutex.clear_poison();
        }
    }

    /// Adds a token, and takes one.
    fn pass_token(&self) {
        *told(self.tokens.lock_timeout(LONG)).0 += 1;
        self.more.notify_one();
        daiko::yield_now();
        let mut tokens = told(self.tokens.lock_timeout(LONG)).0;
        let begun = Instant::now();
        while *tokens == 0 {
            assert!(begun.elapsed() < LONG, "a notification is lost");
            let waited = self.more.wait_timeout(tokens, LONG);
            tokens = waited.map_or_else(|error| error.into_inner().0, |(tokens, _)| tokens);
        }
        *tokens -= 1;
    }

    fn read(&self) {
        let (guard, in_order) = told(self.rwlock.read_timeout(LONG));
        assert!(!in_order || guard[0] == guard[1], "{guard:?}");
        daiko::yield_now();
    }

    fn write(&self) {
        let (mut guard, in_order) = told(self.rwlock.write_timeout(LONG));
        change(&mut guard, in_order);
        if !in_order {
            self.rwlock.clear_poison();
        }
    }
}

/// Returns the guard, and whether the data are known to be consistent.
fn told<G>(locked: Result<G, TimedLockError<G>>) -> (G, bool) {
    let locked: LockResult<G> = match locked {
        Ok(guard) => Ok(guard),
        Err(TimedLockError::Poisoned(error)) => Err(error),
        Err(TimedLockError::TimedOut) => panic!("the lock is lost"),
    };
    match locked {
        Ok(guard) => (guard, true),
        Err(error) => (error.into_inner(), false),
    }
}

/// Repairs the pair if it is not known to be consistent, and changes it.
fn change(pair: &mut Pair, in_order: bool) {
    if !in_order {
        pair[1] = pair[0];
    }
    assert_eq!(pair[0], pair[1]);
    pair[0] += 1;
    daiko::yield_now();
    pair[1] += 1;
}

/// xorshift64*
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20
    }
}

/// The work of a fiber of a child, until it is killed.
fn live(objects: &Objects, holder: u64, down: Option<Receiver<u64>>) {
    let (mut dice, mut sender, mut down) = (Dice::new(holder), objects.up.sender().unwrap(), down);
    let to_many = objects.many.sender().unwrap();
    let mut party = objects.barrier.party().ok();
    let mut sent = 0;
    loop {
        objects.use_one(dice.roll());
        sender.send_timeout([holder, sent], LONG).expect("the parent receives");
        to_many.send_timeout([holder, sent], LONG).expect("the parent receives");
        sent += 1;
        if let Some(party) = &mut party {
            party.wait_timeout(LONG).expect("the parent lives");
        }
        if let Some(down) = &mut down {
            let _ = down.try_recv();
        }
    }
}

/// Sends downwards to any child that receives.
fn send_down(sender: &mut Sender<u64>) {
    match sender.send_timeout(0, LONG) {
        Ok(()) | Err(SendError::Disconnected) => daiko::yield_now(),
        Err(error) => panic!("{error}"),
    }
}

/// Receives until the end. Checks that no message of any sender is lost or comes twice. Returns the
/// number of messages of each sender.
fn receive(mut up: Receiver<Message>, ends: &AtomicBool) -> HashMap<u64, u64> {
    let mut next = HashMap::new();
    loop {
        match up.recv_timeout(LONG) {
            Ok([holder, number]) => {
                let expected = next.entry(holder).or_insert(0);
                assert_eq!(*expected, number, "of {holder}");
                *expected += 1;
            }
            Err(RecvError::Disconnected) if ends.load(Ordering::Relaxed) => return next,
            Err(RecvError::Disconnected) => daiko::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Receives as one of several, until the end. Returns the messages.
fn receive_some(many: &MpmcReceiver<Message>, ends: &AtomicBool) -> Vec<Message> {
    let mut received = Vec::new();
    loop {
        match many.recv_timeout(LONG) {
            Ok(message) => received.push(message),
            Err(RecvError::Disconnected) if ends.load(Ordering::Relaxed) => return received,
            Err(RecvError::Disconnected) => daiko::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Checks that of each sender all messages up to some have been received, each once.
fn check_received(mut all: Vec<Message>) {
    all.sort_unstable();
    assert!(!all.is_empty());
    let mut last: Option<Message> = None;
    for [holder, number] in all {
        let expected = match last {
            Some([before, number]) if before == holder => number + 1,
            _ => 0,
        };
        assert_eq!(number, expected, "of {holder}");
        last = Some([holder, number]);
    }
}

/// Meets children until the end. Returns how often it met one.
fn meet(mut party: BarrierParty, ends: &AtomicBool) -> u64 {
    let mut met = 0;
    while !ends.load(Ordering::Relaxed) {
        // There may be no child in the other place at the end.
        match party.wait_timeout(LIFE) {
            Ok(_) => met += 1,
            Err(BarrierError::Died { .. } | BarrierError::TimedOut) => daiko::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    met
}

/// Kills children, and starts new children in their place, as long as `goes_on` says so of the
/// number of kills; returns the number of processes.
fn kill(
    mut start: impl FnMut(u64) -> Killed,
    mut goes_on: impl FnMut(u64) -> bool,
    dice: &mut Dice,
) -> u64 {
    let mut number = 0;
    let mut child = || {
        number += 1;
        (number, start(number))
    };
    let mut children: Vec<Killed> = (0..CHILDREN).map(|_| child().1).collect();
    let mut count = CHILDREN as u64;
    while goes_on(count - CHILDREN as u64) {
        let life = LIFE / CHILDREN as u32;
        std::thread::sleep(life.mul_f64((dice.roll() % 1000) as f64 / 1000.0));
        let victim = &mut children[(dice.roll() % CHILDREN as u64) as usize];
        assert!(victim.lives(), "a child has failed");
        (count, *victim) = child();
    }
    count
}

fn child() {
    live_in(&theirs(), role().parse().unwrap());
}

/// Uses all objects, as child number `number`, until it is killed.
pub(crate) fn live_in(segment: &Segment, number: u64) {
    let objects = Objects::of(segment);
    let runtime = workers(1);
    runtime.scope(|s| {
        for fiber in 0..FIBERS {
            let down = (fiber == 0).then(|| objects.down.receiver().ok()).flatten();
            let objects = &objects;
            s.spawn(move || live(objects, number * FIBERS + fiber, down));
        }
    });
}

/// Uses all objects while children do so, and are killed, as long as `goes_on` says so of the
/// number of kills. Checks that nothing is lost. `again` is the same segment.
pub(crate) fn survive(
    segment: &Segment,
    again: &Segment,
    start: impl FnMut(u64) -> Killed,
    goes_on: impl FnMut(u64) -> bool,
) {
    let (objects, ends) = (Objects::of(segment), AtomicBool::new(false));
    let (runtime, uses, seed) = (workers(2), AtomicU64::new(0), u64::from(std::process::id()));
    let (up, mut down) = (objects.up.receiver().unwrap(), objects.down.sender().unwrap());
    let other = Objects::of(again);
    let many = [&objects, &other].map(|objects| objects.many.receiver().unwrap());
    let party = objects.barrier.party().unwrap();
    let (killed, received) = runtime.scope(|s| {
        let received = s.spawn(|| receive(up, &ends));
        let some = many.each_ref().map(|many| s.spawn(|| receive_some(many, &ends)));
        let met = s.spawn(|| meet(party, &ends));
        let using = |at| {
            let mut dice = Dice::new(seed + at);
            while !ends.load(Ordering::Relaxed) {
                objects.use_one(dice.roll());
                uses.fetch_add(1, Ordering::Relaxed);
            }
        };
        (0..4).for_each(|at| _ = s.spawn(move || using(at)));
        s.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                send_down(&mut down);
                objects.event.wait_timeout(LONG).expect("the event is set");
                objects.event.reset();
            }
        });
        let killed = kill(start, goes_on, &mut Dice::new(seed));
        ends.store(true, Ordering::Relaxed);
        objects.event.set();
        check_received(some.map(|some| some.join().unwrap()).concat());
        assert!(met.join().unwrap() > 0);
        (killed, received.join().unwrap())
    });
    assert_eq!(objects.semaphore.available_permits(), PERMITS);
    let (sent, uses) = (received.values().sum::<u64>(), uses.into_inner());
    println!(
        "{killed} processes, {} of which sent {sent} messages; {uses} uses here",
        received.len()
    );
    assert!(sent > 0 && uses > 0);
}

#[test]
fn the_survivors_go_on() {
    if is_child() {
        return child();
    }
    let seconds = std::env::var("DAIKO_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let place = Place::new("kills");
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(2));
    let start = |number: u64| place.child_as(NAME, &number.to_string());
    let again = Segment::open(place.segment.path()).unwrap();
    survive(&place.segment, &again, start, |_| Instant::now() < end);
}
