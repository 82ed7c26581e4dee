//! Tasks that stall beside tasks that compute, on the hardware threads of one core: P4.
//!
//! 1. There are two cores of two hardware threads each, two IO tasks and two CPU tasks. A
//!    [`Setting`] places them:
//!
//!    - `cross`, P4's proposal: IO and CPU on one core, IO and CPU on the other.
//!    - `parallel`: IO and IO on one core, CPU and CPU on the other.
//!    - `nosmt`: IO on one core, CPU on the other, which does the work of two.
//!    - `nosmt-2t-cross`: IO and CPU share one hardware thread, and likewise on the other core.
//!    - `nosmt-2t-parallel`: IO and IO share one hardware thread, CPU and CPU share another.
//!
//!    SMT is never switched off: unused hardware threads are idle. For `nosmt`, P4 states one task
//!    of each kind, and the same run time as for the settings with two of each on as many hardware
//!    threads. A task alone on a core is not slower than a task that shares it, so these run times
//!    must be of the same work, as listed above. This is deduced from P4's results; run times with
//!    `nosmt` are therefore counted separately where they are compared with P4's.
//! 2. All tasks are bound and prepared, and start together. A task that waits for a shared hardware
//!    thread has started. The IO task of a pair ends with its CPU task. With `nosmt-2t`, samples
//!    take at least half a second, which is many turns of each task.
//! 3. **Set 1**: threads. IO tasks write 256 bytes to random places: `dram` by `memmove`, `pmem` by
//!    `pmem_memmove_persist` of libpmem. A region has at least 1 GiB and at least eight times the
//!    size of the last-level cache (`region-mib`). CPU tasks are `idiv`, divisions that wait for
//!    one another, and `product` and `sum` of matrices; `size` is the number of divisions or the
//!    side of the matrices. A round does the work once.
//! 4. **Set 2**: programs. The IO task `rbtree` keeps 1,000 entries in a red-black tree of
//!    libpmemobj, and removes and inserts in transactions. CPU tasks are the programs of a named
//!    set in place of SPEC CPU (`programs`), or programs named by the user: `--cpu-task NAME=CMD`
//!    runs `/bin/sh -c CMD` in the directory where the lab was started, and takes as long as that
//!    takes. Owners of SPEC CPU 2017 build a benchmark as `rate` and name its `specinvoke`, or the
//!    commands that it shows (`specinvoke -n`), for each.
//! 5. **Memory.** Persistent memory is a folder of a DAX file system (`--pmem DIR`, `memory=dax`),
//!    which is checked. Without it, a file in `/dev/shm` is used (`memory=emulated`): the lines are
//!    flushed and awaited, but at DRAM's speed.
//! 6. **Siblings** are those of [`daiko_sys::topology`]. Each sample first proves by measurement
//!    that they are siblings (`proof`).
//! 7. **Disturbances.** Before and after a sample, a loop that uses a whole core probes each CPU in
//!    use. If it takes 5% longer than at its best, or a task of set 1 got less than 95% of its own
//!    hardware thread, the sample is taken again, at most four times (`repeats`). The last sample
//!    is taken as it is (`disturbed` is 1 then); points with such a sample are marked, and count in
//!    no conclusion. The best probe of each sample is kept (`look`): the report counts the points
//!    with a probe that is 5% longer than the best of the run, as other work was present all the
//!    time.
//!
//! `io-throughput` is that of all IO tasks together. `cpu-time` is the mean run time of the CPU
//! work: of one task in all settings except `nosmt`, where it is of both. `io-share` and
//! `cpu-share` are the parts of the time in which tasks had a CPU: the kernel's division of a CPU
//! where two tasks share one.

mod compute;
mod figures;
mod issue;
mod processes;
mod programs;
mod proof;
mod quiet;
mod run;
mod threads;
mod tree;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};

use daiko_sys::topology::Topology;

use self::compute::{ComputeKernel, ComputeKind};
use self::figures::{LOOK, NAME};
use self::programs::{Program, Work};
use self::quiet::{Quiet, undisturbed};
use self::run::{Amount, PairDone};
use self::writer::WriteTarget;
use crate::kit::p4::comparison::{DISTURBED, DRAM, PMEM, RBTREE};
use crate::kit::p4::published::{self, CPU_TIME, IO_THROUGHPUT};
pub use crate::kit::p4::setting::{Cores, Pair, Setting};
use crate::kit::{
    Choice, CpuTask, Effort, Experiment, Failure, List, Measure, Memory, Options, Params, Plan,
    Reading, Rounds, Sample, Skip, Unit, host, pmem,
};

const MIB: u64 = 1 << 20;
/// Smallest region, in MiB.
const LEAST_REGION: u64 = 1024;
const CACHES_OF_A_REGION: u64 = 8;
/// Smallest share of a hardware thread for a task that has it to itself.
const OWN_SHARE: f64 = 0.95;
/// Shortest sample of tasks that share a hardware thread: each has at least twenty turns in it, of
/// up to 12 ms each, as long as those of the other task.
const SHARED_LEAST: Duration = Duration::from_millis(500);
/// Repeats end this long after a sample's limit.
const REPEATS_END: Duration = Duration::from_secs(10);

/// P4's settings, measured.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "tasks that stall on memory beside tasks that compute, on siblings of a core or not (P4); needs SMT",
    sizes: &["size"],
    lists: &[List::CpuTasks, List::Pmem],
    methods: || Setting::all().map(Setting::name).collect(),
    cases,
    measure,
    published: || published::points(NAME),
    sections: figures::sections,
};

fn cases(plan: &mut Plan<'_>) {
    let machine = host::topology();
    let cores = machine.as_ref().map_err(Skip::clone).and_then(Cores::find);
    let region = machine.as_ref().map_or(LEAST_REGION, region_mib);
    for (params, missing) in points(plan.options, region) {
        for setting in Setting::all() {
            let rounds = cores.clone().and(missing.clone());
            let rounds = rounds.map(|()| Rounds::Calibrated { first: 1 });
            plan.add(setting.name(), params.clone(), rounds);
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let job = SmtJob::of(method, params)?;
    Some(Box::new(move |effort| {
        let cores = Cores::find(&host::topology()?)?;
        proof::prove(&cores)?;
        job.sample(&cores, effort)
    }))
}

/// Parameters of a point.
#[derive(Debug)]
struct SmtJob {
    setting: Setting,
    tasks: Tasks,
}

#[derive(Debug)]
enum Tasks {
    Threads {
        target: WriteTarget,
        kernel: ComputeKernel,
    },
    /// A user's `own` program reads no inputs of the lab's.
    Programs {
        memory: Memory,
        command: String,
        own: bool,
    },
}

impl SmtJob {
    fn of(method: &str, params: &Params) -> Option<Self> {
        let tasks = match params.text("io")? {
            RBTREE => Tasks::programs(params)?,
            io => Tasks::threads(io, params)?,
        };
        Some(Self { setting: Setting::from_name(method)?, tasks })
    }

    /// Takes a sample on `cores`, which may be any CPUs.
    fn sample(&self, cores: &Cores, effort: Effort) -> Result<Sample, Failure> {
        let pairs = self.setting.pairs(cores);
        let times = effort.rounds.max(1).saturating_mul(self.setting.work());
        let least = if self.setting.has_threads_alone() { Duration::ZERO } else { SHARED_LEAST };
        let amount = Amount { times, least, limit: effort.limit };
        let inputs = self.tasks.inputs()?;
        let folder = inputs.as_ref().map(tempfile::TempDir::path);
        let mut cpus: Vec<usize> = pairs.iter().flat_map(|pair| [pair.io, pair.cpu]).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let end = || Instant::now() + effort.limit + REPEATS_END;
        // Programs of users have no time limit.
        let is_own = matches!(self.tasks, Tasks::Programs { own: true, .. });
        let quiet = undisturbed(&cpus, (!is_own).then(end), || {
            let done = self.tasks.run(&pairs, folder, amount)?;
            let robbed = self.setting.has_threads_alone() && self.tasks.are_robbed(&done);
            Ok((done, robbed))
        })?;
        Ok(sample_of(self.setting, &quiet))
    }
}

impl Tasks {
    fn threads(io: &str, params: &Params) -> Option<Self> {
        let memory = match io {
            DRAM => None,
            PMEM => Some(Memory::from_params(params)?),
            _ => return None,
        };
        let bytes = params.number("region-mib")?.checked_mul(MIB).filter(|&bytes| bytes > 0)?;
        let target = WriteTarget { memory, bytes: bytes.try_into().ok()? };
        let kind: ComputeKind = params.choice("cpu")?;
        let size = params.number("size").filter(|size| (1..=kind.most()).contains(size))?;
        Some(Self::Threads { target, kernel: ComputeKernel { kind, size } })
    }

    fn programs(params: &Params) -> Option<Self> {
        let memory = Memory::from_params(params)?;
        let (command, own) = match params.text("command") {
            Some(command) => (command, true),
            None => (Program::from_name(params.text("cpu")?)?.command, false),
        };
        Some(Self::Programs { memory, command: command.into(), own })
    }

    /// Creates a folder with the input files of the set's programs.
    fn inputs(&self) -> Result<Option<tempfile::TempDir>, Failure> {
        let Self::Programs { own: false, .. } = self else { return Ok(None) };
        let folder = host::temporary_folder()?;
        programs::make_inputs(folder.path())?;
        Ok(Some(folder))
    }

    fn run(
        &self,
        pairs: &[Pair],
        inputs: Option<&Path>,
        amount: Amount,
    ) -> Result<Vec<PairDone>, Failure> {
        match self {
            Self::Threads { target, kernel } => {
                target.check_room(pairs.len())?;
                threads::run(pairs, target, *kernel, amount)
            }
            Self::Programs { memory, command, .. } => {
                let folder = inputs.map(Path::to_owned);
                let work = Work { command: command.clone(), folder };
                processes::run(pairs, memory, &work, amount)
            }
        }
    }

    /// Whether other work took a hardware thread from tasks that never block. Programs may block.
    fn are_robbed(&self, done: &[PairDone]) -> bool {
        let short = |done: &PairDone| share(&done.io).min(share(&done.cpu)) < OWN_SHARE;
        matches!(self, Self::Threads { .. }) && done.iter().any(short)
    }
}

/// The part of its time in which a task had a CPU.
fn share(done: &run::Done) -> f64 {
    done.cpu.as_secs_f64() / done.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn sample_of(setting: Setting, quiet: &Quiet<Vec<PairDone>>) -> Sample {
    let done = &quiet.outcome;
    let mean =
        |value: &dyn Fn(&PairDone) -> f64| done.iter().map(value).sum::<f64>() / done.len() as f64;
    let seconds = |time: Duration| time.as_secs_f64().max(f64::MIN_POSITIVE);
    let throughput = |done: &PairDone| done.io.count as f64 / seconds(done.io.elapsed);
    let work = setting.work() as f64;
    let time = |done: &PairDone| done.cpu.elapsed.as_nanos() as f64 / done.cpu.count as f64 * work;
    let readings = vec![
        Reading::stat(Unit::PerSecond, IO_THROUGHPUT, done.iter().map(throughput).sum()),
        Reading::stat(Unit::Nanoseconds, CPU_TIME, mean(&time)),
        Reading::stat(Unit::CpuPercent, "io-share", mean(&|done| 100.0 * share(&done.io))),
        Reading::stat(Unit::CpuPercent, "cpu-share", mean(&|done| 100.0 * share(&done.cpu))),
        Reading::stat(Unit::Count, "repeats", quiet.repeats as f64),
        Reading::stat(Unit::Count, DISTURBED, f64::from(u8::from(quiet.disturbed))),
        Reading::stat(Unit::Nanoseconds, LOOK, quiet.best.as_nanos() as f64),
    ];
    let rounds = done.iter().map(|done| done.cpu.count / setting.work()).min();
    let elapsed = done.iter().map(|done| done.cpu.elapsed).max();
    Sample {
        rounds: rounds.unwrap_or_default().max(1),
        elapsed: elapsed.unwrap_or_default(),
        readings,
    }
}

/// Size of a region in MiB: far larger than the last-level cache.
fn region_mib(machine: &Topology) -> u64 {
    let last = machine.largest_cache().unwrap_or_default();
    LEAST_REGION.max((CACHES_OF_A_REGION * last).div_ceil(MIB))
}

/// Parameters of all points, with the missing requirements on this machine.
fn points(options: &Options, region: u64) -> Vec<(Params, Result<(), Skip>)> {
    let memory = Memory::new(options.pmem.as_deref());
    let mut points = Vec::new();
    for (io, found) in [(DRAM, Ok(())), (PMEM, pmem::require_libpmem())] {
        for kind in ComputeKind::all() {
            for &size in kind.sizes(options.quick) {
                let params = Params::new().with("io", io).with("cpu", kind);
                let params = match io {
                    PMEM => memory.tell(params),
                    _ => params.with("memory", "dram"),
                };
                let params = params.with("region-mib", region).with("size", size);
                points.push((params, found.clone()));
            }
        }
    }
    let found = tree::supports();
    let of_set2 = |name: &str| memory.tell(Params::new().with("io", RBTREE).with("cpu", name));
    match &options.cpu_tasks {
        Some(tasks) => points.extend(tasks.iter().map(|CpuTask { name, command }| {
            (of_set2(name).with("command", command.as_str()), found.clone())
        })),
        None => points.extend(
            programs::ALL
                .iter()
                .map(|program| (of_set2(program.name), program.supports().and(found.clone()))),
        ),
    }
    points
}

#[cfg(test)]
mod tests;
