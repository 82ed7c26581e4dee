//! The start of a runtime: its memory, its workers, its monitor.

use std::alloc::Layout;
use std::io;
use std::sync::{Mutex, OnceLock};

use daiko_core::governor::{Governor, Preset};
use daiko_core::hazard::Hazard;
use daiko_core::idle::{self, IdleSet};
use daiko_core::injector::Injector;
use daiko_home::Blocks;
use daiko_sys::arena::Arena;
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::environment;
use daiko_sys::generation::Generation;
use daiko_sys::lock::Tally;
use daiko_sys::memory::GuardKind;
use daiko_sys::selector;
use daiko_sys::user_wait::UserWait;

use super::affinity::Affinity;
use super::barriers::Barriers;
use super::build_error::{BuildError, MAX_WORKERS, RefusedCall};
use super::builder::RuntimeBuilder;
use super::pool::Pool;
use super::{Runtime, RuntimeInner, RuntimeOptions, SharedPtr, phase, stack_size};
use crate::atomic::{AtomicBool, AtomicU32};
use crate::deadlock;
use crate::dump;
use crate::fiber::{self, Kind};
use crate::inspect;
use crate::jobs::BlockingPool;
use crate::monitor::Monitor;
use crate::monitor::active::{ActiveLooks, Cpus};
use crate::overflow;
use crate::placement::{Pairing, Placement, Steering};
use crate::process;
use crate::process::process_table::ProcessTable;
use crate::process::worker_processes::WorkerProcesses;
use crate::worker::{Sources, Worker};

impl RuntimeBuilder {
    /// Starts the runtime.
    ///
    /// The first runtime of a process sets a panic hook, which calls the one that is there, and
    /// names the fiber. Set a hook of your own before or afterwards, not at the same time: `std`
    /// takes and sets hooks in two steps, so that one of two is lost.
    ///
    /// # Errors
    ///
    /// If the number of workers, the CPUs, the stack size (also that of `DAIKO_STACK_SIZE`), the
    /// value of `DAIKO_THREAD_BLOCKS`, `DAIKO_USER_WAIT`, `DAIKO_TRACK_LOCKS` or `DAIKO_DUMP`, or
    /// the selector are not possible,
    /// workers that are not bound are to be paired or to follow packets, or memory or a kernel
    /// thread is refused.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        let is_on = |name| {
            environment::is_on(name).map_err(|value| BuildError::SwitchVariable { name, value })
        };
        self.dump_on_signal |= is_on(dump::VARIABLE)?;
        self.track_locks |= is_on(deadlock::VARIABLE)?;
        let binds = self.binds()?;
        let allowed = cpu::allowed().map_err(refused("sched_getaffinity"))?;
        let cpus = self.cpus_of(&allowed)?;
        let there = Cpus::new(self.cpus.as_ref().map(|asked| asked.iter().copied().collect()));
        let workers = self.workers.unwrap_or_else(|| there.count() as usize);
        if let Some(cpus) = self.goals.cpu.filter(|cpus| !(0.0..=1e6).contains(cpus)) {
            return Err(BuildError::CpuBudget { cpus });
        }
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(BuildError::Workers { workers });
        }
        let occupied = process::occupy(&self).map_err(BuildError::Process)?;
        if let Some(kind) = self.selector {
            selector::probe(kind).map_err(BuildError::Selector)?;
        }
        overflow::install().map_err(refused("sigaction"))?;
        fiber::install_panic_hook();
        if self.dump_on_signal {
            dump::on_signal()?;
        }
        if self.track_locks || self.on_deadlock.is_some() {
            deadlock::track();
        }
        let processes = self.processes;
        let all_active = self.all_active;
        let shared =
            self.make_shared(workers, Affinity::new(allowed, cpus, binds), there.quota())?;
        // From here on a failure drops the runtime, which ends the threads that were started.
        let mut runtime = Runtime { shared, monitor: None, worker_processes: None };
        let active = ActiveLooks::new(runtime.shared(), there, all_active);
        if processes {
            let worker_processes = WorkerProcesses::start(SharedPtr(runtime.shared.0), occupied);
            runtime.worker_processes = Some(worker_processes.map_err(BuildError::Process)?);
        } else {
            let shared = runtime.shared();
            for index in 0..workers {
                let cpus = shared.affinity.of_worker(index);
                shared.start_thread(index, cpus)?;
            }
        }
        let monitor = Monitor::start(SharedPtr(runtime.shared.0), active)?;
        runtime.monitor = Some(monitor);
        Ok(runtime)
    }

    /// Returns true if workers are bound: on request, or for a setting that needs their CPUs.
    fn binds(&self) -> Result<bool, BuildError> {
        let needs = match self.placement {
            Placement::Follow => Some("placement(Placement::Follow)"),
            Placement::Default => self.pairing.unwrap_or(false).then_some("pairing(true)"),
        };
        match (self.bind, needs) {
            (Some(false), Some(setting)) => Err(BuildError::Unbound { setting }),
            (asked, _) => Ok(asked.unwrap_or(needs.is_some())),
        }
    }

    /// Returns the CPUs for workers, in the order in which these take them.
    fn cpus_of(&self, allowed: &CpuSet) -> Result<Box<[usize]>, BuildError> {
        let Some(asked) = &self.cpus else {
            return Ok(allowed.iter().collect());
        };
        let cpus: Box<[_]> = asked.iter().copied().filter(|&cpu| allowed.contains(cpu)).collect();
        if cpus.is_empty() {
            let (asked, allowed) = (asked.clone(), allowed.iter().collect());
            return Err(BuildError::NoAllowedCpu { asked, allowed });
        }
        Ok(cpus)
    }

    fn make_shared(
        self,
        workers: usize,
        affinity: Affinity,
        quota: Option<f64>,
    ) -> Result<SharedPtr, BuildError> {
        let arena = match self.arena {
            Some(arena) => arena,
            None if self.processes => process::heap::arena().map_err(BuildError::Memory)?,
            None => Arena::private(),
        };
        // One spare worker for each worker; the monitor makes more. Migratable fibers need none
        // while there is a worker that is not stuck.
        let (all, most) = match self.processes {
            true => (workers, workers),
            false => (2 * workers, (1 + self.spares).min(idle::MAX_WORKERS / workers) * workers),
        };
        let preset = self.preset.unwrap_or(match quota {
            Some(_) => Preset::Power,
            None => Preset::Balanced,
        });
        let barriers = match self.processes {
            _ if !self.membarrier => Barriers::Fences,
            true => Barriers::of_processes(),
            false => Barriers::of_threads(),
        };
        let scope = arena.scope();
        let generation = Generation::current().map_err(BuildError::Worker)?;
        let guard_kind = self.guard_kind.unwrap_or_else(|| GuardKind::probe_for(scope));
        let (kind, blocks) = match self.processes {
            true => (Kind::BORROWED_MIGRATABLE, None),
            false => (self.kind, thread_blocks(self.kind)?),
        };
        let stack_size = match self.stack_size {
            Some(size) => size,
            None => stack_size::of_environment(self.guard_size)
                .map_err(|value| BuildError::StackSizeVariable { value })?,
        };
        let user_wait =
            UserWait::chosen().map_err(|value| BuildError::UserWaitVariable { value })?;
        let pool = Pool::new(arena.clone(), guard_kind, self.guard_size, stack_size, blocks)
            .map_err(BuildError::Stack)?;
        let memory = arena.alloc(Layout::new::<RuntimeInner>()).map_err(BuildError::Memory)?;
        let workers_memory = match arena.alloc(RuntimeInner::workers_layout(most)) {
            Ok(memory) => memory,
            Err(error) => {
                // SAFETY: just allocated with this layout.
                unsafe { arena.free(memory, Layout::new::<RuntimeInner>()) };
                return Err(BuildError::Memory(error));
            }
        };
        let shared = memory.cast::<RuntimeInner>();
        let first = workers_memory.cast::<Worker>();
        for index in 0..all {
            let worker = Worker::new(shared, index as u32, barriers.access(), scope);
            // SAFETY: the memory has room for more workers.
            unsafe { first.add(index).write(worker) };
        }
        let governor = Governor::new(workers as u32, affinity.cpus().len() as u32, preset)
            .with_goals(self.goals);
        if let Some(agents) = self.max_agents {
            governor.set_max_agents(u32::try_from(agents).unwrap_or(u32::MAX));
        }
        let (on_stuck, on_deadlock, own_search) =
            (self.on_stuck, self.on_deadlock, self.own_search);
        let on_worker_start = self.on_worker_start;
        let (any_agent, processes, traced) = (self.any_agent, self.processes, self.traced);
        let bound = affinity.bound();
        let steering = Steering::new(self.placement, self.steered, bound, workers);
        let pairing = match self.pairing {
            None | Some(true) => Pairing::new(bound, self.cores, workers),
            Some(false) => Pairing::new(&[], None, 0),
        };
        let selector = if processes { Some(selector::SelectorKind::Epoll) } else { self.selector };
        let options = RuntimeOptions {
            processes,
            kind,
            traced,
            any_agent,
            selector,
            user_wait,
            on_stuck,
            on_deadlock,
            own_search,
            on_worker_start,
        };
        // SAFETY: the memory has room for it.
        unsafe {
            shared.write(RuntimeInner {
                pool,
                workers: first,
                worker_count: workers as u32,
                all_count: AtomicU32::new(all as u32),
                most: most as u32,
                injector: Injector::new(),
                idle: IdleSet::new(all),
                governor,
                sources: Sources::new(scope),
                blocking: BlockingPool::default(),
                monitor: Monitor::new(),
                hazard: Hazard::new(),
                stand_in: AtomicBool::new(false),
                lends_to_movers: AtomicBool::new(false),
                spares: AtomicU32::new(0),
                barriers,
                selector: OnceLock::new(),
                ended: Tally::new(scope),
                process_table: ProcessTable::new(scope),
                threads: Mutex::new(Vec::new()),
                steering,
                pairing,
                affinity,
                generation,
                phase: AtomicU32::new(phase::RUNNING),
                options,
                die: fiber::die,
            });
        }
        inspect::enter(shared);
        Ok(SharedPtr(shared))
    }
}

/// Returns the error for a refusal of `call`, which every runtime makes.
fn refused(call: &'static str) -> impl FnOnce(io::Error) -> BuildError {
    move |error| BuildError::Refused(RefusedCall::new(call, error, ""))
}

/// Returns the builder of thread control blocks, where there is one.
///
/// # Errors
///
/// There is none, but fibers are of a kind that has such blocks.
fn thread_blocks(kind: Kind) -> Result<Option<Blocks>, BuildError> {
    match Blocks::get() {
        Ok(blocks) => Ok(Some(blocks)),
        Err(reason) if kind.is_own() => Err(BuildError::ThreadLocals(reason)),
        Err(_) => Ok(None),
    }
}
