//! Rings of Daiko's fibers.

use daiko::watch::{NotificationArea, Slot};
use daiko::{Builder, Fiber, Preset, Runtime, RuntimeBuilder};

use super::{Layout, Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::ring::fibers::{Bell, FiberRing, Parking, Waits};
use crate::kit::ring::part::Leader;
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
        if let Some(kib) = spec.stack_kib {
            builder = builder.stack_size(kib << 10);
        }
        // A layout says which hops cross from one CPU to another.
        let runtime = builder.bind(true).build()?;
        match self.wait {
            FiberWait::Park => run_ring(&runtime, spec, self.kind, |_| Parking),
            FiberWait::Watch => {
                let mut slots = watches(&runtime, spec);
                run_ring(&runtime, spec, self.kind, |index| {
                    slots[index].take().expect("every fiber has a slot of its own")
                })
            }
        }
    }
}

fn is_free(spec: &RingSpec) -> bool {
    matches!(spec.layout, None | Some(Layout::Free))
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

fn run_ring<W: Waits>(
    runtime: &Runtime,
    spec: &RingSpec,
    kind: FiberKind,
    mut waits: impl FnMut(usize) -> W,
) -> Result<RingOutcome, Failure> {
    let workers = workers(spec);
    let spawns = |index| (builder(workers[index], kind), waits(index));
    let (ring, leader) = (FiberRing::new(spec.successors()), Leader::new(spec.laps));
    ring.run(runtime, spawns, spec.sites, leader, spec.limit)
}

/// Builder of a fiber on `worker`; with `None`, the runtime chooses.
fn builder(worker: Option<usize>, kind: FiberKind) -> Builder {
    // SAFETY: a `FiberRing` uses no thread-local but those of the runtime and the allocator.
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
