//! The ring of Daiko's fibers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use daiko::{Builder, Fiber, Runtime};

use super::RingOutcome;
use super::part::{Follower, Leader, Part, START, pass_on};
use crate::kit::{Conductor, Failure};

/// The receiving end of a fiber's wait.
pub(crate) trait Waits: Send + 'static {
    /// The sending end, held by the predecessor.
    type FiberBell: Bell;

    /// Splits off the predecessor's end. The waiting end moves to its fiber.
    fn split(self) -> (Self, impl FnOnce(&Fiber) -> Self::FiberBell)
    where
        Self: Sized;

    /// Suspends until the bell rings.
    fn wait(&mut self);
}

/// The sending end of a fiber's wait.
pub(crate) trait Bell: Clone + Send + Sync + 'static {
    fn ring(&self);
}

/// The wait of a fiber that parks.
pub(crate) struct Parking;

impl Waits for Parking {
    type FiberBell = Fiber;

    fn split(self) -> (Self, impl FnOnce(&Fiber) -> Fiber) {
        (self, Fiber::clone)
    }

    #[inline]
    fn wait(&mut self) {
        daiko::park();
    }
}

impl Bell for Fiber {
    #[inline]
    fn ring(&self) {
        self.unpark();
    }
}

#[repr(align(64))]
struct FiberSeat<B> {
    datum: AtomicU64,
    bell: OnceLock<B>,
}

impl<B: Bell> FiberSeat<B> {
    #[inline]
    fn send(&self, bell: &B, datum: u64) {
        // Pairs with the Acquire in `play`.
        self.datum.store(datum, Ordering::Release);
        bell.ring();
    }

    fn bell(&self) -> &B {
        self.bell.get().expect("set before the first datum is sent")
    }
}

/// A ring of fibers.
pub(crate) struct FiberRing<B> {
    seats: Box<[FiberSeat<B>]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl<B: Bell> FiberRing<B> {
    /// A ring in which fiber `i` sends to fiber `successors[i]`.
    pub(crate) fn new(successors: Vec<u32>) -> Arc<Self> {
        let seat = |_| FiberSeat { datum: AtomicU64::new(0), bell: OnceLock::new() };
        Arc::new(Self {
            seats: successors.iter().map(seat).collect(),
            successors,
            conductor: Conductor::default(),
        })
    }

    /// Runs the ring until `leader`, the part of fiber 0, ends, for `limit` at most. `spawns` gives
    /// the builder and the wait of each fiber, in turn; they suspend at so many `sites` in the
    /// code.
    pub(crate) fn run<W: Waits<FiberBell = B>>(
        self: Arc<Self>,
        runtime: &Runtime,
        mut spawns: impl FnMut(usize) -> (Builder, W),
        sites: usize,
        leader: Leader,
        limit: Duration,
    ) -> Result<RingOutcome, Failure> {
        let mut spawn = |index: usize, body: FiberBody<W>| {
            let (builder, waits) = spawns(index);
            let (waits, bell) = waits.split();
            let ring = Arc::clone(&self);
            let fiber = runtime.spawn_with(builder, move || body(&ring, index, waits))?;
            let _ = self.seats[index].bell.set(bell(fiber.fiber()));
            Ok::<_, Failure>(fiber)
        };
        let followers: Vec<_> = (1..self.seats.len()).map(|_| leader.follower()).collect();
        let leader = spawn(
            0,
            Box::new(move |ring, index, waits| {
                play::<_, _, 0>(ring, index, waits, leader).outcome()
            }),
        )?;
        for (index, follower) in (1..).zip(followers) {
            let play = self::sites::<W>()[index % sites];
            spawn(
                index,
                Box::new(move |ring, index, waits| {
                    play(ring, index, waits, follower);
                    RingOutcome::default()
                }),
            )?;
        }
        self.conductor.wait_assembled();
        self.seats[0].send(self.seats[0].bell(), START);
        let over = self.conductor.wait_over(limit);
        self.seats.iter().for_each(|seat| seat.bell().ring());
        let leader = leader.join()?;
        over.map(|()| leader)
    }
}

/// Body of a fiber.
type FiberBody<W> =
    Box<dyn FnOnce(&FiberRing<<W as Waits>::FiberBell>, usize, W) -> RingOutcome + Send>;

type Play<W> = fn(&FiberRing<<W as Waits>::FiberBell>, usize, W, Follower) -> Follower;

/// One suspending function per site.
fn sites<W: Waits>() -> [Play<W>; 16] {
    [
        play::<_, _, 0>,
        play::<_, _, 1>,
        play::<_, _, 2>,
        play::<_, _, 3>,
        play::<_, _, 4>,
        play::<_, _, 5>,
        play::<_, _, 6>,
        play::<_, _, 7>,
        play::<_, _, 8>,
        play::<_, _, 9>,
        play::<_, _, 10>,
        play::<_, _, 11>,
        play::<_, _, 12>,
        play::<_, _, 13>,
        play::<_, _, 14>,
        play::<_, _, 15>,
    ]
}

/// Passes data on until the part ends or the conductor halts.
#[inline(never)]
fn play<W: Waits, P: Part, const SITE: usize>(
    ring: &FiberRing<W::FiberBell>,
    index: usize,
    mut waits: W,
    mut part: P,
) -> P {
    distinct::<SITE>();
    let own = &ring.seats[index].datum;
    let next = &ring.seats[ring.successors[index] as usize];
    ring.conductor.arrive(ring.seats.len());
    let (mut last, mut bell) = (0, None);
    loop {
        waits.wait();
        if ring.conductor.halted() {
            return part;
        }
        // Pairs with the Release in `send`.
        let found = own.load(Ordering::Acquire);
        if found == last {
            continue;
        }
        last = found;
        // A handle of its own, on its own stack: the seat's cache line belongs to the successor.
        let bell = &*bell.get_or_insert_with(|| next.bell().clone());
        if !pass_on(&mut part, found, &ring.conductor, |datum| next.send(bell, datum)) {
            return part;
        }
    }
}

/// Keeps the functions of different sites from being merged into one.
#[inline(always)]
fn distinct<const SITE: usize>() {
    // SAFETY: the assembly is a comment without instructions.
    unsafe { std::arch::asm!("/* site {} */", const SITE, options(nomem, nostack)) };
}
