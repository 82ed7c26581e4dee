//! Rings of Daiko's fibers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use daiko::watch::{NotificationArea, Slot};
use daiko::{Builder, Fiber, Preset, Runtime, RuntimeBuilder};

use super::kernel::harness::Conductor;
use super::kernel::harness::part::{Follower, Leader, Part, START, pass_on};
use super::{Layout, Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::{Failure, FiberKind, Skip, host, processes};

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Method> {
    let fibers = [
        Fibers::new("daiko", FiberKind::Default),
        Fibers::new("daiko-borrowed", FiberKind::Borrowed),
        Fibers::new("daiko-borrowed-mover", FiberKind::BorrowedMover),
        Fibers {
            membarrier: false,
            ..Fibers::new("daiko-borrowed-mover-rmw", FiberKind::BorrowedMover)
        },
        Fibers::new("daiko-own", FiberKind::Own),
        Fibers::new("daiko-own-mover", FiberKind::OwnMover),
        Fibers { processes: true, ..Fibers::new(processes::METHOD, FiberKind::BorrowedMover) },
        Fibers { wait: FiberWait::Watch, ..Fibers::new("daiko-watch", FiberKind::Default) },
        Fibers {
            wait: FiberWait::Watch,
            as_p1: true,
            ..Fibers::new("daiko-watch-p1", FiberKind::OwnMover)
        },
    ];
    fibers.map(Fibers::method).into()
}

/// The way in which a fiber waits for its datum.
#[derive(Clone, Copy)]
enum FiberWait {
    /// Parks; its predecessor unparks it.
    Park,
    /// Waits at a slot of a notification area, into which its predecessor stores.
    Watch,
}

/// A ring of fibers.
#[derive(Clone, Copy)]
struct Fibers {
    name: &'static str,
    kind: FiberKind,
    wait: FiberWait,
    /// Whether thieves pay for the barriers. Without the `membarrier` call, the owner of a LIFO
    /// slot pays.
    membarrier: bool,
    /// Whether workers are processes.
    processes: bool,
    /// Configured as in the paper: as many workers as CPUs, any agent resumes any fiber, and one
    /// agent polls at a time while the other agents spin for its lock.
    as_p1: bool,
}

impl Fibers {
    /// Fibers that park.
    const fn new(name: &'static str, kind: FiberKind) -> Self {
        Self { name, kind, wait: FiberWait::Park, membarrier: true, processes: false, as_p1: false }
    }

    fn workers(&self, count: usize) -> RuntimeBuilder {
        if self.processes {
            // SAFETY: all data that fibers share is in the `FiberRing`, on the heap: it holds no
            // blocking object of `std` and nothing of a thread's frame. They change no static and
            // map no memory.
            unsafe { Runtime::builder().process_workers(count) }
        } else {
            Runtime::builder().workers(count)
        }
    }

    fn method(self) -> Method {
        let method = Method::new(self.name, self.varied(), move |spec| self.run(spec));
        Method { supports: Box::new(move |spec| self.supports(spec)), ..method }
    }

    fn varied(&self) -> VariedParameters {
        if self.kind.is_own() { VariedParameters::DaikoOwn } else { VariedParameters::Daiko }
    }

    fn supports(&self, spec: &RingSpec) -> Result<(), Skip> {
        let asked = (spec.workers, spec.sites);
        if self.as_p1 && (asked != (host::cpus(), 1) || !is_free(spec)) {
            return Err(Skip::new("P1 has one worker for each CPU, and no layout"));
        }
        processes::supports(self.name)
    }

    fn run(&self, spec: &RingSpec) -> Result<RingOutcome, Failure> {
        let mut builder = self.workers(spec.workers).fallbacks(None, self.membarrier);
        if self.as_p1 {
            builder = builder.any_agent(true).preset(Preset::Latency);
        }
        // A layout says which hops cross from one CPU to another.
        let runtime = builder.bind(true).build()?;
        match self.wait {
            FiberWait::Park => FiberRing::new(spec).run(&runtime, spec, self.kind, |_| Parking),
            FiberWait::Watch => {
                let mut slots = watches(&runtime, spec);
                FiberRing::new(spec).run(&runtime, spec, self.kind, |index| {
                    slots[index].take().expect("every fiber has a slot of its own")
                })
            }
        }
    }
}

fn is_free(spec: &RingSpec) -> bool {
    matches!(spec.layout, None | Some(Layout::Free))
}

/// The receiving end of a fiber's wait.
trait Waits: Send + 'static {
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
trait Bell: Clone + Send + Sync + 'static {
    fn ring(&self);
}

struct Parking;

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

struct Watching {
    slot: Slot,
    area: NotificationArea,
}

impl Waits for Watching {
    type FiberBell = (NotificationArea, usize);

    fn split(self) -> (Self, impl FnOnce(&Fiber) -> Self::FiberBell) {
        let bell = (self.area.clone(), self.slot.index());
        (self, |_: &Fiber| bell)
    }

    #[inline]
    fn wait(&mut self) {
        // The fiber itself holds the area, so it is never closed.
        let _ = self.slot.wait();
    }
}

impl Bell for (NotificationArea, usize) {
    #[inline]
    fn ring(&self) {
        self.0.notify(self.1);
    }
}

/// Creates a slot for each fiber, in an area that the agent of the fiber's own worker scans.
fn watches(runtime: &Runtime, spec: &RingSpec) -> Vec<Option<Watching>> {
    let workers = workers(spec);
    let mut slots: Vec<Option<Watching>> = (0..spec.threads).map(|_| None).collect();
    for worker in 0..spec.workers {
        let here = |&index: &usize| workers[index].unwrap_or(0) == worker;
        let fibers: Vec<usize> = (0..spec.threads).filter(here).collect();
        let len = fibers.len();
        let area = runtime
            .spawn_with(Builder::new().on(worker), move || NotificationArea::new(len))
            .expect("a fiber per worker");
        let (area, own) = area.join().expect("an area is made");
        for (index, slot) in fibers.into_iter().zip(own) {
            slots[index] = Some(Watching { slot, area: area.clone() });
        }
    }
    slots
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

struct FiberRing<B> {
    seats: Box<[FiberSeat<B>]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl<B: Bell> FiberRing<B> {
    fn new(spec: &RingSpec) -> Arc<Self> {
        let seat = |_| FiberSeat { datum: AtomicU64::new(0), bell: OnceLock::new() };
        Arc::new(Self {
            seats: (0..spec.threads).map(seat).collect(),
            successors: spec.successors(),
            conductor: Conductor::default(),
        })
    }

    fn run<W: Waits<FiberBell = B>>(
        self: Arc<Self>,
        runtime: &Runtime,
        spec: &RingSpec,
        kind: FiberKind,
        mut waits: impl FnMut(usize) -> W,
    ) -> Result<RingOutcome, Failure> {
        let mut builders = workers(spec).into_iter().map(|worker| builder(worker, kind));
        let mut spawn = |index: usize, body: FiberBody<W>| {
            let (waits, bell) = waits(index).split();
            let ring = Arc::clone(&self);
            let builder = builders.next().expect("a builder for each thread");
            let fiber = runtime.spawn_with(builder, move || body(&ring, index, waits))?;
            let _ = self.seats[index].bell.set(bell(fiber.fiber()));
            Ok::<_, Failure>(fiber)
        };
        let laps = spec.laps;
        let leader = spawn(
            0,
            Box::new(move |ring, index, waits| {
                play::<_, _, 0>(ring, index, waits, Leader::new(laps)).outcome()
            }),
        )?;
        for index in 1..spec.threads {
            let play = sites::<W>()[index % spec.sites];
            spawn(
                index,
                Box::new(move |ring, index, waits| {
                    play(ring, index, waits, Follower::new(laps));
                    RingOutcome::default()
                }),
            )?;
        }
        self.conductor.wait_assembled();
        self.seats[0].send(self.seats[0].bell(), START);
        let over = self.conductor.wait_over(spec.limit);
        self.seats.iter().for_each(|seat| seat.bell().ring());
        let leader = leader.join()?;
        over.map(|()| leader)
    }
}

/// Body of a fiber.
type FiberBody<W> =
    Box<dyn FnOnce(&FiberRing<<W as Waits>::FiberBell>, usize, W) -> RingOutcome + Send>;

/// Builder of a fiber on `worker`; with `None`, the runtime chooses.
fn builder(worker: Option<usize>, kind: FiberKind) -> Builder {
    // SAFETY: `play` uses no thread-local but those of the runtime and the allocator.
    let builder = unsafe { kind.builder() };
    match worker {
        Some(worker) => builder.on(worker),
        None => builder,
    }
}

/// The worker of each fiber; with `None`, the runtime chooses.
fn workers(spec: &RingSpec) -> Vec<Option<usize>> {
    let positions = spec.positions();
    let worker = |position: u32| match spec.layout {
        Some(Layout::Half) => Some(position as usize * spec.workers / spec.threads),
        Some(Layout::Cross) => Some(position as usize % spec.workers),
        Some(Layout::Free) | None => None,
    };
    positions.into_iter().map(worker).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ring::kernel::harness::testing::ring;

    #[test]
    fn every_layout_completes_its_laps() {
        for method in methods().iter().filter(|method| method.name != processes::METHOD) {
            for threads in [2, 3, 10, 100] {
                let one = ring(threads, 20);
                assert_eq!((method.run)(&one).unwrap().laps, 20, "{}", method.name);
                assert_eq!((method.run)(&RingSpec { sites: 16, ..one }).unwrap().laps, 20);
                for layout in [Layout::Half, Layout::Cross, Layout::Free] {
                    let two = RingSpec { workers: 2, layout: Some(layout), ..one };
                    assert_eq!((method.run)(&two).unwrap().laps, 20, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn every_hop_crosses_in_layout_cross() {
        let spec = RingSpec { workers: 2, layout: Some(Layout::Cross), ..ring(10, 1) };
        let (workers, successors) = (workers(&spec), spec.successors());
        for thread in 0..10 {
            assert_ne!(workers[thread], workers[successors[thread] as usize]);
        }
    }
}
