//! The graph of waits in an idle runtime.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::Location;
use std::ptr;

use daiko_core::fiber::Owner;
use daiko_core::inspect::cycles;
use daiko_sys::thread;

use super::held::{self, Who};
use super::report::{Awaited, Deadlock, Holder, WaitingFiber};
use super::target::{WaitKind, WaitTarget};
use crate::call::InCall;
use crate::fiber::ControlBlock;
use crate::runtime::RuntimeInner;

/// Maximum number of groups of like fibers that are listed besides the fibers of cycles.
const MOST_GROUPS: usize = 64;

/// The fibers of a runtime, all of which are suspended.
pub(super) struct Search<'r> {
    runtime: &'r RuntimeInner,
    fibers: Vec<(&'r ControlBlock, WaitTarget)>,
    /// The position in `fibers` of each fiber, by its id.
    index: HashMap<usize, usize>,
}

fn id(fiber: &ControlBlock) -> usize {
    ptr::from_ref(fiber).addr()
}

impl<'r> Search<'r> {
    /// Collects the fibers. Returns `None` if a fiber can go on.
    pub(super) fn of(runtime: &'r RuntimeInner) -> Option<Self> {
        let (mut fibers, mut all_wait) = (Vec::new(), true);
        runtime.pool.for_each(InCall::off_fibers(), |fiber| {
            if fiber.is_used() && matches!(fiber.owner.load(), Owner::Worker(_)) {
                all_wait &= fiber.state.is_suspended();
                fibers.push((fiber, fiber.wait_target()));
            }
        });
        let index = fibers.iter().enumerate().map(|(at, (fiber, _))| (id(fiber), at)).collect();
        all_wait.then_some(Search { runtime, fibers, index })
    }

    /// Returns true if each fiber waits for an event that only fibers and threads of this process
    /// can bring.
    pub(super) fn all_wait_for_others(&self) -> bool {
        self.fibers.iter().all(|(_, target)| !target.kind.comes_by_itself())
    }

    /// Returns the cycles: each fiber waits for the next, and the last for the first.
    pub(super) fn cycles(&self) -> Vec<Vec<usize>> {
        let awaited = |(_, target): &(_, WaitTarget)| match holder(*target) {
            Some((Who::Fiber(id), _)) => self.index.get(&id).copied(),
            _ => None,
        };
        cycles(&self.fibers.iter().map(awaited).collect::<Vec<_>>())
    }

    /// Makes the report. Returns `None` if a fiber has gone on meanwhile.
    pub(super) fn report(&self, cycles: &[Vec<usize>], other_threads: usize) -> Option<Deadlock> {
        let in_cycles = cycles.concat();
        let ends = cycles.iter().scan(0, |end, cycle| {
            let start = *end;
            *end += cycle.len();
            Some(start..*end)
        });
        let mut in_cycle = vec![false; self.fibers.len()];
        in_cycles.iter().for_each(|&at| in_cycle[at] = true);
        let groups = self.groups((0..self.fibers.len()).filter(|&at| !in_cycle[at]))?;
        let listed = in_cycles.iter().map(|&at| (at, 0));
        let listed = listed.chain(groups.into_iter().take(MOST_GROUPS));
        let fibers: Vec<_> =
            listed.map(|(at, alike)| self.fiber(at, alike)).collect::<Option<_>>()?;
        let unlisted = self.fibers.len() - fibers.iter().map(WaitingFiber::count).sum::<usize>();
        Some(Deadlock { fibers, cycles: ends.collect(), unlisted, other_threads })
    }

    /// Groups fibers that were spawned at one location and wait for one target: the first of each
    /// group, and the number of its other fibers. Returns `None` if a fiber has gone on meanwhile.
    fn groups(&self, fibers: impl Iterator<Item = usize>) -> Option<Vec<(usize, usize)>> {
        let (mut groups, mut known) = (Vec::new(), HashMap::new());
        for at in fibers {
            let (fiber, target) = self.fibers[at];
            let (_, spawned_at) = self.read_spawn_record(fiber)?;
            match known.entry((spawned_at, target)) {
                Entry::Vacant(place) => {
                    place.insert(groups.len());
                    groups.push((at, 0));
                }
                Entry::Occupied(place) => groups[*place.get()].1 += 1,
            }
        }
        Some(groups)
    }

    fn fiber(&self, at: usize, alike: usize) -> Option<WaitingFiber> {
        let (fiber, target) = self.fibers[at];
        let (name, spawned_at) = self.read_spawn_record(fiber)?;
        let waits_for = self.awaited(target);
        Some(WaitingFiber { id: id(fiber), name, spawned_at, waits_for, alike })
    }

    fn awaited(&self, target: WaitTarget) -> Awaited {
        let held_by = holder(target).map(|(owner, locked_at)| match owner {
            Who::Fiber(id) => Holder { fiber: Some(id), name: self.name_of(id), locked_at },
            Who::Thread(id) => Holder { fiber: None, name: thread::name_of(id), locked_at },
        });
        let address = (target.address != 0).then_some(target.address);
        Awaited { kind: target.kind.name(), address, held_by }
    }

    fn name_of(&self, id: usize) -> Option<String> {
        let (fiber, _) = self.fibers[*self.index.get(&id)?];
        self.read_spawn_record(fiber)?.0
    }

    fn read_spawn_record(
        &self,
        fiber: &ControlBlock,
    ) -> Option<(Option<String>, &'static Location<'static>)> {
        let Owner::Worker(worker) = fiber.owner.load() else { return None };
        // SAFETY: workers live as long as their runtime.
        self.runtime.read_spawn_record(unsafe { &*worker }, fiber)
    }
}

/// Returns the holder of the target, and the source location that locked it, if known.
fn holder(target: WaitTarget) -> Option<(Who, Option<&'static Location<'static>>)> {
    match target.kind {
        WaitKind::Join => Some((Who::Fiber(target.address), None)),
        WaitKind::Mutex | WaitKind::RwLock | WaitKind::Once => {
            held::holder(target.address).map(|held| (held.by, Some(held.at)))
        }
        _ => None,
    }
}
