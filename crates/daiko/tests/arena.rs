//! All objects of a runtime come from its arena. In steady state nothing else allocates.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use daiko::agent;
use daiko::watch::{self, NotificationArea, Slot, at_least};
use daiko::{Builder, JoinHandle, Runtime, SpawnError, StackError};
use daiko_sys::arena::Arena;
use daiko_sys::memory::MemoryError;
use support::{Drops, PRESETS, end, migratable, run_on, scenarios, small_stack};

/// A kernel thread, a worker. Thread-locals would belong to its fibers.
struct Thread {
    /// Its id in the kernel; 0: the entry is free.
    id: AtomicU32,
    /// True while it must not use the global allocator.
    steady: AtomicBool,
    /// The number of times that it used the allocator all the same.
    strays: AtomicUsize,
}

impl Thread {
    const fn new() -> Self {
        Thread {
            id: AtomicU32::new(0),
            steady: AtomicBool::new(false),
            strays: AtomicUsize::new(0),
        }
    }

    /// Returns the entry of thread `id`, if it has one.
    fn find(id: u32) -> Option<&'static Self> {
        THREADS.iter().find(|thread| thread.id.load(Ordering::Relaxed) == id)
    }

    /// Returns the entry of the calling thread.
    fn current() -> &'static Self {
        let id = daiko_sys::thread::id();
        let free = |thread: &&Self| {
            thread.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self::find(id).or_else(|| THREADS.iter().find(free)).expect("an entry for each worker")
    }
}

static THREADS: [Thread; 256] = [const { Thread::new() }; 256];
/// Number of threads that must not use the global allocator.
static STEADY: AtomicUsize = AtomicUsize::new(0);

struct Watched;

fn note() {
    if STEADY.load(Ordering::Relaxed) != 0
        && let Some(thread) = Thread::find(daiko_sys::thread::id())
        && thread.steady.load(Ordering::Relaxed)
    {
        thread.strays.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: `System` does all the work; the count allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

#[test]
fn a_runtime_works_in_shared_memory() {
    scenarios::all(|| Runtime::builder().arena(Arena::shared(1 << 30).unwrap()));
}

#[test]
fn a_reservation_that_is_used_up_is_an_error_and_nothing_leaks() {
    let stack = small_stack(64 << 10);
    let arena = Arena::shared(384 * stack).unwrap();
    run_on(Runtime::builder().stack_size(stack).workers(1).arena(arena), || {
        let first = fill_up();
        assert!(first > 100);
        for _ in 0..3 {
            assert_eq!(fill_up(), first, "the memory of ended fibers is used again");
        }
    });
}

/// Spawns as many fibers as there is room for, ends them, and returns their number.
fn fill_up() -> usize {
    let drops = Drops::default();
    let mut parked: Vec<JoinHandle<()>> = Vec::new();
    let error = loop {
        let token = drops.token();
        let body = move || {
            let _token = token;
            daiko::park();
        };
        match Builder::new().spawn(body) {
            Ok(handle) => parked.push(handle),
            Err(error) => break error,
        }
    };
    let SpawnError::Stack(StackError::Memory(MemoryError::Reservation { .. })) = error else {
        panic!("{error:?}")
    };
    assert_eq!(drops.dropped(), 1, "the closure that was refused");
    let count = parked.len();
    for handle in parked {
        handle.fiber().unpark();
        handle.join().unwrap();
    }
    drops.assert_all();
    count
}

#[test]
fn a_runtime_that_does_not_fit_is_an_error() {
    let arena = Arena::shared(4096).unwrap();
    let error = Runtime::builder().workers(512).arena(arena).build().unwrap_err();
    assert!(matches!(error, daiko::BuildError::Memory(_)), "{error:?}");
}

#[test]
fn workers_allocate_nothing_in_steady_state() {
    for membarrier in [true, false] {
        for workers in 1..=2 {
            for preset in PRESETS {
                let builder = Runtime::builder().workers(workers).preset(preset);
                let runtime = builder.fallbacks(None, membarrier).build().unwrap();
                let poller = runtime.run(|| agent::register(|| 0));
                let (area, mut slots) = runtime.run(|| NotificationArea::<u64>::new(1));
                let mut slot = slots.remove(0);
                for round in 0..30 {
                    set_steady(&runtime, round >= 10);
                    let area = area.clone();
                    slot = runtime.run(move || work(&area, slot));
                }
                set_steady(&runtime, false);
                assert_eq!(strays(&runtime), 0, "membarrier {membarrier}, {workers}, {preset:?}");
                drop((slot, poller));
                end(runtime);
            }
        }
    }
}

/// The work of a fiber in steady state, which allocates nothing itself.
fn work(area: &NotificationArea<u64>, slot: Slot<u64>) -> Slot<u64> {
    static MARK: AtomicU64 = AtomicU64::new(0);
    daiko::fiber_local!(static OWN: Cell<u64> = const { Cell::new(0) });
    let mark = MARK.load(Ordering::Relaxed) + 1;
    let fibers: [JoinHandle<()>; 40] = std::array::from_fn(|i| {
        let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
        let body = move || match i % 5 {
            0 => drop(watch::wait_until(&MARK, at_least(mark))),
            1 => drop(watch::wait_until_notified(&MARK, at_least(mark))),
            2 => daiko::spawn(daiko::yield_now).join().unwrap(),
            _ => {
                daiko::yield_now();
                daiko::park();
            }
        };
        builder.spawn(body).unwrap()
    });
    let borrowed = AtomicU64::new(0);
    daiko::scope(|s| {
        s.spawn(|| {
            OWN.set(mark);
            daiko::yield_now();
            borrowed.store(OWN.get(), Ordering::Relaxed);
        });
    });
    assert_eq!(borrowed.into_inner(), mark);
    let mut slot = slot;
    let waiter = daiko::spawn(move || {
        slot.wait().unwrap();
        slot
    });
    daiko::yield_now();
    area.notify(0);
    MARK.store(mark, Ordering::Release);
    watch::notify(&MARK);
    for fiber in fibers {
        fiber.fiber().unpark();
        fiber.join().unwrap();
    }
    waiter.join().unwrap()
}

fn on_each<T: Send + 'static>(
    runtime: &Runtime,
    f: impl Fn() -> T + Copy + Send + 'static,
) -> Vec<T> {
    let spawn = |worker| runtime.spawn_with(Builder::new().on(worker), f).unwrap();
    (0..runtime.workers()).map(|worker| spawn(worker).join().unwrap()).collect()
}

fn set_steady(runtime: &Runtime, steady: bool) {
    let set = |steady| {
        let thread = Thread::current();
        match (thread.steady.swap(steady, Ordering::Relaxed), steady) {
            (false, true) => _ = STEADY.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = STEADY.fetch_sub(1, Ordering::Relaxed),
            _same => {}
        }
    };
    on_each(runtime, move || set(steady));
}

fn strays(runtime: &Runtime) -> usize {
    on_each(runtime, || Thread::current().strays.swap(0, Ordering::Relaxed)).into_iter().sum()
}

#[test]
fn a_stray_allocation_is_seen() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    set_steady(&runtime, true);
    on_each(&runtime, || drop(std::hint::black_box(Box::new(7))));
    set_steady(&runtime, false);
    assert_eq!(strays(&runtime), 4, "an allocation and its end on each worker");
    end(runtime);
}
