//! Fibers, created by a fiber on one worker, or round-robin on one worker per CPU.

mod channel;
mod fibers;
mod locks;
mod pair;
mod stuck;

use std::marker::PhantomData;
use std::time::Duration;

use daiko::sync::channel::{bounded, unbounded};
use daiko::sync::{Condvar, Mutex, RwLock, Semaphore};
use daiko::{Builder, Preset};

use self::channel::{across, beside};
use self::fibers::{
    BorrowedMovers, Fibers, Lenders, Movers, Processes, Spread, Threads, Workers, cpus, room, run,
    run_in, run_on,
};
use self::pair::hops;
use self::stuck::beside_stuck;
use super::channel::CAPACITY;
use super::item::{CostMethod, Item, SampleBody};
use super::locks::Pair;
use super::place::place_follow;
use super::sleep::{PARKED, POLLING, lateness};
use super::{blocking, crowd, info};
use crate::kit::{Effort, Failure, Sample, Skip, free_memory, host, processes};

pub(super) const METHOD: CostMethod = CostMethod::new("daiko", Items::<Threads>::ALL);

/// The same items, with fibers that borrow their thread-locals.
pub(super) const BORROWED: CostMethod = CostMethod::new("daiko-borrowed", Items::<Lenders>::ALL);

/// The items of one worker, with fibers that have thread-locals of their own and may move.
pub(super) const MOVERS: CostMethod = CostMethod::new("daiko-own-mover", Items::<Movers>::ON_ONE);

/// The items of one worker, with fibers that borrow their thread-locals and may move.
pub(super) const BORROWED_MOVERS: CostMethod =
    CostMethod::new("daiko-borrowed-mover", Items::<BorrowedMovers>::ON_ONE);

/// The same items, with processes as workers.
pub(super) const PROCESSES: CostMethod =
    CostMethod::new(processes::METHOD, Items::<Processes>::ALL);

/// Items measured with workers of kind `W`.
struct Items<W>(PhantomData<W>);

impl<W: Workers> Items<W> {
    const ALL: &[&[Item]] = &[
        &blocking::locks::<Fibers, Mutex<u64>, Condvar>(run::<W>),
        &blocking::semaphores::<Fibers, Semaphore>(run::<W>),
        &blocking::threads::<Fibers, Fibers>(run::<W>),
        &Self::INFO,
        &Self::OWN,
    ];

    const ON_ONE: &[&[Item]] = &[
        &blocking::locks::<W::Fibers, Mutex<u64>, Condvar>(run::<W>),
        &blocking::semaphores::<W::Fibers, Semaphore>(run::<W>),
        &blocking::threads::<W::Fibers, W::Fibers>(run::<W>),
        &Self::INFO,
    ];

    const INFO: [Item; 2] = [
        Item::within(run::<W>, "thread-info", info::thread_local).with("of", "tls"),
        Item::within(run::<W>, "thread-info", current).with("of", "current"),
    ];

    const OWN: [Item; 16] = [
        Item::of_many("mutex-contended", |threads, effort| {
            run_on::<W, _>(cpus(), move || crowd::mutex::<Spread, Mutex<u64>>(threads, effort))
        }),
        Item::of_many("rwlock-contended", |threads, effort| {
            run_on::<W, _>(cpus(), move || crowd::rwlock::<Spread, RwLock<Pair>>(threads, effort))
        }),
        Self::beside("rendezvous", |effort| beside::<W>(|| bounded(0), effort)),
        Self::beside("bounded", |effort| beside::<W>(|| bounded(CAPACITY), effort)),
        Self::beside("unbounded", |effort| beside::<W>(unbounded, effort)),
        Self::channel("rendezvous", |effort| across::<W>(|| bounded(0), effort)),
        Self::channel("bounded", |effort| across::<W>(|| bounded(CAPACITY), effort)),
        Self::channel("unbounded", |effort| across::<W>(unbounded, effort)),
        Item::of_sleeps(POLLING, room_to_poll, sleeps::<W>),
        Item::of_sleeps(PARKED, free_memory::room_for_fibers, sleeps::<W>),
        Item::of("place-follow", place_follow),
        Item::of("place-stuck", beside_stuck::<W>).given(room),
        Self::pair("pinned", "on", |effort| hops::<W>(Builder::new, true, effort)).given(W::pins),
        Self::pair("pinned", "off", |effort| hops::<W>(Builder::new, false, effort)).given(W::pins),
        Self::pair("mover", "on", |effort| hops::<W>(W::mover, true, effort)).given(room),
        Self::pair("mover", "off", |effort| hops::<W>(W::mover, false, effort)).given(room),
    ];

    const fn channel(kind: &'static str, body: SampleBody) -> Item {
        Item::of("channel", body).with("kind", kind)
    }

    const fn beside(kind: &'static str, body: SampleBody) -> Item {
        Self::channel(kind, body).with("workers", "1")
    }

    const fn pair(fiber: &'static str, pairing: &'static str, body: SampleBody) -> Item {
        Item::of("place-pair", body).with("fiber", fiber).with("pairing", pairing)
    }
}

/// Measures sleeps under the preset that is the default without a CPU quota.
fn sleeps<W: Workers>(length: Duration, timers: usize, effort: Effort) -> Result<Sample, Failure> {
    let builder = W::builder(1).preset(Preset::Balanced);
    run_in(builder, move || lateness::<Fibers, Fibers>(length, timers, effort))
}

/// Fails with the reason to skip unless agents poll and memory suffices for this many waiting
/// fibers.
fn room_to_poll(timers: usize) -> Result<(), Skip> {
    if host::cpus() < 2 {
        return Err(Skip::new("agents poll where two CPUs or more are allowed"));
    }
    free_memory::room_for_fibers(timers)
}

/// Measures how long a fiber takes to get a handle to itself.
fn current(effort: Effort) -> Result<Sample, Failure> {
    let own = daiko::current();
    info::ask(effort, || daiko::current() == own)
}
