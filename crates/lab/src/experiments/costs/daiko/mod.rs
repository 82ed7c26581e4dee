//! Fibers, created by a fiber: on one worker, or in turn on as many as there are CPUs.

mod channel;
mod locks;
mod pair;

use std::{marker::PhantomData, sync::OnceLock, time::Duration};

use daiko::{
    Builder, JoinHandle, Preset, Runtime, RuntimeBuilder,
    sync::{
        Condvar, Mutex, RwLock, Semaphore,
        channel::{bounded, unbounded},
    },
};

use self::{
    channel::{across, beside},
    pair::{hops, mover},
};
use super::{
    calls,
    channel::CAPACITY,
    create::{self, Create, TOKEN},
    crowd, info,
    item::{
        CHANNEL, CREATE, CREATE_JOIN, CostMethod, FORK_JOIN, Item, JOIN, MUTEX, MUTEX_CONTENDED,
        MUTEX_LOCK, MUTEX_UNLOCK, PLACE_FOLLOW, PLACE_PAIR, RWLOCK_CONTENDED, SEMAPHORE,
        SLEEP_LATENESS, SWITCH_CONDVAR, SWITCH_MUTEX, SWITCH_SEMAPHORE, THREAD_INFO, YIELD,
    },
    locks::Pair,
    place::place_follow,
    sleep::{LONG, SHORT, Sleep, lateness},
    switch::{ByCondvar, ByMutex, BySemaphore, switch},
    threads,
    turn::yield_pair,
};
use crate::kit::{Effort, Failure, Sample, Skip, free_memory, host, processes};

pub(super) const METHOD: CostMethod = CostMethod { name: "daiko", items: &Items::<Threads>::ALL };

/// Workers are processes.
pub(super) const PROCESSES: CostMethod =
    CostMethod { name: processes::METHOD, items: &Items::<Processes>::ALL };

/// What workers are.
trait Kind: 'static {
    /// Of so many.
    fn builder(workers: usize) -> RuntimeBuilder;

    /// Whether some of their fibers are pinned while two workers run.
    fn pins() -> Result<(), Skip>;
}

/// Threads of this process.
struct Threads;

impl Kind for Threads {
    fn builder(workers: usize) -> RuntimeBuilder {
        Runtime::builder().workers(workers)
    }

    fn pins() -> Result<(), Skip> {
        pair::room()
    }
}

/// Processes forked from this one.
struct Processes;

impl Kind for Processes {
    fn builder(workers: usize) -> RuntimeBuilder {
        // SAFETY: all that fibers share is on the heap, where they wait by objects of daiko's only; `Course` has its
        // `OnceLock` set before others ask for it. They change no static, map nothing, and have nothing in a
        // thread-local across a suspension.
        unsafe { Runtime::builder().process_workers(workers) }
    }

    fn pins() -> Result<(), Skip> {
        Err(Skip::new("all fibers of processes are movers"))
    }
}

/// What fibers do on workers of kind `K`.
struct Items<K>(PhantomData<K>);

impl<K: Kind> Items<K> {
    const ALL: [Item; 29] = [
        Item::of(THREAD_INFO, |effort| run::<K>(info::thread_local, effort)).with("of", "tls"),
        Item::of(THREAD_INFO, |effort| run::<K>(current, effort)).with("of", "current"),
        Item::of(MUTEX, |effort| run::<K>(calls::mutex::<Mutex<u64>>, effort)),
        Item::of(MUTEX_LOCK, |effort| run::<K>(calls::mutex_lock::<Mutex<u64>>, effort)),
        Item::of(MUTEX_UNLOCK, |effort| run::<K>(calls::mutex_unlock::<Mutex<u64>>, effort)),
        Item::of(SEMAPHORE, |effort| run::<K>(calls::semaphore::<Semaphore>, effort)),
        Item::of(SWITCH_MUTEX, |effort| run::<K>(switch::<Fibers, ByMutex<Mutex<u64>>>, effort)),
        Item::of(SWITCH_SEMAPHORE, |effort| {
            run::<K>(switch::<Fibers, BySemaphore<Semaphore>>, effort)
        }),
        Item::of(SWITCH_CONDVAR, |effort| {
            run::<K>(switch::<Fibers, ByCondvar<Mutex<u64>, Condvar>>, effort)
        }),
        Item::of(CREATE, |effort| run::<K>(|effort| create::create(&Fibers, effort), effort)),
        Item::of(JOIN, |effort| run::<K>(|effort| create::join(&Fibers, effort), effort)),
        Item::of(CREATE_JOIN, |effort| {
            run::<K>(|effort| create::create_join(&Fibers, effort), effort)
        }),
        Item::of(FORK_JOIN, |effort| run::<K>(|effort| create::fork_join(&Fibers, effort), effort)),
        Item::of(YIELD, |effort| run::<K>(yield_pair::<Fibers>, effort)),
        Item::of_many(MUTEX_CONTENDED, |threads, effort| {
            run_on::<K, _>(cpus(), move || crowd::mutex::<Spread, Mutex<u64>>(threads, effort))
        }),
        Item::of_many(RWLOCK_CONTENDED, |threads, effort| {
            run_on::<K, _>(cpus(), move || crowd::rwlock::<Spread, RwLock<Pair>>(threads, effort))
        }),
        Item::of(CHANNEL, |effort| beside::<K>(|| bounded(0), effort))
            .with("kind", "rendezvous")
            .with("workers", "1"),
        Item::of(CHANNEL, |effort| beside::<K>(|| bounded(CAPACITY), effort))
            .with("kind", "bounded")
            .with("workers", "1"),
        Item::of(CHANNEL, |effort| beside::<K>(unbounded, effort))
            .with("kind", "unbounded")
            .with("workers", "1"),
        Item::of(CHANNEL, |effort| across::<K>(|| bounded(0), effort)).with("kind", "rendezvous"),
        Item::of(CHANNEL, |effort| across::<K>(|| bounded(CAPACITY), effort))
            .with("kind", "bounded"),
        Item::of(CHANNEL, |effort| across::<K>(unbounded, effort)).with("kind", "unbounded"),
        Item::of_sleeps(SLEEP_LATENESS, room_to_poll, |timers, effort| {
            sleeps::<K>(SHORT, timers, effort)
        })
        .with("state", "polling"),
        Item::of_sleeps(SLEEP_LATENESS, free_memory::room_for_fibers, |timers, effort| {
            sleeps::<K>(LONG, timers, effort)
        })
        .with("state", "parked"),
        Item::of(PLACE_FOLLOW, place_follow),
        Self::pair("pinned", "on", |effort| hops::<K>(Builder::new, true, effort)).given(K::pins),
        Self::pair("pinned", "off", |effort| hops::<K>(Builder::new, false, effort)).given(K::pins),
        Self::pair("mover", "on", |effort| hops::<K>(mover, true, effort)).given(pair::room),
        Self::pair("mover", "off", |effort| hops::<K>(mover, false, effort)).given(pair::room),
    ];

    const fn pair(
        fiber: &'static str,
        pairing: &'static str,
        run: fn(Effort) -> Result<Sample, Failure>,
    ) -> Item {
        Item::of(PLACE_PAIR, run).with("fiber", fiber).with("pairing", pairing)
    }
}

/// Runs `body` in a fiber, on one worker.
fn run<K: Kind>(
    body: fn(Effort) -> Result<Sample, Failure>,
    effort: Effort,
) -> Result<Sample, Failure> {
    run_on::<K, _>(1, move || body(effort))
}

/// Runs `body` in a fiber, on so many workers.
fn run_on<K: Kind, T: Send + 'static>(
    workers: usize,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    run_in(K::builder(workers), body)
}

/// The CPUs of this process. Asked first outside of a runtime: its workers are bound to one each.
fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(host::cpus)
}

/// Runs `body` in a fiber of that runtime.
fn run_in<T: Send + 'static>(
    builder: RuntimeBuilder,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    builder.build()?.run(body)
}

/// Sleeps under the preset that is the default where there is no CPU quota.
fn sleeps<K: Kind>(length: Duration, timers: usize, effort: Effort) -> Result<Sample, Failure> {
    let builder = K::builder(1).preset(Preset::Balanced);
    run_in(builder, move || lateness::<Fibers, Fibers>(length, timers, effort))
}

/// Whether agents poll, and so many fibers may wait meanwhile.
fn room_to_poll(timers: usize) -> Result<(), Skip> {
    if host::cpus() < 2 {
        return Err(Skip::new("agents poll where two CPUs or more are allowed"));
    }
    free_memory::room_for_fibers(timers)
}

/// The fiber itself, by a handle.
fn current(effort: Effort) -> Result<Sample, Failure> {
    let own = daiko::current();
    info::ask(effort, || daiko::current() == own)
}

/// Fibers, for those that are one.
struct Fibers;

impl Create for Fibers {
    type Thread = JoinHandle<u64>;

    #[inline]
    fn create(&self, _: usize, _: usize) -> Result<JoinHandle<u64>, Failure> {
        Builder::new().spawn(|| TOKEN).map_err(Failure::from)
    }

    fn run(&self, threads: &[JoinHandle<u64>]) {
        while !threads.iter().all(JoinHandle::is_finished) {
            daiko::yield_now();
        }
    }

    #[inline]
    fn join(thread: JoinHandle<u64>) -> Result<u64, Failure> {
        thread.join().map_err(Failure::from)
    }
}

impl threads::Threads for Fibers {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        _: usize,
        _: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        Builder::new().spawn(body).map_err(Failure::from)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        thread.join().map_err(Failure::from)
    }

    /// Inlined, so that all who yield do so in places of their own.
    #[inline(always)]
    fn yield_now() {
        daiko::yield_now();
    }
}

impl Sleep for Fibers {
    type Semaphore = Semaphore;

    fn sleep(length: Duration, _: u64) {
        daiko::time::sleep(length);
    }
}

/// Fibers that are spread over the workers of the caller's runtime, of which there
/// are as many as CPUs.
struct Spread;

impl threads::Threads for Spread {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        index: usize,
        _: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        Builder::new().on(index % cpus()).spawn(body).map_err(Failure::from)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        thread.join().map_err(Failure::from)
    }

    #[inline(always)]
    fn yield_now() {
        daiko::yield_now();
    }
}
